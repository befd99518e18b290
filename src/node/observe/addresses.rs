//! Looking for the node's addresses: at the start, when the kernel says that addresses or routes of this host changed, and
//! now and then.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::address::{AddressError, KnownAddresses, choose, needs_lookup};
use crate::node::Settings;
use crate::node::addresses::ShowAddresses;
use crate::sys::{AddressChanges, is_own_ip, outgoing_ips};
use crate::telemetry::Changed;
use crate::types::error_chain;

/// Pause between two looks when the kernel says nothing. The name may have got another address.
const PERIOD: Duration = Duration::from_secs(60);

/// Pause after a look that failed. Not shorter: each look may leave a thread behind that waits for a name server.
const PERIOD_FAILING: Duration = Duration::from_secs(5);

/// Pause after a word of the kernel: changes come in bursts, an address a moment before its route; and each pod's network
/// makes some.
const SETTLE: Duration = Duration::from_millis(500);

/// How long DNS may take to say which address the node's name has.
const LOOKUP: Duration = Duration::from_secs(5);

/// Looks for the node's addresses.
pub struct AddressObserver {
    /// What the node is to be.
    pub settings: Arc<Settings>,
    /// The Node as the API server shows it; none alone on a host.
    pub node: Option<watch::Receiver<Option<Arc<Node>>>>,
}

/// What costs nothing to look at, and changes whenever the addresses of the host do.
#[derive(PartialEq, Eq)]
struct Glance {
    outgoing: Vec<IpAddr>,
    has: Vec<bool>,
}

impl Glance {
    fn of(given: &[IpAddr]) -> Self {
        Self { outgoing: outgoing_ips(), has: given.iter().map(|ip| is_own_ip(*ip)).collect() }
    }
}

impl AddressObserver {
    /// Shows the addresses until cancelled. Those that were found once stay until others are found: an interface that is
    /// down for a moment makes no node without address.
    pub async fn run(mut self, show: ShowAddresses, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waiting for a token takes nothing.
            () = cancel.cancelled() => {}
            // Cancel-safe: looking changes nothing.
            () = self.work(&show) => {}
        }
    }

    async fn work(&mut self, show: &ShowAddresses) {
        let mut hints = AddressChanges::open();
        if let Err(error) = &hints {
            tracing::warn!(
                error = error_chain(error),
                "changes of this host's addresses are noticed each minute only"
            );
        }
        let mut trouble = Changed::new();
        loop {
            let glance = Glance::of(&self.settings.node_ips);
            let found = self.look().await;
            let (ips, problem) = match found {
                Ok(ips) => (Some(ips), None),
                Err(error) => (None, Some(error.to_string())),
            };
            publish(show, ips);
            let pause = if problem.is_some() { PERIOD_FAILING } else { PERIOD };
            if trouble.see(problem.clone())
                && let Some(error) = problem
            {
                tracing::warn!(error, "the addresses of this node are not known; looking again");
            }
            let until = Instant::now() + pause;
            loop {
                tokio::select! {
                    // Cancel-safe: a pause takes nothing.
                    () = sleep_until(until) => break,
                    // Cancel-safe: see there.
                    () = told_by_cloud(&self.settings, &mut self.node) => break,
                    // Cancel-safe: what it drops is a hint, and the next look sees what it was about.
                    () = hint(&mut hints) => {
                        sleep(SETTLE).await;
                        if Glance::of(&self.settings.node_ips) != glance {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn look(&self) -> Result<Vec<IpAddr>, AddressError> {
        let Settings { name, node_ips, .. } = &*self.settings;
        let Some(node) = &self.node else { return alone(name, node_ips, &outgoing_ips()) };
        if self.settings.node.external_cloud {
            let shown = node.borrow().as_ref().map(|node| of_node(node)).unwrap_or_default();
            if !shown.is_empty() {
                return Ok(shown);
            }
            if node_ips.is_empty() {
                // The cloud controller's to say.
                return Ok(Vec::new());
            }
        }
        let by_name = if needs_lookup(node_ips, name) { lookup(name).await } else { Vec::new() };
        choose(
            name,
            &KnownAddresses {
                given: node_ips,
                by_name: &by_name,
                outgoing: &outgoing_ips(),
                is_own: &is_own_ip,
            },
        )
    }
}

/// Shows what was found, if that is news; nothing found leaves what was shown.
fn publish(show: &ShowAddresses, found: Option<Vec<IpAddr>>) {
    show.send_if_modified(|shown| {
        let is_news = match (&found, &*shown) {
            (Some(found), Some(shown)) => **found != **shown,
            (Some(_), None) | (None, None) => true,
            (None, Some(_)) => false,
        };
        if is_news {
            let found: Arc<[IpAddr]> = found.unwrap_or_default().into();
            tracing::info!(addresses = ?found, "addresses of this node");
            *shown = Some(found);
        }
        is_news
    });
}

/// The addresses of a host alone: nobody else has to reach it by its name, and while it has no network, loopback is where its
/// pods reach it.
fn alone(name: &str, given: &[IpAddr], outgoing: &[IpAddr]) -> Result<Vec<IpAddr>, AddressError> {
    let found = match given {
        [] if !outgoing.is_empty() => Ok(outgoing.to_vec()),
        given => choose(name, &KnownAddresses { given, by_name: &[], outgoing, is_own: &is_own_ip }),
    };
    match found {
        Err(AddressError::NotFound) => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        found => found,
    }
}

/// The addresses that a Node shows as its own, as upstream takes them for those of its pods' host: internal ones first; the
/// first one, and the first of the other family.
fn of_node(node: &Node) -> Vec<IpAddr> {
    let shown = || node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let of = |kind: &'static str| {
        shown()
            .filter(move |address| address.type_ == kind)
            .filter_map(|address| address.address.parse().ok())
    };
    let all: Vec<IpAddr> = of("InternalIP").chain(of("ExternalIP")).collect();
    let first = all.first().copied();
    let other = first.and_then(|first| all.iter().find(|ip| ip.is_ipv6() != first.is_ipv6()).copied());
    first.into_iter().chain(other).collect()
}

/// Waits until a Node that a cloud controller writes addresses into shows others. Cancel-safe.
async fn told_by_cloud(settings: &Settings, node: &mut Option<watch::Receiver<Option<Arc<Node>>>>) {
    let Some(node) = node.as_mut().filter(|_| settings.node.external_cloud) else {
        return std::future::pending().await;
    };
    let before = node.borrow_and_update().as_ref().map(|node| of_node(node));
    // A watch marks its value seen only when `wait_for` looks at it, and it is looked at again from the start.
    let is_other = |node: &Option<Arc<Node>>| node.as_ref().map(|node| of_node(node)) != before;
    if node.wait_for(is_other).await.is_err() {
        std::future::pending().await
    }
}

/// Waits for a word of the kernel; for ever if it cannot be heard. Cancel-safe.
async fn hint(hints: &mut std::io::Result<AddressChanges>) {
    let heard = match hints {
        Ok(hints) => hints.next().await,
        Err(_) => std::future::pending().await,
    };
    if let Err(error) = heard {
        *hints = Err(error);
    }
}

/// What DNS says; nothing if it says nothing in time.
async fn lookup(name: &str) -> Vec<IpAddr> {
    match tokio::time::timeout(LOOKUP, tokio::net::lookup_host((name, 0))).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::{NodeAddresses, testing};

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_host_alone_has_loopback_until_it_has_a_network() {
        assert_eq!(alone("n", &[], &[]), Ok(ips(&["127.0.0.1"])));
        assert_eq!(alone("n", &ips(&["0.0.0.0"]), &[]), Ok(ips(&["127.0.0.1"])));
        let outgoing = ips(&["10.0.0.3", "fd00::3"]);
        assert_eq!(alone("n", &[], &outgoing), Ok(outgoing.clone()));
        assert_eq!(alone("n", &ips(&["0.0.0.0"]), &outgoing), Ok(ips(&["10.0.0.3"])));
        assert_eq!(alone("n", &ips(&["::"]), &outgoing), Ok(ips(&["fd00::3"])));
    }

    #[test]
    fn a_clouds_node_has_the_addresses_it_shows() {
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        let addresses = [
            address("ExternalIP", "192.0.2.9"),
            address("Hostname", "n"),
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "10.0.0.2"),
            address("InternalIP", "fd00::1"),
        ];
        let node: Node = serde_json::from_value(json!({"status": {"addresses": addresses}})).unwrap();
        assert_eq!(of_node(&node), ips(&["10.0.0.1", "fd00::1"]));
        assert_eq!(of_node(&Node::default()), ips(&[]));
    }

    #[test]
    fn what_was_found_once_stays_until_there_is_something_else() {
        let (show, shown) = NodeAddresses::new();
        assert!(!shown.is_known());
        publish(&show, None);
        assert!(shown.is_known() && shown.now().is_empty());
        publish(&show, Some(ips(&["10.0.0.1"])));
        publish(&show, None);
        assert_eq!(*shown.now(), *ips(&["10.0.0.1"]));
    }

    #[tokio::test]
    async fn a_cloud_controllers_word_is_heard() {
        let mut settings = testing::settings();
        settings.node.external_cloud = true;
        let cloud = watch::Sender::new(None);
        let observer = AddressObserver { settings: Arc::new(settings), node: Some(cloud.subscribe()) };
        let (show, mut shown) = NodeAddresses::new();
        let cancel = CancellationToken::new();
        let _ended = cancel.clone().drop_guard();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(observer.run(show, cancel));
        shown.known().await;
        assert!(shown.now().is_empty(), "nobody has told any yet");
        let addresses = json!([{"type": "InternalIP", "address": "10.0.0.1"}]);
        let node: Node = serde_json::from_value(json!({"status": {"addresses": addresses}})).unwrap();
        cloud.send_replace(Some(Arc::new(node)));
        let heard = async {
            while *shown.now() != *ips(&["10.0.0.1"]) {
                shown.changed().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), heard).await.unwrap();
    }
}

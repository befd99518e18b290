//! Finds the node's addresses: at the start, when the kernel reports a change of addresses or routes, and periodically.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::AddressPublisher;
use hostlet_base::{error_chain, watching};
use hostlet_host::{AddressChanges, NameLookups, is_own_ip, outgoing_ips};
use hostlet_telemetry::Changed;
use k8s_openapi::api::core::v1::Node;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::address::{AddressError, KnownAddresses, choose, needs_lookup};
use crate::node::NodeSettings;

/// Interval between lookups without a kernel notification: DNS may have a new address for the name.
const PERIOD: Duration = Duration::from_secs(60);

/// Pause after a failed lookup.
const PERIOD_FAILING: Duration = Duration::from_secs(5);

/// Pause after a kernel notification: changes come in bursts, an address just before its route, and each pod's network
/// causes some.
const SETTLE_PAUSE: Duration = Duration::from_millis(500);

/// Timeout of resolving the node's name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Finds the node's addresses.
pub struct AddressObserver {
    /// The Node's settings.
    pub settings: Arc<NodeSettings>,
    /// The Node object; `None` on a standalone node.
    pub node: Option<watch::Receiver<Option<Arc<Node>>>>,
}

/// A cheap fingerprint that changes whenever the relevant addresses of the host do.
#[derive(PartialEq, Eq)]
struct Fingerprint {
    outgoing: Vec<IpAddr>,
    is_assigned: Vec<bool>,
}

impl Fingerprint {
    fn of(given: &[IpAddr]) -> Self {
        Self { outgoing: outgoing_ips(), is_assigned: given.iter().map(|ip| is_own_ip(*ip)).collect() }
    }
}

impl AddressObserver {
    /// Publishes the addresses until cancelled. Addresses stay until others are found: an interface that is down for a moment
    /// does not leave the node without an address.
    pub async fn run(mut self, publisher: AddressPublisher, cancel: CancellationToken) {
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: it only reads.
            () = self.work(&publisher) => {}
        }
    }

    async fn work(&mut self, publisher: &AddressPublisher) {
        let mut notifications = AddressChanges::open();
        if let Err(error) = &notifications {
            tracing::warn!(
                error = error_chain(error),
                "cannot watch the addresses of this host; checking them every minute"
            );
        }
        let (names, mut last_error) = (NameLookups::default(), Changed::new());
        loop {
            let fingerprint = Fingerprint::of(&self.settings.node_ips);
            let found = self.find(&names).await;
            let (ips, problem) = match found {
                Ok(ips) => (Some(ips), None),
                Err(error) => (None, Some(error.to_string())),
            };
            publish(publisher, ips);
            let pause = if problem.is_some() { PERIOD_FAILING } else { PERIOD };
            if last_error.see(problem.clone())
                && let Some(error) = problem
            {
                tracing::warn!(error, "cannot determine the addresses of this node; trying again");
            }
            let until = Instant::now() + pause;
            loop {
                tokio::select! {
                    // Cancel-safe: a sleep.
                    () = sleep_until(until) => break,
                    // Cancel-safe as documented there.
                    () = changed_by_cloud(&self.settings, &mut self.node) => break,
                    // Cancel-safe: the next lookup compensates for a dropped notification.
                    () = notification(&mut notifications) => {
                        sleep(SETTLE_PAUSE).await;
                        if Fingerprint::of(&self.settings.node_ips) != fingerprint {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn find(&self, names: &NameLookups) -> Result<Vec<IpAddr>, AddressError> {
        let NodeSettings { name, node_ips, .. } = &*self.settings;
        let Some(node) = &self.node else { return standalone(name, node_ips, &outgoing_ips()) };
        if self.settings.node.external_cloud {
            let reported = node.borrow().as_ref().map(|node| of_node(node)).unwrap_or_default();
            if !reported.is_empty() {
                return Ok(reported);
            }
            if node_ips.is_empty() {
                // The cloud controller manager sets them.
                return Ok(Vec::new());
            }
        }
        let by_name = if needs_lookup(node_ips, name) { lookup(names, name).await } else { Vec::new() };
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

/// Publishes what was found if it changed; if nothing was found, the published addresses stay.
fn publish(publisher: &AddressPublisher, found: Option<Vec<IpAddr>>) {
    publisher.send_if_modified(|published| {
        let is_changed = match (&found, &*published) {
            (Some(found), Some(published)) => **found != **published,
            (Some(_), None) | (None, None) => true,
            (None, Some(_)) => false,
        };
        if is_changed {
            let found: Arc<[IpAddr]> = found.unwrap_or_default().into();
            tracing::info!(addresses = ?found, "addresses of this node");
            *published = Some(found);
        }
        is_changed
    });
}

/// The addresses of a standalone node: its name need not resolve, and without a network, pods reach it on loopback.
fn standalone(name: &str, given: &[IpAddr], outgoing: &[IpAddr]) -> Result<Vec<IpAddr>, AddressError> {
    let found = match given {
        [] if !outgoing.is_empty() => Ok(outgoing.to_vec()),
        given => choose(name, &KnownAddresses { given, by_name: &[], outgoing, is_own: &is_own_ip }),
    };
    match found {
        Err(AddressError::NotFound) => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        found => found,
    }
}

/// The addresses in a Node's status that upstream uses as host IPs of pods: internal ones before external ones; the first,
/// and the first of the other family.
fn of_node(node: &Node) -> Vec<IpAddr> {
    let addresses = || node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    let of = |kind: &'static str| {
        addresses()
            .filter(move |address| address.type_ == kind)
            .filter_map(|address| address.address.parse().ok())
    };
    let all: Vec<IpAddr> = of("InternalIP").chain(of("ExternalIP")).collect();
    let first = all.first().copied();
    let other = first.and_then(|first| all.iter().find(|ip| ip.is_ipv6() != first.is_ipv6()).copied());
    first.into_iter().chain(other).collect()
}

/// Waits until a cloud controller manager changes the addresses in the Node. Cancel-safe: the next lookup finds a change between
/// two calls.
async fn changed_by_cloud(settings: &NodeSettings, node: &mut Option<watch::Receiver<Option<Arc<Node>>>>) {
    let Some(node) = node.as_mut().filter(|_| settings.node.external_cloud) else {
        return std::future::pending().await;
    };
    let before = node.borrow_and_update().as_ref().map(|node| of_node(node));
    let is_changed = |node: &Option<Arc<Node>>| node.as_ref().map(|node| of_node(node)) != before;
    watching::becomes(node, is_changed).await;
}

/// Waits for a kernel notification; forever if there are none. Cancel-safe.
async fn notification(notifications: &mut std::io::Result<AddressChanges>) {
    let received = match notifications {
        Ok(notifications) => notifications.next().await,
        Err(_) => std::future::pending().await,
    };
    if let Err(error) = received {
        *notifications = Err(error);
    }
}

/// Resolves the name; empty on failure or timeout.
async fn lookup(names: &NameLookups, name: &str) -> Vec<IpAddr> {
    match tokio::time::timeout(LOOKUP_TIMEOUT, names.lookup(name, name)).await {
        Ok(Ok(found)) => found.to_vec(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::testing;
    use hostlet_base::node::NodeAddresses;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_standalone_node_has_loopback_until_it_has_a_network() {
        assert_eq!(standalone("n", &[], &[]), Ok(ips(&["127.0.0.1"])));
        assert_eq!(standalone("n", &ips(&["0.0.0.0"]), &[]), Ok(ips(&["127.0.0.1"])));
        let outgoing = ips(&["10.0.0.3", "fd00::3"]);
        assert_eq!(standalone("n", &[], &outgoing), Ok(outgoing.clone()));
        assert_eq!(standalone("n", &ips(&["0.0.0.0"]), &outgoing), Ok(ips(&["10.0.0.3"])));
        assert_eq!(standalone("n", &ips(&["::"]), &outgoing), Ok(ips(&["fd00::3"])));
    }

    #[test]
    fn a_cloud_node_has_the_addresses_of_its_status() {
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
    fn addresses_stay_until_others_are_found() {
        let (show, shown) = NodeAddresses::new();
        assert!(!shown.is_known());
        publish(&show, None);
        assert!(shown.is_known() && shown.now().is_empty());
        publish(&show, Some(ips(&["10.0.0.1"])));
        publish(&show, None);
        assert_eq!(*shown.now(), *ips(&["10.0.0.1"]));
    }

    #[tokio::test]
    async fn addresses_set_by_a_cloud_controller_are_used() {
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
        assert!(shown.now().is_empty(), "no addresses yet");
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

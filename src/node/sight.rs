//! The Node as it was last seen, by whoever saw it: the task that writes it, the watch of it, and who reads it anew. Never
//! goes back to an older one; changes nothing.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::watcher::{Config, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::request::within;
use crate::api::{ApiErrorKind, Objects, Wire, follow};
use crate::telemetry::Changed;

/// What is known of the Node. All clones are one value; none before it was seen, and after it was deleted.
#[derive(Clone, Debug, Default)]
pub struct NodeSight(watch::Sender<Option<Arc<Node>>>);

impl NodeSight {
    /// The Node as it is seen from now on.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.0.subscribe()
    }

    /// Its `resourceVersion`.
    pub(super) fn version(&self) -> Option<String> {
        self.0.borrow().as_ref().and_then(|node| node.metadata.resource_version.clone())
    }

    /// Takes in the Node as an answer or an event has it, unless something newer is known.
    pub(super) fn saw(&self, node: Node) {
        self.0.send_if_modified(|known| {
            let is_news = known.as_ref().is_none_or(|known| is_newer(&node, known));
            if is_news {
                *known = Some(Arc::new(node));
            }
            is_news
        });
    }

    /// There is none.
    pub(super) fn gone(&self) {
        self.0.send_if_modified(|known| known.take().is_some());
    }
}

/// Versions of the API server's own objects are numbers that grow, and may be compared as such (since Kubernetes 1.35 that is
/// promised). Of versions that are none, the one that comes later is taken for newer.
fn is_newer(node: &Node, known: &Node) -> bool {
    let version = |node: &Node| node.metadata.resource_version.clone().unwrap_or_default();
    let (new, old) = (version(node), version(known));
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new > old,
        _ => new != old,
    }
}

/// Reads the Node when what was last seen of it will not do.
#[derive(Clone)]
pub struct NodeReader {
    nodes: Objects<Node>,
    name: String,
    limit: Duration,
    sight: NodeSight,
}

impl NodeReader {
    /// Reads the Node `name` with `client`, each time for at most `limit`.
    pub fn new(client: Client, name: String, limit: Duration, sight: NodeSight) -> Self {
        Self { nodes: Objects::all(client), name, limit, sight }
    }

    /// Reads it as it is now, not as a cache has it, and shows it before this returns.
    pub async fn read(&self) -> Result<(), ApiErrorKind> {
        match within(self.limit, self.nodes.get(&self.name)).await {
            Ok(Wire(node)) => {
                self.sight.saw(node);
                Ok(())
            }
            Err(error) => {
                let error_kind = error.error_kind();
                if error_kind == ApiErrorKind::NotFound {
                    self.sight.gone();
                }
                Err(error_kind)
            }
        }
    }
}

/// Watches the Node `name` and shows it, until cancelled.
pub async fn watch_node(client: Client, name: String, sight: NodeSight, cancel: CancellationToken) {
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut trouble = Changed::new();
    let mut is_listed = false;
    let following = follow(Objects::<Node>::all(client), config, |news| {
        match news {
            Ok(event) => {
                trouble = Changed::new();
                match event {
                    Event::Init => is_listed = false,
                    Event::InitApply(node) | Event::Apply(node) => {
                        is_listed = true;
                        sight.saw(node);
                    }
                    Event::InitDone if is_listed => {}
                    Event::InitDone | Event::Delete(_) => sight.gone(),
                }
            }
            Err(error) => {
                if trouble.see(error.message.clone()) {
                    tracing::warn!(node = name, error = error.message, "cannot watch the Node; trying again");
                }
            }
        }
        ControlFlow::Continue(())
    });
    tokio::select! {
        // Cancel-safe: waiting for a token takes nothing.
        () = cancel.cancelled() => {}
        // Cancel-safe: what was seen was shown.
        () = following => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fake::{ApiFault, ApiRule, FakeApi};
    use crate::types::WallClock;

    const PATH: &str = "/api/v1/nodes/node1";

    fn node(version: &str, label: &str) -> Node {
        let metadata = json!({"name": "node1", "resourceVersion": version, "labels": {"x": label}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn label(node: Option<&Arc<Node>>) -> Option<String> {
        node?.metadata.labels.as_ref()?.get("x").cloned()
    }

    #[test]
    fn an_older_node_is_no_news() {
        let sight = NodeSight::default();
        let shown = sight.subscribe();
        for (version, is_shown) in [("9", "9"), ("10", "10"), ("9", "10"), ("11", "11")] {
            sight.saw(node(version, version));
            assert_eq!(label(shown.borrow().as_ref()).as_deref(), Some(is_shown));
        }
        sight.gone();
        assert!(shown.borrow().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_seen_when_it_happens_and_a_deletion_too() {
        let api = FakeApi::new(WallClock::system());
        let (sight, cancel) = (NodeSight::default(), CancellationToken::new());
        let mut shown = sight.subscribe();
        let watching = watch_node(api.client(), "node1".to_owned(), sight, cancel.clone());
        let _ended = cancel.drop_guard();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(watching);
        for value in ["a", "b"] {
            api.put(PATH, &node("", value));
            let seen = shown.wait_for(|node| label(node.as_ref()).as_deref() == Some(value));
            tokio::time::timeout(Duration::from_secs(600), seen).await.unwrap().unwrap();
        }
        api.delete(PATH, None);
        let gone = shown.wait_for(Option::is_none);
        tokio::time::timeout(Duration::from_secs(600), gone).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_is_shown_and_a_reading_ends() {
        let api = FakeApi::new(WallClock::system());
        let sight = NodeSight::default();
        let reader =
            NodeReader::new(api.client(), "node1".to_owned(), Duration::from_secs(10), sight.clone());
        assert_eq!(reader.read().await, Err(ApiErrorKind::NotFound));
        api.put(PATH, &node("", "a"));
        assert_eq!(reader.read().await, Ok(()));
        assert_eq!(label(sight.subscribe().borrow().as_ref()).as_deref(), Some("a"));
        api.fail(ApiRule::once("GET", "/nodes", ApiFault::Hang));
        assert_eq!(reader.read().await, Err(ApiErrorKind::Unavailable));
    }
}

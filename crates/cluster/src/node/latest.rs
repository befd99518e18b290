//! The latest known Node object, from whatever request or watch returned it. Never replaced by an older version; writes
//! nothing to the API server.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hostlet_base::node::{NodeReadError, NodeReader};
use hostlet_telemetry::Changed;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::watcher::{Config, Event};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::request::within;
use crate::api::{ApiErrorKind, Notification, TypedApi, Wire, follow_with_recovery};

/// The latest known Node; `None` before it is first seen and after its deletion. Clones share one value.
#[derive(Clone, Debug, Default)]
pub struct LatestNode {
    node: watch::Sender<Option<Arc<Node>>>,
    /// Whether a watch is open, so that the Node is the current one.
    is_watched: Arc<AtomicBool>,
}

impl LatestNode {
    /// Follows the Node.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Node>>> {
        self.node.subscribe()
    }

    /// The Node, if a watch shows each of its changes.
    pub(super) fn watched(&self) -> Option<Arc<Node>> {
        self.node.borrow().clone().filter(|_| self.is_watched.load(Ordering::Relaxed))
    }

    fn set_watched(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// Its `resourceVersion`.
    pub(super) fn version(&self) -> Option<String> {
        self.node.borrow().as_ref().and_then(|node| node.metadata.resource_version.clone())
    }

    /// Stores the Node from a response or watch event, unless a newer one is known.
    pub(crate) fn update(&self, node: Node) {
        self.node.send_if_modified(|known| {
            let is_newest = known.as_ref().is_none_or(|known| is_newer(&node, known));
            if is_newest {
                *known = Some(Arc::new(node));
            }
            is_newest
        });
    }

    /// Records that the Node does not exist.
    pub(super) fn clear(&self) {
        self.node.send_if_modified(|known| known.take().is_some());
    }
}

/// Compares resource versions, which are increasing numbers (guaranteed since Kubernetes 1.35). If they are not numbers, the
/// one that arrives later counts as newer.
fn is_newer(node: &Node, known: &Node) -> bool {
    let version = |node: &Node| node.metadata.resource_version.clone().unwrap_or_default();
    let (new, old) = (version(node), version(known));
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new > old,
        _ => new != old,
    }
}

/// Reads the Node when the latest known one may be too old.
pub struct ApiNodeReader {
    nodes: TypedApi<Node>,
    name: String,
    limit: Duration,
    latest_node: LatestNode,
}

impl ApiNodeReader {
    /// Reads the Node `name` with `client`; each read has the timeout `limit`.
    pub fn new(client: Client, name: String, limit: Duration, latest_node: LatestNode) -> Self {
        Self { nodes: TypedApi::all(client), name, limit, latest_node }
    }
}

impl NodeReader for ApiNodeReader {
    /// Reads from etcd, not from the API server's cache.
    fn read(&self) -> BoxFuture<'_, Result<(), NodeReadError>> {
        let reading = async {
            let error_kind = match within(self.limit, self.nodes.get(&self.name)).await {
                Ok(Wire(node)) => {
                    self.latest_node.update(node);
                    return Ok(());
                }
                Err(error) => error.error_kind(),
            };
            match error_kind {
                ApiErrorKind::TooMany(_) | ApiErrorKind::Unavailable => {
                    Err(NodeReadError { retry_after: error_kind.retry_after() })
                }
                ApiErrorKind::NotFound => {
                    self.latest_node.clear();
                    Ok(())
                }
                ApiErrorKind::AlreadyExists
                | ApiErrorKind::Conflict
                | ApiErrorKind::Forbidden
                | ApiErrorKind::Invalid => Ok(()),
            }
        };
        reading.boxed()
    }
}

/// Watches the Node `name` and publishes it, until cancelled.
pub async fn watch_node(client: Client, name: String, latest_node: LatestNode, cancel: CancellationToken) {
    let config = Config::default().fields(&format!("metadata.name={name}"));
    let mut last_error = Changed::new();
    let mut is_listed = false;
    let follow_node = follow_with_recovery(client, TypedApi::<Node>::all, config, |notification| {
        match notification {
            Notification::Event(event) => {
                last_error = Changed::new();
                let is_listing = matches!(event, Event::Init | Event::InitApply(_));
                match event {
                    Event::Init => is_listed = false,
                    Event::InitApply(node) | Event::Apply(node) => {
                        is_listed = true;
                        latest_node.update(node);
                    }
                    Event::InitDone if is_listed => {}
                    Event::InitDone | Event::Delete(_) => latest_node.clear(),
                }
                latest_node.set_watched(!is_listing);
            }
            Notification::Recovered => latest_node.set_watched(true),
            Notification::FollowError(error) => {
                latest_node.set_watched(false);
                if last_error.see(error.message.clone()) {
                    tracing::warn!(node = name, error = error.message, "cannot watch the Node; trying again");
                }
            }
        }
        ControlFlow::Continue(())
    });
    tokio::select! {
        // Cancel-safe: waits for a token.
        () = cancel.cancelled() => {}
        // Cancel-safe: everything seen was published.
        () = follow_node => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::fake::{ApiFault, ApiRule, FakeApi};
    use hostlet_base::WallClock;

    const PATH: &str = "/api/v1/nodes/node1";

    fn node(version: &str, label: &str) -> Node {
        let metadata = json!({"name": "node1", "resourceVersion": version, "labels": {"x": label}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn label(node: Option<&Arc<Node>>) -> Option<String> {
        node?.metadata.labels.as_ref()?.get("x").cloned()
    }

    #[test]
    fn an_older_node_is_ignored() {
        let latest_node = LatestNode::default();
        let shown = latest_node.subscribe();
        for (version, is_shown) in [("9", "9"), ("10", "10"), ("9", "10"), ("11", "11")] {
            latest_node.update(node(version, version));
            assert_eq!(label(shown.borrow().as_ref()).as_deref(), Some(is_shown));
        }
        latest_node.clear();
        assert!(shown.borrow().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn changes_and_deletions_are_published() {
        let api = FakeApi::new(WallClock::system());
        let (latest_node, cancel) = (LatestNode::default(), CancellationToken::new());
        let mut shown = latest_node.subscribe();
        let watching = watch_node(api.client(), "node1".to_owned(), latest_node, cancel.clone());
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
    async fn a_read_node_is_published_and_a_read_times_out() {
        let api = FakeApi::new(WallClock::system());
        let latest_node = LatestNode::default();
        let shown = latest_node.subscribe();
        let limit = Duration::from_secs(10);
        let reader = ApiNodeReader::new(api.client(), "node1".to_owned(), limit, latest_node);
        api.put(PATH, &node("", "a"));
        assert_eq!(reader.read().await, Ok(()));
        assert_eq!(label(shown.borrow().as_ref()).as_deref(), Some("a"));
        api.fail(ApiRule::once("GET", "/nodes", ApiFault::Hang));
        assert_eq!(reader.read().await, Err(NodeReadError { retry_after: Duration::ZERO }));
        let busy = ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 3 };
        api.fail(ApiRule::once("GET", "/nodes", busy));
        assert_eq!(reader.read().await, Err(NodeReadError { retry_after: Duration::from_secs(3) }));
        let forbidden = ApiFault::Reject { code: 403, reason: "Forbidden", retry_after: 0 };
        api.put(PATH, &node("", "b"));
        api.fail(ApiRule::once("GET", "/nodes", forbidden));
        assert_eq!(reader.read().await, Ok(()), "another attempt would not help");
        assert_eq!(label(shown.borrow().as_ref()).as_deref(), Some("a"));
        api.delete(PATH, None);
        assert_eq!(reader.read().await, Ok(()));
        assert!(shown.borrow().is_none());
    }
}

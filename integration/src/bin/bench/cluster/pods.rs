//! The pods of a namespace with the moment a watch told that each was ready, and that it was gone. Decodes only what it
//! needs: the harness shares its two cores with what it measures.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Resource};
use kube::{Client, core::metadata::ObjectMeta};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::lab::LONG;

/// What is needed of a pod.
#[derive(Clone, Debug, Deserialize)]
struct Seen {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// A pod's times from a watch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// First seen Ready.
    pub(super) ready: Option<Instant>,
    /// Seen deleted from the API.
    pub(super) gone: Option<Instant>,
}

/// The pods seen since it was made, by name.
pub(super) struct PodWatch {
    seen: Arc<Mutex<HashMap<String, Times>>>,
    changes: watch::Receiver<usize>,
    _task: JoinSet<Result<()>>,
}

impl PodWatch {
    /// Watches the pods of a namespace.
    pub(super) async fn start(client: Client, namespace: &str) -> Result<Self> {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let list = api.list(&ListParams::default()).await.context("listing pods")?;
        let mut version = list.metadata.resource_version.context("a list without a version")?;
        let request = Request::new(Pod::url_path(&(), Some(namespace)));
        let seen = Arc::new(Mutex::new(HashMap::<String, Times>::new()));
        let (changed, changes) = watch::channel(0);
        let log = seen.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            // The server ends a watch now and then.
            loop {
                let request = request.watch(&WatchParams::default(), &version)?;
                let mut events = Box::pin(client.request_events::<Seen>(request).await?);
                while let Some(event) = events.try_next().await? {
                    let now = Instant::now();
                    let (pod, gone) = match event {
                        WatchEvent::Added(pod) | WatchEvent::Modified(pod) => (pod, false),
                        WatchEvent::Deleted(pod) => (pod, true),
                        WatchEvent::Bookmark(bookmark) => {
                            version = bookmark.metadata.resource_version;
                            continue;
                        }
                        WatchEvent::Error(error) => bail!("the watch of pods: {error:?}"),
                    };
                    version = pod.metadata.resource_version.clone().context("a pod without a version")?;
                    note(&mut log.lock(), &pod, gone, now);
                    changed.send_modify(|count| *count += 1);
                }
            }
        });
        Ok(Self { seen, changes, _task: task })
    }

    /// Waits until `part` of each of the pods is known, and returns it in their order.
    pub(super) async fn wait(
        &self,
        pods: &[String],
        what: &str,
        part: fn(&Times) -> Option<Instant>,
    ) -> Result<Vec<Instant>> {
        let mut changes = self.changes.clone();
        let end = Instant::now() + LONG;
        loop {
            changes.borrow_and_update();
            let times: Vec<Option<Instant>> = {
                let seen = self.seen.lock();
                pods.iter().map(|pod| seen.get(pod).and_then(part)).collect()
            };
            if let Some(times) = times.iter().copied().collect() {
                return Ok(times);
            }
            match tokio::time::timeout_at(end, changes.changed()).await {
                Ok(changed) => changed.context("the watch of pods ended")?,
                Err(_) => {
                    let missing = times.iter().filter(|time| time.is_none()).count();
                    bail!("not within {LONG:?}: {what}; {missing} of {} are not", pods.len());
                }
            }
        }
    }
}

/// Records an event of a pod.
fn note(seen: &mut HashMap<String, Times>, pod: &Seen, gone: bool, now: Instant) {
    let times = seen.entry(pod.metadata.name.clone().unwrap_or_default()).or_default();
    if gone {
        times.gone.get_or_insert(now);
    }
    if pod.status.conditions.iter().any(|it| it.kind == "Ready" && it.status == "True") {
        times.ready.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_ready_and_the_end_are_recorded() {
        let pod = |ready: &str| -> Seen {
            let conditions = json!([{"type": "Ready", "status": ready}]);
            serde_json::from_value(json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}}))
                .unwrap()
        };
        let mut seen = HashMap::new();
        let start = Instant::now();
        let at = |seconds| start + std::time::Duration::from_secs(seconds);
        for (ready, gone, seconds) in
            [("False", false, 1), ("True", false, 2), ("True", false, 3), ("False", true, 4)]
        {
            note(&mut seen, &pod(ready), gone, at(seconds));
        }
        assert_eq!((seen["a"].ready, seen["a"].gone), (Some(at(2)), Some(at(4))));
    }
}

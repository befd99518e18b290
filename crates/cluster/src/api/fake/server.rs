//! The handle to the fake, through which tests read and change its state.

#![allow(clippy::expect_used, reason = "a test with an invalid request to the fake must fail at once")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hostlet_base::WallClock;
use hostlet_net::tls::fake::FakeAuthority;
use http_body_util::combinators::UnsyncBoxBody;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::faults::ApiRule;
use super::objects::{Objects, RejectedRequest};
use super::path::Target;

/// A response body: complete, or the lines of a watch.
pub type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A received request.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Time of arrival.
    pub at: Instant,
    /// The method; `WATCH` for a watch.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Its body; null without one.
    pub body: Value,
    /// The response's status; 0 without one.
    pub code: u16,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) objects: Objects,
    pub(super) rules: Vec<ApiRule>,
    pub(super) requests: Vec<Recorded>,
    pub(super) bookmarks: u64,
    pub(super) tokens: u64,
    /// Whether a watch that begins with all objects is rejected.
    pub(super) lists_only: bool,
    /// The lifetime of certificates that are issued at once.
    pub(super) issues: Option<Duration>,
    pub(super) authority: FakeAuthority,
    /// The versions in which there are no trust bundles and no requests for certificates of pods.
    pub(super) lacks_certificates: BTreeSet<&'static str>,
}

impl State {
    /// What a creation would return.
    pub(super) fn dry_run(
        &self,
        method: &str,
        target: &Target,
        object: Value,
        now: Timestamp,
    ) -> Result<(u16, Value), RejectedRequest> {
        if method != "POST" {
            return Err((405, "MethodNotAllowed", "the fake knows only dry runs of creations".to_owned()));
        }
        self.objects.clone().create(target, object, now).map(|object| (201, object))
    }
}

/// An in-memory API server. Cheap to clone; clones share one server.
#[derive(Clone)]
pub struct FakeApi {
    state: Arc<Mutex<State>>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) clock: WallClock,
}

impl FakeApi {
    /// An empty server with this clock.
    pub fn new(clock: WallClock) -> Self {
        let api = Self { state: Arc::default(), changed: watch::Sender::new(0), clock };
        api.serve_certificates(&["v1"]);
        api
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn wake(&self) {
        self.changed.send_modify(|generation| *generation += 1);
    }

    /// Adds faults. Earlier rules take precedence.
    pub fn fail(&self, rule: ApiRule) {
        self.lock().rules.push(rule);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.lock().rules.clear();
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.lock().requests.clone()
    }

    /// The requests with this method and part of the path.
    pub fn requests_of(&self, method: &str, path: &str) -> Vec<Recorded> {
        self.requests().into_iter().filter(|r| r.method == method && r.path.contains(path)).collect()
    }

    /// Sends a bookmark with the newest version to all watches.
    pub fn bookmark(&self) {
        self.lock().bookmarks += 1;
        self.wake();
    }

    /// Makes the server reject watches that begin with all objects, like one with its feature off.
    pub fn reject_streamed_lists(&self) {
        self.lock().lists_only = true;
    }

    /// Lets the server store attributes of ResourceSlices with lists, or not, like one with its feature off.
    pub fn store_lists(&self, stores: bool) {
        self.lock().objects.stores_lists = stores;
    }

    /// Drops the history: watches from before the newest version get 410 Gone.
    pub fn compact(&self) {
        let mut state = self.lock();
        state.objects.compacted = state.objects.version;
        state.objects.history.clear();
        drop(state);
        self.wake();
    }

    /// Creates or replaces the object at a path such as `/api/v1/namespaces/default/pods/web`, like another client.
    pub fn put<T: Serialize + DeserializeOwned>(&self, path: &str, object: &T) -> T {
        let target = Target::of(path).expect("a path of the API");
        let object = serde_json::to_value(object).expect("an object");
        let mut state = self.lock();
        let stored = match state.objects.get(&target) {
            Ok(old) => {
                let mut new = object;
                new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
                new["metadata"]["uid"] = old["metadata"]["uid"].clone();
                state.objects.replace(&target, new)
            }
            Err(_) => state.objects.create(&target, object, self.clock.now()),
        };
        drop(state);
        self.wake();
        serde_json::from_value(stored.expect("the object is acceptable")).expect("an object of this type")
    }

    /// The object at a path, if it exists.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let target = Target::of(path)?;
        let object = self.lock().objects.get(&target).ok()?;
        serde_json::from_value(object).ok()
    }

    /// All objects at a path such as `/api/v1/pods`.
    pub fn list<T: DeserializeOwned>(&self, path: &str) -> Vec<T> {
        let target = Target::of(path).expect("a path of the API");
        let all = self.lock().objects.list(&target);
        all.into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect()
    }

    /// Deletes the object at a path like another client, with this grace period in seconds, if given.
    pub fn delete(&self, path: &str, grace_seconds: Option<i64>) {
        let target = Target::of(path).expect("a path of the API");
        let options = match grace_seconds {
            Some(seconds) => serde_json::json!({"gracePeriodSeconds": seconds}),
            None => Value::Null,
        };
        // A missing object counts as deleted.
        let _ = self.lock().objects.delete(&target, &options, self.clock.now());
        self.wake();
    }
}

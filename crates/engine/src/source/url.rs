//! Maintains the pods that a URL serves, from its answers. An answer that cannot be used keeps the pods of the last one; equal
//! content changes nothing. No I/O.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hostlet_base::error_chain;
use hostlet_net::http::FetchError;
use hostlet_pod::{ManifestOrigin, ManifestProblem, pod_uid};
use http::Uri;
use jiff::Timestamp;

use super::answer::{AnswerContext, read_answer};
use super::reader::{as_first_seen, is_same_pod, set_problem};
use super::state::{SourceState, StaticPod};

/// The known state of a URL.
#[derive(Debug)]
pub(super) struct UrlReader {
    /// The URL as it is configured.
    url: String,
    origin: ManifestOrigin,
    node_name: String,
    is_alone: bool,
    /// The last answer, if it was read.
    content: Option<Bytes>,
    ready: bool,
    pods: Vec<Arc<StaticPod>>,
    problem: Option<ManifestProblem>,
}

impl UrlReader {
    /// A reader before the first answer. `adopted` are the pods of a previous daemon: pods of this URL and node run until there
    /// is an answer.
    pub(super) fn new(url: &Uri, node_name: &str, is_alone: bool, adopted: &[StaticPod]) -> Self {
        let origin = ManifestOrigin::Url(shown(url));
        let is_own = |pod: &&StaticPod| {
            let node = pod.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            pod.origin == origin && node == Some(node_name)
        };
        Self {
            url: url.to_string(),
            node_name: node_name.to_owned(),
            is_alone,
            content: None,
            ready: false,
            pods: adopted.iter().filter(is_own).cloned().map(Arc::new).collect(),
            problem: None,
            origin,
        }
    }

    /// Applies an answer, or why there is none; returns whether the state changed. As upstream, the source is ready with its
    /// first usable answer, and an empty one means no pods.
    pub(super) fn apply(&mut self, answer: Result<Bytes, FetchError>, now: Timestamp) -> bool {
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(error) => {
                self.content = None;
                return self.fails(None, format!("it cannot be fetched: {}", error_chain(&error)), now);
            }
        };
        if self.content.as_ref() == Some(&bytes) {
            return false;
        }
        self.content = Some(bytes.clone());
        if bytes.is_empty() {
            let changed = self.set(Vec::new());
            let text =
                "the answer is empty, so it defines no pod; serve a v1 PodList, which may have no items";
            return self.fails(None, text.to_owned(), now) | changed;
        }
        let (url, origin, node_name) = (&self.url, &self.origin, &self.node_name);
        let context = AnswerContext { url, origin, node_name, is_alone: self.is_alone };
        match read_answer(&bytes, &context, now) {
            Ok(pods) => self.set(pods) | self.problem.take().is_some(),
            Err(error) => self.fails(error.pod().map(str::to_owned), error.to_string(), now),
        }
    }

    /// The current state.
    pub(super) fn state(&self) -> SourceState {
        let problems = self.problem.iter().cloned().collect();
        SourceState { ready: self.ready, pods: self.pods.clone(), problems }
    }

    fn fails(&mut self, pod: Option<String>, message: String, now: Timestamp) -> bool {
        set_problem(&mut self.problem, &self.origin, pod, message, now)
    }

    /// An unchanged pod stays the same object.
    fn set(&mut self, pods: Vec<StaticPod>) -> bool {
        let known: HashMap<_, _> = self.pods.iter().map(|known| (pod_uid(&known.pod), known)).collect();
        let kept = |read: StaticPod| match known.get(&pod_uid(&read.pod)) {
            Some(known) if is_same_pod(known, &read) => Arc::clone(known),
            Some(known) => Arc::new(as_first_seen(read, known)),
            None => Arc::new(read),
        };
        let pods: Vec<_> = pods.into_iter().map(kept).collect();
        let is_unchanged = self.ready && pods.len() == self.pods.len();
        let is_unchanged = is_unchanged && pods.iter().zip(&self.pods).all(|(a, b)| Arc::ptr_eq(a, b));
        self.pods = pods;
        self.ready = true;
        !is_unchanged
    }
}

/// A URL without its password, as Go shows it.
fn shown(url: &Uri) -> String {
    let Some((user, host)) = url.authority().and_then(|own| own.as_str().rsplit_once('@')) else {
        return url.to_string();
    };
    let user = user.split_once(':').map_or(user.to_owned(), |(name, _)| format!("{name}:xxxxx"));
    let path = url.path_and_query().map_or("", |path| path.as_str());
    format!("{}://{user}@{host}{path}", url.scheme_str().unwrap_or_default())
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;

//! Combines the states of files and URL into the state of the manifest source, and logs what changes. A pod that both define is
//! the file's. Thin: decisions are in [`merged`].

use std::collections::{BTreeSet, HashMap, HashSet};

use hostlet_pod::pod_ref;
use hostlet_pod::{ManifestOrigin, ManifestProblem};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::reader::set_problem;
use super::state::SourceState;

/// Publishes the combined state until cancelled, first when the files were read once.
pub(super) async fn run(
    mut files: watch::Receiver<SourceState>,
    mut url: watch::Receiver<SourceState>,
    tx: watch::Sender<SourceState>,
    cancel: CancellationToken,
) {
    loop {
        if files.borrow_and_update().ready {
            let before = tx.borrow().clone();
            let next = merged(&files.borrow(), &url.borrow_and_update(), &before, Timestamp::now());
            report(&before, &next);
            tx.send_replace(next);
        }
        tokio::select! {
            biased;
            () = cancel.cancelled() => return, // cancel-safe: nothing is lost
            Ok(()) = files.changed() => {} // cancel-safe: a change stays unseen
            Ok(()) = url.changed() => {} // cancel-safe: a change stays unseen
        }
    }
}

/// The combined state. `before` is the last one, whose problems continue.
fn merged(files: &SourceState, url: &SourceState, before: &SourceState, now: Timestamp) -> SourceState {
    let mut state = SourceState { ready: files.ready && url.ready, ..files.clone() };
    let (mut names, mut uids) = (HashMap::new(), HashMap::new());
    for pod in &files.pods {
        let reference = pod_ref(&pod.pod);
        names.insert(reference.full_name(), &pod.origin);
        uids.insert(reference.uid, &pod.origin);
    }
    state.problems.extend(url.problems.iter().cloned());
    for pod in &url.pods {
        let reference = pod_ref(&pod.pod);
        let Some(first) = names.get(&reference.full_name()).or_else(|| uids.get(&reference.uid)) else {
            state.pods.push(pod.clone());
            continue;
        };
        let message = format!("pod {reference} is already defined by {first}; rename one of the two");
        let is_same = |problem: &&ManifestProblem| problem.origin == pod.origin && problem.message == message;
        let mut problem = before.problems.iter().find(is_same).cloned();
        set_problem(&mut problem, &pod.origin, Some(reference.to_string()), message, now);
        state.problems.extend(problem);
    }
    state
}

/// Logs new problems, and what has none anymore.
fn report(before: &SourceState, next: &SourceState) {
    for problem in new_problems(before, next) {
        let pod = problem.pod.as_deref().unwrap_or_default();
        warn!(manifest = %problem.origin, pod, problem = problem.message, "manifest cannot be used");
    }
    for origin in fixed(before, next) {
        info!(manifest = %origin, "manifest is valid again or was removed");
    }
}

/// The problems in `next` that are not in `before`.
pub(super) fn new_problems<'s>(before: &SourceState, next: &'s SourceState) -> Vec<&'s ManifestProblem> {
    let known: HashSet<&ManifestProblem> = before.problems.iter().collect();
    next.problems.iter().filter(|problem| !known.contains(problem)).collect()
}

/// What has a problem in `before` but not in `next`.
pub(super) fn fixed(before: &SourceState, next: &SourceState) -> BTreeSet<ManifestOrigin> {
    let broken = |state: &SourceState| -> BTreeSet<ManifestOrigin> {
        state.problems.iter().map(|problem| problem.origin.clone()).collect()
    };
    broken(before).difference(&broken(next)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::StaticPod;
    use hostlet_base::testing::at;
    use hostlet_pod::testing;

    fn state(origin: &ManifestOrigin, pods: &[(&str, &str)]) -> SourceState {
        let pod = |(name, uid): &(&str, &str)| {
            let pod = Arc::new(testing::pod(name, uid, "Always", &["c"]));
            Arc::new(StaticPod { pod, origin: origin.clone(), unsupported: Vec::new() })
        };
        SourceState { ready: true, pods: pods.iter().map(pod).collect(), problems: Vec::new() }
    }

    #[test]
    fn a_pod_that_both_define_is_the_files() {
        let file = ManifestOrigin::File("/m/a.yaml".into());
        let files = state(&file, &[("a", "1"), ("b", "2")]);
        let mut url = state(&ManifestOrigin::Url("http://h".into()), &[("a", "3"), ("c", "2"), ("d", "4")]);
        let first = merged(&files, &url, &SourceState::default(), at(1));
        let uids: Vec<_> = first.pods.iter().map(|pod| pod.pod.metadata.uid.as_deref().unwrap()).collect();
        assert_eq!(uids, ["1", "2", "4"]);
        let messages: Vec<_> = first.problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "pod default/a is already defined by /m/a.yaml; rename one of the two",
                "pod default/c is already defined by /m/a.yaml; rename one of the two",
            ]
        );
        assert_eq!(merged(&files, &url, &first, at(2)), first, "since then");
        url.ready = false;
        assert!(!merged(&files, &url, &first, at(3)).ready);
    }
}

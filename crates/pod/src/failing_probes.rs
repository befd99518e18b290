//! The probes that fail, with their last answers, for explanations. Probes nothing: `engine::probe` writes these values.

use std::collections::HashMap;
use std::sync::Arc;

use hostlet_base::{ContainerId, PodUid, one_line};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::ProbeKind;

/// Maximum length of an answer in bytes; the rest is cut off.
const MAX_ANSWER: usize = 512;

/// A probe whose last run failed or could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingProbe {
    /// Name of the container.
    pub container: String,
    /// The instance that fails: a restarted container begins without failures.
    pub id: ContainerId,
    /// Which probe of the container.
    pub kind: ProbeKind,
    /// Its last answer, in one line.
    pub answer: String,
    /// When it began to fail.
    pub since: Timestamp,
}

/// The failing probes of all pods. Cheap to clone; clones share them.
#[derive(Clone, Debug, Default)]
pub struct FailingProbes {
    pods: Arc<Mutex<HashMap<PodUid, Vec<FailingProbe>>>>,
}

impl FailingProbes {
    /// The failing probes of a pod; empty if none fails.
    pub fn of(&self, pod: &PodUid) -> Vec<FailingProbe> {
        self.pods.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Records that a probe of a pod failed.
    pub fn failed(&self, pod: &PodUid, probe: FailingProbe) {
        let mut pods = self.pods.lock();
        let of_pod = pods.entry(pod.clone()).or_default();
        let answer = one_line(&probe.answer, MAX_ANSWER);
        let same =
            of_pod.iter_mut().find(|known| known.container == probe.container && known.kind == probe.kind);
        match same {
            Some(known) if known.id == probe.id => known.answer = answer,
            Some(known) => *known = FailingProbe { answer, ..probe },
            None => of_pod.push(FailingProbe { answer, ..probe }),
        }
    }

    /// Records that a probe of a pod succeeded.
    pub fn succeeded(&self, pod: &PodUid, container: &str, kind: ProbeKind) {
        let mut pods = self.pods.lock();
        if let Some(of_pod) = pods.get_mut(pod) {
            of_pod.retain(|known| (known.container.as_str(), known.kind) != (container, kind));
            if of_pod.is_empty() {
                pods.remove(pod);
            }
        }
    }

    /// Forgets a pod that is no longer probed.
    pub fn forget(&self, pod: &PodUid) {
        self.pods.lock().remove(pod);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::testing::at;

    #[test]
    fn a_failing_probe_is_known_with_its_last_answer_until_it_succeeds() {
        let failing = FailingProbes::default();
        let pod = PodUid::from("u");
        let probe = |id: &str, answer: &str, since| FailingProbe {
            container: "c".to_owned(),
            id: id.into(),
            kind: ProbeKind::Readiness,
            answer: answer.to_owned(),
            since: at(since),
        };
        failing.failed(&pod, probe("c-0", "a\nb", 1));
        failing.failed(&pod, probe("c-0", "c", 2));
        assert_eq!(failing.of(&pod), [probe("c-0", "c", 1)]);
        failing.failed(&pod, probe("c-1", "d", 3));
        assert_eq!(failing.of(&pod), [probe("c-1", "d", 3)]);
        failing.succeeded(&pod, "c", ProbeKind::Liveness);
        assert_eq!(failing.of(&pod).len(), 1);
        failing.succeeded(&pod, "c", ProbeKind::Readiness);
        assert!(failing.of(&pod).is_empty() && failing.pods.lock().is_empty());
    }
}

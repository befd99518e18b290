//! The state of one probe of one instance of a container: how its answers add up to a result. Pure.

use k8s_openapi::api::core::v1::Probe;

use hostlet_pod::ProbeKind;

/// Whether a run of a probe succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It did.
    Success,
    /// It did not.
    Failure,
}

/// How many equal answers in a row make a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub(super) success: u32,
    pub(super) failure: u32,
}

impl Thresholds {
    pub(super) fn of(probe: &Probe) -> Self {
        let at_least_one = |number: Option<i32>, default| {
            number.and_then(|n| u32::try_from(n).ok()).unwrap_or(default).max(1)
        };
        Self {
            success: at_least_one(probe.success_threshold, 1),
            failure: at_least_one(probe.failure_threshold, 3),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeState {
    kind: ProbeKind,
    /// What the answers so far amount to; none before enough of them.
    result: Option<Verdict>,
    /// The last answer, and how many of it came in a row.
    streak: Option<(Verdict, u32)>,
}

impl ProbeState {
    /// A probe of an instance that was not probed yet, or whose earlier probes had this result.
    pub(super) fn new(kind: ProbeKind, result: Option<Verdict>) -> Self {
        Self { kind, result, streak: None }
    }

    /// What the answers so far amount to.
    pub(super) fn result(&self) -> Option<Verdict> {
        self.result
    }

    /// Whether it has its final result for this instance: a startup probe with either, a liveness probe that failed. Probing on while the
    /// instance is being stopped would only be in the way.
    pub(super) fn is_final(&self) -> bool {
        match (self.kind, self.result) {
            (ProbeKind::Startup, result) => result.is_some(),
            (ProbeKind::Liveness, result) => result == Some(Verdict::Failure),
            (ProbeKind::Readiness, _) => false,
        }
    }

    /// Adds an answer. Returns whether the result changed.
    pub(super) fn record(&mut self, verdict: Verdict, thresholds: Thresholds) -> bool {
        if self.is_final() {
            return false;
        }
        let count = match self.streak {
            Some((last, count)) if last == verdict => count.saturating_add(1),
            Some(_) | None => 1,
        };
        self.streak = Some((verdict, count));
        let threshold = match verdict {
            Verdict::Success => thresholds.success,
            Verdict::Failure => thresholds.failure,
        };
        let is_news = count >= threshold && self.result != Some(verdict);
        if is_news {
            self.result = Some(verdict);
        }
        is_news
    }

    /// Whether the last answer was a failure.
    pub(super) fn fails(&self) -> bool {
        self.streak.is_some_and(|(last, _)| last == Verdict::Failure)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Verdict = Verdict::Success;
    const F: Verdict = Verdict::Failure;

    fn results(kind: ProbeKind, success: u32, failure: u32, answers: &[Verdict]) -> Vec<Option<Verdict>> {
        let mut state = ProbeState::new(kind, None);
        let mut record = |verdict: &Verdict| {
            state.record(*verdict, Thresholds { success, failure });
            state.result()
        };
        answers.iter().map(&mut record).collect()
    }

    #[test]
    fn a_result_needs_as_many_equal_answers_in_a_row_as_its_threshold() {
        let readiness = results(ProbeKind::Readiness, 2, 3, &[S, S, F, F, S, F, F, F, S, S]);
        let (ready, not) = (Some(S), Some(F));
        let expected = [None, ready, ready, ready, ready, ready, ready, not, not, ready];
        assert_eq!(readiness, expected);
    }

    #[test]
    fn a_startup_probe_and_a_failed_liveness_probe_are_not_asked_again() {
        assert_eq!(results(ProbeKind::Startup, 1, 2, &[F, S, F, F]), [None, Some(S), Some(S), Some(S)]);
        assert_eq!(results(ProbeKind::Startup, 1, 1, &[F, S]), [Some(F), Some(F)]);
        assert_eq!(results(ProbeKind::Liveness, 1, 2, &[S, F, F, S]), [Some(S), Some(S), Some(F), Some(F)]);
    }

    #[test]
    fn an_earlier_result_stays_until_the_threshold() {
        let mut state = ProbeState::new(ProbeKind::Readiness, Some(S));
        let thresholds = Thresholds::of(&Probe::default());
        assert_eq!(thresholds, Thresholds { success: 1, failure: 3 });
        assert_eq!([F, F, F].map(|answer| state.record(answer, thresholds)), [false, false, true]);
        assert!(ProbeState::new(ProbeKind::Liveness, Some(F)).is_final());
    }

    proptest! {
        /// Against the definition: a result changes exactly when the last `threshold` answers agree on another one.
        #[test]
        fn results_follow_the_last_answers(
            answers in proptest::collection::vec(any::<bool>(), 0..40),
            success in 1u32..5,
            failure in 1u32..5,
        ) {
            let mut state = ProbeState::new(ProbeKind::Readiness, None);
            let mut expected = None;
            let all: Vec<Verdict> = answers.iter().map(|answer| if *answer { S } else { F }).collect();
            for (index, verdict) in all.iter().enumerate() {
                let threshold = if *verdict == S { success } else { failure } as usize;
                let agree = (index + 1).checked_sub(threshold).is_some_and(|from| all[from..=index].iter().all(|v| v == verdict));
                let before = expected;
                if agree {
                    expected = Some(*verdict);
                }
                let changed = state.record(*verdict, Thresholds { success, failure });
                prop_assert_eq!(state.result(), expected);
                prop_assert_eq!(changed, before != expected);
            }
        }
    }
}

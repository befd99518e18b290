//! Decides which tasks are left over: those that two checks in a row found although their container has ended, or that have stopped
//! although it was never started. containerd deletes a task a moment after its container's end. Pure.

use std::collections::{BTreeMap, HashSet};

use hostlet_runtime::cri::StoredTask;

/// How far a container or sandbox got, as the CRI says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Idle {
    /// It has not been started, or its start has not returned: its task may be at work.
    NotStarted,
    /// It has ended, and gets no task anymore.
    Ended,
}

/// What earlier checks found of the containers and sandboxes that do not run.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// Containers that have exited, and have no task.
    clean: HashSet<String>,
    /// Containers that have exited, but had a task at the last check.
    suspected: HashSet<String>,
}

impl Suspects {
    /// Begins a check. Returns the `idle` containers about which containerd must be asked.
    pub(super) fn due(&mut self, idle: BTreeMap<String, Idle>) -> Vec<(String, Idle)> {
        self.clean.retain(|id| idle.contains_key(id));
        self.suspected.retain(|id| idle.contains_key(id));
        idle.into_iter().filter(|(id, _)| !self.clean.contains(id)).collect()
    }

    /// Records an answer. Returns whether the task is left over.
    pub(super) fn answered(&mut self, id: &str, idle: Idle, task: Option<StoredTask>) -> bool {
        let is_odd = match (idle, task) {
            (_, None) | (Idle::NotStarted, Some(StoredTask::Alive)) => false,
            (_, Some(StoredTask::Stopped)) | (Idle::Ended, Some(StoredTask::Alive)) => true,
        };
        if is_odd {
            return !self.suspected.insert(id.to_owned());
        }
        self.suspected.remove(id);
        if idle == Idle::Ended {
            self.clean.insert(id.to_owned());
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(idle: Idle, ids: &[&str]) -> BTreeMap<String, Idle> {
        ids.iter().map(|id| ((*id).to_owned(), idle)).collect()
    }

    fn asked(suspects: &mut Suspects, idle: Idle, ids: &[&str]) -> Vec<String> {
        suspects.due(all(idle, ids)).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn a_task_is_left_over_if_two_checks_in_a_row_find_it() {
        let mut suspects = Suspects::default();
        let (ended, alive) = (Idle::Ended, Some(StoredTask::Alive));
        let ids = ["clean", "just-ended", "stuck"];
        assert_eq!(asked(&mut suspects, ended, &ids), ids);
        assert!(!suspects.answered("clean", ended, None));
        assert!(!suspects.answered("just-ended", ended, alive) && !suspects.answered("stuck", ended, alive));
        assert_eq!(asked(&mut suspects, ended, &ids), ["just-ended", "stuck"]);
        assert!(!suspects.answered("just-ended", ended, None));
        assert!(suspects.answered("stuck", ended, Some(StoredTask::Stopped)));
        // Until the task is deleted.
        assert_eq!(asked(&mut suspects, ended, &ids), ["stuck"]);
        assert!(suspects.answered("stuck", ended, alive));
    }

    #[test]
    fn a_start_that_takes_long_is_left_alone() {
        let mut suspects = Suspects::default();
        for _ in 0..3 {
            assert_eq!(asked(&mut suspects, Idle::NotStarted, &["slow"]), ["slow"]);
            assert!(!suspects.answered("slow", Idle::NotStarted, Some(StoredTask::Alive)));
            assert!(!suspects.answered("slow", Idle::NotStarted, None));
        }
        assert!(!suspects.answered("slow", Idle::NotStarted, Some(StoredTask::Stopped)));
        assert!(suspects.answered("slow", Idle::NotStarted, Some(StoredTask::Stopped)));
    }

    #[test]
    fn one_that_was_removed_is_forgotten() {
        let mut suspects = Suspects::default();
        let (ended, alive) = (Idle::Ended, Some(StoredTask::Alive));
        assert!(!suspects.answered("a", ended, alive));
        assert!(asked(&mut suspects, ended, &[]).is_empty());
        assert!(!suspects.answered("a", ended, alive), "the first check that finds it again");
    }
}

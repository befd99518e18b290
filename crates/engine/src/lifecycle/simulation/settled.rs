//! The expected state after settling.

use std::time::Duration;

use hostlet_observe::status::Activity;
use hostlet_runtime::cri::Operation;
use tokio::time::Instant;

use super::super::testing::PLACES;
use super::faults::NAMES;
use super::world::World;

/// Calls of an idle daemon: of PLEG, of the look at images every five minutes, and of probes.
const IDLE_CALLS: [Operation; 7] = [
    Operation::ListSandboxes,
    Operation::ListContainers,
    Operation::ContainerEvents,
    Operation::ListImages,
    Operation::ImageFsInfo,
    Operation::Status,
    Operation::ExecSync,
];

impl World {
    /// Checks the desired state; the error says what differs.
    pub(super) fn unsettled(&self) -> Option<String> {
        let node = &self.node;
        let is_wanted = |uid: &str| self.wanted.contains_key(uid);
        if let Some(left) = node.containers().iter().find(|c| !is_wanted(&c.uid)) {
            return Some(format!("{left:?} is left"));
        }
        if let Some(left) = node.sandboxes().iter().find(|(uid, ..)| !is_wanted(uid)) {
            return Some(format!("sandbox {left:?} is left"));
        }
        let belongs = |directory: &String| {
            self.wanted.keys().any(|uid| directory == uid || directory.ends_with(&format!("_{uid}")))
                // Links to logs, which runtimes of tests only write when a log is rotated.
                || node.containers().iter().any(|c| directory.ends_with(&format!("-{}.log", c.id)))
        };
        if let Some(left) = node.directories().iter().find(|directory| !belongs(directory)) {
            return Some(format!("directory {left} is left"));
        }
        let (rejected, admitted): (Vec<&String>, Vec<&String>) =
            self.wanted.keys().partition(|uid| node.is_rejected(uid));
        if let Some(uid) = rejected.iter().find(|uid| node.has(uid)) {
            return Some(format!("{uid} was rejected, and runs"));
        }
        if let Some(uid) = rejected.first().filter(|_| admitted.len() < PLACES) {
            return Some(format!("{uid} was rejected, and there is a place for it"));
        }
        admitted.into_iter().find_map(|uid| self.unsettled_pod(uid))
    }

    fn unsettled_pod(&self, uid: &str) -> Option<String> {
        let node = &self.node;
        let mut names = self.containers_of(uid);
        let is_job = names.contains(&"job".to_owned());
        if is_job {
            names.clear();
        }
        let running: Vec<String> = node.running(uid).into_iter().map(|(name, _)| name).collect();
        let wish = self.wishes.values().find(|wish| wish.uid == uid);
        let wanted = wish.map(|wish| wish.memory << 20);
        let memory = |id: &str| node.runtime.container_config(&id.into())?.linux?.resources;
        let running_mains =
            node.containers().into_iter().filter(|c| c.uid == uid && c.runs && NAMES.contains(&&*c.name));
        for container in running_mains {
            let enforced = memory(&container.id).map(|resources| resources.memory_limit_in_bytes);
            if enforced != wanted {
                return Some(format!("{container:?} should have {wanted:?} bytes, not {enforced:?}"));
            }
        }
        let ready = node.sandboxes().into_iter().filter(|(owner, _, ready)| owner == uid && *ready).count();
        let (phase, activity) = (node.phase(uid), node.activity(uid));
        let expected = if is_job { (0, "Succeeded") } else { (1, "Running") };
        let is_ready = node.is_ready(uid) != is_job;
        let is_right =
            running == names && is_ready && (ready, phase.as_deref()) == (expected.0, Some(expected.1));
        // A deadline is due some day.
        let has_deadline = !is_job && wish.is_some_and(|wish| wish.deadline.is_some());
        let resting = if has_deadline { Activity::BackingOff } else { Activity::Idle };
        (!is_right || activity != Some(resting)).then(|| {
            format!(
                "{uid} should run {names:?}: {running:?} in {ready} ready sandboxes, {phase:?}, {activity:?}"
            )
        })
    }

    /// Checks that nothing changes for a few minutes with a resync of every pod, and that the daemon makes only idle calls.
    pub(super) async fn stays(&mut self) -> Result<(), String> {
        let (node, begin) = (&self.node, Instant::now());
        let before = node.containers();
        let first = node.runtime.calls().len();
        tokio::time::sleep(Duration::from_secs(200)).await;
        if node.containers() != before {
            return Err(format!("was {before:#?}"));
        }
        let (calls, _) = node.runtime.calls_after(first);
        if let Some(call) = calls.iter().find(|call| !IDLE_CALLS.contains(&call.operation)) {
            return Err(format!("an idle daemon asks {call:?}"));
        }
        let most = usize::try_from(begin.elapsed().as_secs()).unwrap_or(0) * 2 + 20;
        let own = calls.iter().filter(|call| call.operation != Operation::ExecSync).count();
        if own > most {
            return Err(format!("an idle daemon makes {own} calls"));
        }
        // One dead instance of each container is kept.
        let mut dead: Vec<_> = before.into_iter().filter(|c| !c.runs).map(|c| (c.uid, c.name)).collect();
        let all = dead.len();
        dead.dedup();
        if dead.len() == all { Ok(()) } else { Err("more than one dead container of a name".to_owned()) }
    }
}

//! The order in which a pod's containers are stopped, and the grace period that they share. Pure.

use tokio::time::Instant;

use hostlet_observe::pleg::PodStatus;
use hostlet_pod::{AdmittedPod, ContainerKind};
use hostlet_runtime::cri::{ContainerState, ContainerStatus};

/// The shortest grace period for a container, in seconds, wherever it comes from (as upstream).
pub(super) const MIN_STOP_SECONDS: i64 = 2;

/// The running containers in groups that are stopped together: first everything but the sidecars, then these one by one in
/// reverse order of the spec (upstream `terminationOrdering`). A pod without a spec is one group.
pub(super) fn stop_order<'a>(
    pod: Option<&AdmittedPod>,
    observed: &'a PodStatus,
) -> Vec<Vec<&'a ContainerStatus>> {
    let named = pod.into_iter().flat_map(AdmittedPod::containers);
    let sidecars = named.filter(|container| container.kind == ContainerKind::Sidecar);
    let sidecars: Vec<&str> = sidecars.map(|container| container.spec.name.as_str()).collect();
    let running = observed.containers.iter().filter(|container| runs(container.state));
    let (last, first): (Vec<_>, Vec<_>) = running.partition(|container| sidecars.contains(&&*container.name));
    let of_name = |name: &&str| last.iter().filter(|container| *container.name == **name).copied().collect();
    let groups = std::iter::once(first).chain(sidecars.iter().rev().map(of_name));
    groups.filter(|group: &Vec<_>| !group.is_empty()).collect()
}

/// Whether a container has to be stopped.
pub(super) fn runs(state: ContainerState) -> bool {
    match state {
        ContainerState::Running | ContainerState::Unknown => true,
        ContainerState::Created | ContainerState::Exited => false,
    }
}

/// The grace period that a pod's containers share, from the first stop on.
#[derive(Clone, Copy, Debug)]
pub(super) struct GraceBudget {
    /// All of it.
    pub(super) seconds: i64,
    since: Instant,
}

impl GraceBudget {
    /// This many seconds, from `now` on.
    pub(super) fn starting(seconds: i64, now: Instant) -> Self {
        Self { seconds, since: now }
    }

    /// The seconds left for a container that is stopped `now`. `spent` is what its hook took, part of it perhaps before this
    /// stop began.
    pub(super) fn left(&self, spent: i64, now: Instant) -> i64 {
        self.unfloored(spent, now).max(MIN_STOP_SECONDS)
    }

    /// The same, down to 0.
    pub(super) fn unfloored(&self, spent: i64, now: Instant) -> i64 {
        let passed = i64::try_from(now.saturating_duration_since(self.since).as_secs()).unwrap_or(i64::MAX);
        self.seconds.saturating_sub(passed.max(spent)).max(0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hostlet_base::PodRef;
    use hostlet_pod::testing;

    fn running(names: &[&str]) -> PodStatus {
        let containers = names.iter().map(|name| testing::container(name, 0, ContainerState::Running));
        PodStatus { containers: containers.collect(), ..PodStatus::empty(PodRef::new("default", "p", "u")) }
    }

    fn names(groups: &[Vec<&ContainerStatus>]) -> Vec<Vec<String>> {
        groups.iter().map(|group| group.iter().map(|c| c.name.to_string()).collect()).collect()
    }

    #[test]
    fn sidecars_are_stopped_one_by_one_once_the_others_have_ended() {
        let pod = AdmittedPod::new(testing::pod("p", "u", "Always", &["a", "b"])).edited(|pod| {
            let spec = pod.spec.as_mut().unwrap();
            let of = |name: &str, policy: Option<&str>| k8s_openapi::api::core::v1::Container {
                name: name.to_owned(),
                restart_policy: policy.map(str::to_owned),
                ..Default::default()
            };
            let always = Some("Always");
            spec.init_containers = Some(vec![of("s1", always), of("init", None), of("s2", always)]);
        });
        let all = running(&["a", "s1", "stray", "s2", "init", "b"]);
        let expected: [&[&str]; 3] = [&["a", "stray", "init", "b"], &["s2"], &["s1"]];
        assert_eq!(names(&stop_order(Some(&pod), &all)), expected);
        assert_eq!(names(&stop_order(Some(&pod), &running(&["s1"]))), [["s1"]]);
        assert_eq!(stop_order(None, &all).len(), 1, "nobody knows what they are");
    }

    #[test]
    fn what_does_not_run_is_not_stopped() {
        let mut observed = running(&["a", "b", "c"]);
        observed.containers[0].state = ContainerState::Exited;
        observed.containers[1].state = ContainerState::Created;
        observed.containers[2].state = ContainerState::Unknown;
        assert_eq!(names(&stop_order(None, &observed)), [["c"]]);
        assert!(stop_order(None, &running(&[])).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_grace_period_is_shared_and_never_less_than_the_least() {
        let start = Instant::now();
        let budget = GraceBudget::starting(30, start);
        let left = |seconds| budget.left(0, start + Duration::from_secs(seconds));
        assert_eq!([left(0), left(10), left(29), left(300)], [30, 20, MIN_STOP_SECONDS, MIN_STOP_SECONDS]);
        assert_eq!(GraceBudget::starting(0, start).left(0, start), MIN_STOP_SECONDS);
        // A hook that a former daemon began.
        assert_eq!(budget.left(12, start + Duration::from_secs(1)), 18);
        assert_eq!((budget.unfloored(29, start), budget.unfloored(300, start)), (1, 0));
    }
}

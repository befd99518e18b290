//! Tests of measurements on a made-up host, with pods on the fake runtime.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{PodRef, WallClock};
use hostlet_host::cgroup::CgroupVersion;
use hostlet_runtime::cri::fake::FakeRuntime;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio::time::{advance, sleep};
use tokio_util::sync::CancellationToken;

use super::testing::{FakeHost, run};
use super::{Detail, SystemPaths, UsageSettings, UsageStats};
use crate::pleg::{Cache, Pleg};

const KUBELET: &str = "/system.slice/hostlet.service";

fn stats(host: &FakeHost, observed: Cache, system: SystemPaths) -> UsageStats {
    UsageStats::new(UsageSettings {
        cgroups: host.cgroups.clone(),
        observed,
        proc: host.proc(),
        root_dir: host.path().to_owned(),
        memory: 1 << 30,
        swap: 0,
        booted_at: Timestamp::UNIX_EPOCH,
        system,
        clock: WallClock::system(),
    })
}

#[tokio::test(start_paused = true)]
async fn the_runtime_in_the_cgroup_of_the_daemon_has_the_same_rate() {
    let host = FakeHost::new(CgroupVersion::V2);
    let stats = stats(
        &host,
        Cache::default(),
        SystemPaths { runtime: Some(KUBELET.to_owned()), ..SystemPaths::default() },
    );
    for seconds in 0..30 {
        host.set(KUBELET, "cpu.stat", &format!("usage_usec {}\n", seconds * 1_000_000));
        let usage = stats.usage(Detail::All).await.unwrap();
        let rates = [&usage.kubelet, &usage.runtime].map(|unit| unit.as_ref().unwrap().usage.cpu.rate);
        assert_eq!(rates, [(seconds > 0).then_some(1_000_000_000 / 2); 2], "{seconds}");
        advance(Duration::from_secs(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn configured_cgroups_of_the_host_are_measured() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let host = FakeHost::new(version);
        host.add_cgroup("/system");
        let system = SystemPaths { runtime: Some("/gone".to_owned()), misc: Some("/system".to_owned()) };
        for detail in [Detail::CpuAndMemory, Detail::All] {
            let usage = stats(&host, Cache::default(), system.clone()).usage(detail).await.unwrap();
            let paths = [&usage.runtime, &usage.misc].map(|unit| unit.as_ref().map(|unit| &*unit.path));
            assert_eq!(paths, [None, Some("/system")], "{version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn containers_are_found_where_the_runtime_has_them_if_pods_have_no_cgroups() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let (host, fake) = (FakeHost::with(version, false), FakeRuntime::new());
        fake.add_image("img");
        let pod = PodRef::new("default", "web", "u-1");
        let (sandbox, app) = run(&fake, &pod, "app").await;
        let (_, side) = run(&fake, &pod, "side").await;
        let mut tasks = JoinSet::new();
        let (pleg, handle) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
        tasks.spawn(pleg.run(CancellationToken::new()));
        sleep(Duration::from_secs(3)).await;
        let paths = [format!("/k8s.io/{sandbox}"), format!("/k8s.io/{app}"), format!("/{side}")];
        paths.iter().for_each(|path| host.add_cgroup(path));
        let usage =
            stats(&host, handle.cache().clone(), SystemPaths::default()).usage(Detail::All).await.unwrap();
        let [found] = &usage.pods[..] else { panic!("{:?}", usage.pods) };
        let containers = found.containers.iter().map(|container| &container.unit);
        let units = [&found.sandbox.unit].into_iter().chain(containers);
        let found_at: Vec<_> = units.map(|unit| unit.as_ref().map(|unit| unit.path.as_str())).collect();
        assert_eq!(found_at, paths.each_ref().map(|path| Some(path.as_str())), "{version}");
        assert_eq!((&usage.all_pods, &found.unit), (&None, &None));
        assert_eq!(found.network.as_ref().map(Vec::len), Some(1));
        // The two containers together; each has a limit.
        let sum = found.usage().unwrap();
        let (cpu, memory) = (sum.cpu.total, sum.memory.working_set);
        assert_eq!((cpu, memory, sum.limits.memory), (5_000_000_000, 12 << 20, Some(128 << 20)));
    }
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_measured_by_two_threads_and_sorted() {
    let (host, fake) = (FakeHost::with(CgroupVersion::V1, false), FakeRuntime::new());
    fake.add_image("img");
    for number in (0..40).rev() {
        let pod = PodRef::new("default", &format!("web-{number:02}"), &format!("u-{number}"));
        let (_, app) = run(&fake, &pod, "app").await;
        host.add_cgroup(&format!("/{app}"));
    }
    let mut tasks = JoinSet::new();
    let (pleg, handle) = Pleg::new(Arc::new(fake.clone()), StdRng::seed_from_u64(1));
    tasks.spawn(pleg.run(CancellationToken::new()));
    sleep(Duration::from_secs(3)).await;
    let usage =
        stats(&host, handle.cache().clone(), SystemPaths::default()).usage(Detail::Summary).await.unwrap();
    let names: Vec<&str> = usage.pods.iter().map(|pod| &*pod.pod.name).collect();
    let expected: Vec<String> = (0..40).map(|number| format!("web-{number:02}")).collect();
    assert_eq!(names, expected);
    assert!(usage.pods.iter().all(|pod| pod.usage().is_some_and(|usage| usage.cpu.total == 2_500_000_000)));
}

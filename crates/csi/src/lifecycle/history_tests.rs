//! Random histories of pods, drivers, daemons and hosts: whatever happened, in the end what is published is what is desired, and nothing
//! else is left. The driver in memory says what broke its specification on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hostlet_host::PodDirs;
use hostlet_store::Table;
use proptest::prelude::*;
use tokio::time::{sleep, timeout};
use tonic::Code;

use super::testing::{Host, SIZE, desired};
use crate::fake::{Method, Outcome};
use crate::{AccessMode, Form, NodeCapabilities, Publish};

/// Something that happens.
#[derive(Clone, Debug)]
enum HostEvent {
    Desire {
        pod: u8,
        volume: u32,
    },
    Release {
        pod: u8,
    },
    Next(Method, Outcome),
    Pass(u64),
    Restart,
    Reboot,
    DriverGoes,
    DriverComes,
    /// Somebody deletes upstream's files.
    FilesGo,
    Attach,
    /// Somebody asks for a larger volume.
    Grow {
        volume: u32,
        size: i64,
    },
    /// The API server stops to answer about claims, or answers again.
    ClaimsAnswer(bool),
}

fn event() -> impl Strategy<Value = HostEvent> {
    let method = prop_oneof![
        Just(Method::Stage),
        Just(Method::Publish),
        Just(Method::Unpublish),
        Just(Method::Unstage),
        Just(Method::Expand),
        Just(Method::Capabilities)
    ];
    let outcome = prop_oneof![
        Just(Outcome::Fails(Code::Internal)),
        Just(Outcome::Fails(Code::Aborted)),
        Just(Outcome::Lost(Code::DeadlineExceeded)),
        Just(Outcome::Lost(Code::Unavailable)),
        Just(Outcome::Hangs),
        Just(Outcome::HangsDone),
    ];
    prop_oneof![
        6 => (0..4u8, 0..4u32).prop_map(|(pod, volume)| HostEvent::Desire { pod, volume }),
        5 => (0..4u8).prop_map(|pod| HostEvent::Release { pod }),
        6 => (method, outcome).prop_map(|(method, outcome)| HostEvent::Next(method, outcome)),
        5 => (0..200_000u64).prop_map(HostEvent::Pass),
        2 => Just(HostEvent::Restart),
        1 => Just(HostEvent::Reboot),
        1 => Just(HostEvent::DriverGoes),
        2 => Just(HostEvent::DriverComes),
        1 => Just(HostEvent::FilesGo),
        2 => Just(HostEvent::Attach),
        3 => (0..4u32, 11..50i64).prop_map(|(volume, size)| HostEvent::Grow { volume, size }),
        1 => any::<bool>().prop_map(HostEvent::ClaimsAnswer),
    ]
}

/// Volume 0 is for one pod at a time, 1 is attached, 2 is a block device, 3 is nothing special.
fn request(pod: u8, volume: u32) -> Publish {
    let plain = desired(&format!("pod-{pod}"), volume);
    match volume {
        0 => Publish { access_mode: AccessMode::ReadWriteOncePod, ..plain },
        1 => Publish { is_attached: true, ..plain },
        2 => Publish { form: Form::Block, ..plain },
        _ => plain,
    }
}

#[derive(Default)]
struct Pods {
    desired: BTreeMap<u8, BTreeSet<u32>>,
    /// Pods that are to be released, and are not yet.
    leaving: BTreeSet<u8>,
}

impl Pods {
    /// Releases a pod, or gives up for now. Its directory goes with its volumes.
    async fn release(&mut self, host: &Host, pod: u8) {
        let name = format!("pod-{pod}");
        let released = timeout(Duration::from_secs(130), host.volumes().release(&name.as_str().into())).await;
        if released == Ok(Ok(())) {
            self.leaving.remove(&pod);
            let dirs = PodDirs::new(&host.root(), &name.as_str().into()).unwrap();
            let _ = fs::remove_dir_all(dirs.path());
        }
    }

    async fn want_again(&self, host: &Host) {
        for (pod, volumes) in &self.desired {
            for volume in volumes {
                host.want(request(*pod, *volume)).await;
            }
        }
    }
}

async fn run(stages: bool, history: Vec<HostEvent>) {
    let can = NodeCapabilities { stage: stages, expand: true, ..NodeCapabilities::default() };
    let mut host = Host::with(can);
    let mut pods = Pods::default();
    for event in history {
        match event {
            HostEvent::Desire { pod, volume } if !pods.leaving.contains(&pod) => {
                pods.desired.entry(pod).or_default().insert(volume);
                host.want(request(pod, volume)).await;
            }
            HostEvent::Desire { .. } => {}
            HostEvent::Release { pod } => {
                if pods.desired.remove(&pod).is_some() || pods.leaving.contains(&pod) {
                    pods.leaving.insert(pod);
                    pods.release(&host, pod).await;
                }
            }
            HostEvent::Next(method, outcome) => host.driver.next(method, [outcome]),
            HostEvent::Pass(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
            HostEvent::Restart => {
                host.restart().await;
                pods.want_again(&host).await;
            }
            HostEvent::Reboot => {
                host.reboot().await;
                pods.want_again(&host).await;
            }
            HostEvent::DriverGoes => host.deregister(),
            HostEvent::DriverComes => host.register(),
            HostEvent::FilesGo => {
                for path in host.remains().into_iter().filter(|path| path.ends_with("vol_data.json")) {
                    fs::remove_file(host.root().join(path)).unwrap();
                }
            }
            HostEvent::Attach => {
                let name = request(0, 1).id.unique_name();
                host.cluster.reported.send_modify(|names| {
                    names.insert(name.clone());
                });
                host.cluster.attached.send_modify(|names| {
                    names.insert(name);
                });
            }
            HostEvent::Grow { volume, size } => host.claims.desired.send_modify(|sizes| {
                sizes.insert(request(0, volume).id.handle, size);
            }),
            HostEvent::ClaimsAnswer(answers) => host.claims.is_silent.store(!answers, Ordering::Relaxed),
        }
    }
    settle(host, pods).await;
}

/// Everything works from now on.
async fn settle(host: Host, mut pods: Pods) {
    host.claims.is_silent.store(false, Ordering::Relaxed);
    for method in [
        Method::Stage,
        Method::Publish,
        Method::Unpublish,
        Method::Unstage,
        Method::Expand,
        Method::Capabilities,
    ] {
        host.driver.always(method, Outcome::Done);
    }
    host.register();
    host.driver.release();
    let name = request(0, 1).id.unique_name();
    host.cluster.reported.send_modify(|names| {
        names.insert(name.clone());
    });
    host.cluster.attached.send_modify(|names| {
        names.insert(name.clone());
    });
    sleep(Duration::from_secs(600)).await;
    for pod in pods.leaving.clone() {
        pods.release(&host, pod).await;
    }
    assert_eq!(pods.leaving, BTreeSet::new());
    pods.want_again(&host).await;
    sleep(Duration::from_secs(600)).await;

    let expected = |volume: u32| pods.desired.iter().filter(|(_, volumes)| volumes.contains(&volume)).count();
    let published = host.driver.published();
    for volume in 0..4 {
        let handle = request(0, volume).id.handle;
        let at = published.values().filter(|target| target.handle == handle).count();
        // One of the pods that want the first has it.
        let expected = if volume == 0 { expected(0).min(1) } else { expected(volume) };
        assert_eq!(at, expected, "{handle} of {:?}", pods.desired);
        if host.driver.capabilities_now().stage {
            assert_eq!(host.driver.staged().contains_key(&handle), expected > 0, "{handle}");
        }
        let desired_size = host.claims.desired.borrow().get(&handle).copied().unwrap_or(SIZE);
        if expected > 0 {
            let size = host.claims.claims.lock().get(&handle).copied().unwrap_or(SIZE);
            assert!(size >= desired_size, "{handle} has {size} of {desired_size}");
        }
        let name = request(0, volume).id.unique_name();
        assert_eq!(host.store.keys(Table::CsiVolumes).contains(&name), expected > 0, "{name}");
    }
    assert_eq!(host.volumes().in_use().borrow().contains(&name), expected(1) > 0);
    assert_eq!(host.driver.violations(), [""; 0]);
    let stray = |path: &String| {
        let is_wanted = |pod: &u8| path.contains(&format!("pod-{pod}/"));
        path.starts_with("pods/") && !pods.desired.keys().any(is_wanted)
    };
    assert_eq!(host.remains().into_iter().filter(stray).collect::<Vec<_>>(), [""; 0]);
    if pods.desired.is_empty() {
        assert_eq!(host.remains(), BTreeSet::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_published_becomes_what_is_wanted(
        stages in any::<bool>(),
        history in proptest::collection::vec(event(), 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run(stages, history));
    }
}

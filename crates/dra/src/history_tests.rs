//! Random histories of pods that share claims, of drivers, daemons and hosts: a claim is prepared as long as a pod uses it, and nothing is
//! prepared once no pod does. The drivers in memory say what broke the rules on the way.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{sleep, timeout};

use crate::fake::{FakeDriver, Outcome};
use crate::testing::{GPU, Host, NIC, pod};

/// Claims with their drivers, and the pods that they are reserved for.
const CLAIMS: [(&str, &[&str], &[&str]); 3] =
    [("a", &[GPU], &["p0", "p1"]), ("b", &[GPU, NIC], &["p1", "p2"]), ("c", &[NIC], &["p2"])];

/// Pods and their claims. The last one is not allowed to use its claim.
const PODS: [(&str, &[&str]); 4] = [("p0", &["a"]), ("p1", &["a", "b"]), ("p2", &["b", "c"]), ("p3", &["a"])];

/// How often an end is tried before it must have succeeded: drivers are healthy then.
const ATTEMPTS: usize = 3;

#[derive(Clone, Debug)]
enum Event {
    /// A pod is prepared, and waited for so long, milliseconds.
    Start(usize, u64),
    /// A pod ends, and is waited for so long.
    End(usize, u64),
    /// What becomes of the next call to a driver.
    Next(&'static str, Outcome),
    Pass(u64),
    Goes(&'static str),
    Comes(&'static str),
    Restart,
    Reboot,
}

fn event() -> impl Strategy<Value = Event> {
    let driver = || prop_oneof![Just(GPU), Just(NIC)];
    let outcome = prop_oneof![
        Just(Outcome::Fails),
        Just(Outcome::FailsClaims),
        Just(Outcome::SaysNothing),
        Just(Outcome::Lost),
        Just(Outcome::Hangs),
        Just(Outcome::Late),
    ];
    let patience = || prop_oneof![0..100_u64, 0..100_000_u64];
    prop_oneof![
        6 => (0..PODS.len(), patience()).prop_map(|(pod, patience)| Event::Start(pod, patience)),
        6 => (0..PODS.len(), patience()).prop_map(|(pod, patience)| Event::End(pod, patience)),
        5 => (driver(), outcome).prop_map(|(driver, outcome)| Event::Next(driver, outcome)),
        3 => (0..60_000_u64).prop_map(Event::Pass),
        1 => driver().prop_map(Event::Goes),
        2 => driver().prop_map(Event::Comes),
        1 => Just(Event::Restart),
        1 => Just(Event::Reboot),
    ]
}

#[derive(Default)]
struct Model {
    /// Pods whose containers run.
    running: BTreeSet<usize>,
    /// Pods that end. They are not started again.
    ending: BTreeSet<usize>,
}

impl Model {
    /// The UIDs of the claims of a driver that running pods use.
    fn used(&self, driver: &str) -> BTreeSet<String> {
        let claims = self.running.iter().flat_map(|pod| PODS[*pod].1);
        let of_driver = claims.filter(|claim| {
            CLAIMS.iter().any(|(name, drivers, _)| name == *claim && drivers.contains(&driver))
        });
        of_driver.map(|claim| format!("u{claim}")).collect()
    }
}

async fn run(history: Vec<Event>) {
    let mut host = Host::new();
    for (name, drivers, pods) in CLAIMS {
        host.api.set(name, &format!("u{name}"), drivers, pods);
    }
    let mut model = Model::default();
    for event in history {
        match event.clone() {
            Event::Start(index, patience) if !model.ending.contains(&index) => {
                let (name, claims) = PODS[index];
                let pod = pod(name, claims);
                let started = timeout(Duration::from_millis(patience), host.prepare(&pod)).await;
                if started == Ok(Ok(())) {
                    assert_ne!(name, "p3", "its claim is not reserved for it");
                    model.running.insert(index);
                }
            }
            Event::Start(..) => {}
            Event::End(index, patience) => {
                // Its containers were stopped first.
                model.running.remove(&index);
                model.ending.insert(index);
                let (name, claims) = PODS[index];
                let released =
                    timeout(Duration::from_millis(patience), host.release(&pod(name, claims))).await;
                if released == Ok(Ok(())) {
                    model.ending.remove(&index);
                }
            }
            Event::Next(driver, outcome) => host.drivers[driver].next(outcome),
            Event::Pass(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
            Event::Goes(driver) => host.deregister(driver),
            Event::Comes(driver) => host.register(driver),
            Event::Restart => host.restart().await,
            Event::Reboot => {
                // Containers do not survive it.
                model.running.clear();
                host.reboot().await;
            }
        }
        for (name, driver) in &host.drivers {
            assert_eq!(driver.wrong(), Vec::<String>::new());
            let missing: Vec<String> = model.used(name).difference(&driver.prepared()).cloned().collect();
            assert!(missing.is_empty(), "{name} lacks {missing:?} of a running pod after {event:?}");
        }
    }
    end(&host).await;
}

/// All pods end, with healthy drivers: nothing is left, also for the next daemon.
async fn end(host: &Host) {
    host.drivers.values().for_each(FakeDriver::heal);
    host.register(GPU);
    host.register(NIC);
    for (name, claims) in PODS {
        let mut released = Ok(());
        for _ in 0..ATTEMPTS {
            // What hangs already ends with the deadline of its call.
            released = host.release(&pod(name, claims)).await;
            if released.is_ok() {
                break;
            }
        }
        assert_eq!(released, Ok(()), "{name}");
    }
    for driver in host.drivers.values() {
        assert_eq!((driver.prepared(), driver.wrong()), (BTreeSet::new(), Vec::new()));
    }
    assert_eq!(host.claims.views(), Vec::new());
    let file = std::fs::read_to_string(host.path()).unwrap_or_default();
    assert!(!file.contains("PodUIDs"), "{file}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_claim_is_prepared_as_long_as_a_pod_uses_it(history in prop::collection::vec(event(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(history));
    }
}

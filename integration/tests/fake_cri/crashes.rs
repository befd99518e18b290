//! A daemon killed while pods start: the next one continues without restarts or duplicates.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::ContainerState;
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule};

use crate::support::{LATER, SOON, containers_of, is_ready, manifest, running, sandboxes_of};

/// The calls that start a pod of two containers, each once.
const STARTING: [Operation; 3] =
    [Operation::RunSandbox, Operation::CreateContainer, Operation::StartContainer];
/// The number of these calls for two pods of two containers.
const CALLS: usize = 10;

fn starting_calls(host: &FakeHost) -> usize {
    host.runtime().calls().iter().filter(|call| STARTING.contains(&call.operation)).count()
}

/// Waits until the runtime has received `wanted` calls that start something.
async fn wait_for_calls(host: &FakeHost, wanted: usize) -> Result<()> {
    wait_for("calls that start something", SOON, async || {
        let calls = starting_calls(host);
        Ok(if calls >= wanted { Look::Done(()) } else { Look::NotYet(format!("{calls} of {wanted}")) })
    })
    .await
}

#[tokio::test]
async fn killing_the_daemon_at_any_moment_of_a_start_duplicates_nothing() {
    let host = FakeHost::start().unwrap();
    for operation in STARTING {
        let slow = Fault::Delay(Duration::from_millis(150));
        host.runtime().faults().add(Rule::new(operation, slow));
    }
    let mut names = Vec::new();
    let mut daemon = host.start_hostlet("").await.unwrap();
    let mut before: BTreeMap<String, u32> = BTreeMap::new();
    for round in 0..CALLS {
        // One call later each time.
        let wanted = starting_calls(&host) + round + 1;
        for which in ["a", "b"] {
            let name = format!("pod{round}{which}");
            host.write_manifest(&format!("{name}.json"), &manifest(&name, &["one", "two"])).unwrap();
            names.push(name);
        }
        wait_for_calls(&host, wanted).await.unwrap();
        daemon.kill().unwrap();
        let now = running(&host);
        assert!(before.keys().all(|id| now.contains_key(id)), "round {round}: {before:?} → {now:?}");
        before = now;
        daemon = host.start_hostlet("").await.unwrap();
    }
    let runs = ContainerState::ContainerRunning;
    for name in &names {
        daemon.wait_for_pod(name, LATER, is_ready).await.unwrap();
        let containers = containers_of(&host, name);
        assert_eq!(containers, [("one".to_owned(), 0, runs), ("two".to_owned(), 0, runs)], "{name}");
        assert_eq!(sandboxes_of(&host, name), [0], "{name}");
    }
    let now = running(&host);
    assert!(before.keys().all(|id| now.contains_key(id)), "{before:?} → {now:?}");
    assert!(host.runtime().calls_of(Operation::StopContainer).is_empty());
    assert!(host.runtime().calls_of(Operation::RemoveContainer).is_empty());
    assert_eq!(daemon.pods().unwrap().len(), names.len());
}

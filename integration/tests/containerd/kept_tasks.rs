//! A task that containerd has for a container that has ended, as a start that was cut short can leave it: the CRI cannot remove such
//! a container.

use anyhow::Result;
use hostlet_integration::real::RealHost;
use hostlet_integration::{Look, wait_for};
use hostlet_proto::cri::ContainerState;
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, SOON, manifest, wait_until_empty, wait_until_ready};

/// The only container in this state.
async fn the_container(host: &RealHost, state: ContainerState) -> Result<String> {
    wait_for("a container in that state", SOON, async || {
        let containers = host.cri().containers().await?;
        let found = containers.iter().find(|container| container.state == state as i32);
        Ok(match found {
            Some(container) => Look::Done(container.id.clone()),
            None => Look::NotYet(format!("{} containers", containers.len())),
        })
    })
    .await
}

#[tokio::test]
async fn a_pod_goes_although_containerd_kept_the_task_of_a_container_that_had_ended() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut pod: Value = serde_json::from_str(&manifest("app", &[("one", IDLE), ("two", IDLE)])).unwrap();
    pod["spec"]["restartPolicy"] = json!("Never");
    host.write_manifest("app.json", &pod.to_string()).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    let running = the_container(&host, ContainerState::ContainerRunning).await.unwrap();
    host.cri().kill_container(&running).await.unwrap();
    let ended = the_container(&host, ContainerState::ContainerExited).await.unwrap();
    host.ctr(&["task", "start", "--detach", &ended]).unwrap();
    host.remove_manifest("app.json").unwrap();
    wait_for("the task is deleted", LATER, async || {
        let tasks = host.ctr(&["task", "list", "--quiet"])?;
        Ok(if tasks.contains(&ended) { Look::NotYet(tasks) } else { Look::Done(()) })
    })
    .await
    .unwrap();
    wait_until_empty(&host).await.unwrap();
}

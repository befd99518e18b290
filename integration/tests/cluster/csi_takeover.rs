//! A node with volumes of a CSI driver whose agent is replaced: the stock kubelet by hostlet, and hostlet by the stock kubelet.

use std::fs;

use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::csi::{Bed, WRITES, user};
use crate::support::{IDLE, LATER, assert_undisturbed, delete, pod, run, wait_until_gone};

const DOES: [&str; 2] = ["NodeStageVolume", "NodePublishVolume"];
const UNDOES: [&str; 2] = ["NodeUnpublishVolume", "NodeUnstageVolume"];

/// How many mounts of the driver are on the node.
fn mounts(bed: &Bed) -> usize {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = bed.node().root_dir().display().to_string();
    let is_ours =
        |line: &&str| line.contains(&root) && line.contains("kubernetes.io") && line.contains("csi/");
    mounts.lines().filter(is_ours).count()
}

/// Starts the other agent, and runs a pod with it. The agent does not know for certain what the other one completed, so it asks for that
/// again, as the stock kubelet does after every start; but nothing is mounted a second time, and none of these volumes is taken back.
/// `expected` is how often it stages and publishes. A restart of hostlet repeats nothing.
async fn take_over(bed: &mut Bed, agent: Agent, object: Value, used: &[&str], expected: usize) -> Pod {
    let client = bed.tenant.client();
    let (mounted, before) = (mounts(bed), bed.driver.calls().unwrap().len());
    bed.tenant.nodes[0].replace_agent(agent).await.unwrap();
    bed.tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    let volumes = object["spec"]["volumes"].as_array().unwrap().len();
    let made = run(&bed.tenant, object).await.unwrap();
    wait_for("everything is staged and published", LATER, async || {
        let done = asked(&bed.driver.calls()?[before..], &DOES);
        Ok(if done.len() < expected { Look::NotYet(format!("{done:?}")) } else { Look::Done(()) })
    })
    .await
    .unwrap();
    let taken = asked(&bed.driver.calls().unwrap()[before..], &UNDOES);
    assert!(!taken.iter().any(|volume| used.contains(&volume.as_str())), "{taken:?}");
    assert!(mounts(bed) >= mounted + volumes, "a mount is missing");
    if agent == Agent::Hostlet {
        let done = asked(&bed.driver.calls().unwrap(), &DOES).len();
        bed.tenant.nodes[0].kill_agent().unwrap();
        bed.tenant.nodes[0].start_agent().unwrap();
        bed.tenant.nodes[0].wait_until_ready(&client).await.unwrap();
        run(&bed.tenant, pod("after-restart", IDLE)).await.unwrap();
        assert_eq!(asked(&bed.driver.calls().unwrap(), &DOES).len(), done);
        delete(&bed.tenant, "after-restart", None).await.unwrap();
    }
    made
}

/// The volumes of these calls that succeeded.
fn asked(calls: &[Value], names: &[&str]) -> Vec<String> {
    let done =
        calls.iter().filter(|call| call["code"] == "OK" && names.iter().any(|name| call["call"] == *name));
    done.map(|call| call["volume"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Runs pods with volumes, replaces the agent, and uses and removes the volumes with the second agent, except one that it leaves to the
/// first.
async fn replace(name: &str, first: Agent, second: Agent) {
    let extra = json!({"hostlet": {"adoptForeignPods": true}});
    let tenant = Tenant::of(name, &[first], &extra).await.unwrap();
    let spec = json!({
        "attachRequired": false, "podInfoOnMount": true, "fsGroupPolicy": "File",
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    });
    let mut bed = Bed::on(tenant, spec, &["--no-attach", "--image"]).await.unwrap();
    for volume in ["db", "late"] {
        bed.create_volume(volume, json!({})).await.unwrap();
    }
    bed.create_volume("raw", json!({"volumeMode": "Block"})).await.unwrap();
    let mut object = user("forms", WRITES, &["db"]);
    let volumes = object["spec"]["volumes"].as_array_mut().unwrap();
    volumes.push(json!({"name": "scratch", "csi": {"driver": bed.name}}));
    volumes.push(json!({"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}}));
    let places = object["spec"]["containers"][0]["volumeMounts"].as_array_mut().unwrap();
    places.push(json!({"name": "scratch", "mountPath": "/scratch"}));
    object["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "raw", "devicePath": "/dev/raw"}]);
    let forms = run(&bed.tenant, object).await.unwrap();
    let other = run(&bed.tenant, user("other", WRITES, &["db"])).await.unwrap();
    let stays = run(&bed.tenant, user("stays", WRITES, &["late"])).await.unwrap();
    let mounted = mounts(&bed);

    // Three volumes that are staged, and six that are published, one of which is of the new pod.
    let used = ["db", "late", "raw"];
    let third = take_over(&mut bed, second, user("third", WRITES, &["db"]), &used, 9).await;
    let pods = fs::read_to_string(bed.mount(&third, "db").join("pods")).unwrap();
    assert_eq!(pods, "forms\nother\nthird\n");
    assert_eq!(mounts(&bed), mounted + 1);
    for pod in [&forms, &other, &stays] {
        assert_undisturbed(&bed.tenant, pod).await.unwrap();
    }
    for pod in ["forms", "other", "third"] {
        delete(&bed.tenant, pod, None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), pod).await.unwrap();
    }
    // `db` and `raw`, which nobody uses any more.
    wait_for("two volumes are unstaged", LATER, async || {
        let count = bed.count("NodeUnstageVolume")?;
        Ok(if count == 2 { Look::Done(()) } else { Look::NotYet(format!("{count} are")) })
    })
    .await
    .unwrap();
    // And back: two that are staged, three that are published. hostlet knows what it did before.
    let expected = if first == Agent::Hostlet { 3 } else { 5 };
    let again = take_over(&mut bed, first, user("again", WRITES, &["db", "late"]), &["late"], expected).await;
    let pods = fs::read_to_string(bed.mount(&again, "db").join("pods")).unwrap();
    assert_eq!(pods, "forms\nother\nthird\nagain\n");
    assert_undisturbed(&bed.tenant, &stays).await.unwrap();
    for pod in ["stays", "again"] {
        delete(&bed.tenant, pod, None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), pod).await.unwrap();
    }
    bed.end().await.unwrap();
}

#[tokio::test]
async fn hostlet_takes_the_place_of_the_stock_kubelet_and_gives_it_back() {
    replace("csi-takeover", Agent::Stock, Agent::Hostlet).await;
}

#[tokio::test]
async fn the_stock_kubelet_takes_the_place_of_hostlet_and_gives_it_back() {
    replace("csi-handover", Agent::Hostlet, Agent::Stock).await;
}

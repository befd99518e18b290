//! Volumes of a CSI driver, which registers by upstream's protocol: staged and published for pods, and taken back; restarts in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::cluster::{Agent, Node, Tenant};
use hostlet_integration::csi::{CsiDriver, CsiDriverOptions, Fault, csi_registrar};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Node as ApiNode, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, delete, is_ready, pod, run, uid, wait_for_object, wait_until_clean, wait_until_gone,
};

/// A driver on the tenant's first node, with objects of its own in the cluster.
pub(crate) struct Bed {
    pub(crate) tenant: Tenant,
    pub(crate) driver: CsiDriver,
    pub(crate) name: String,
}

impl Bed {
    /// A driver whose CSIDriver object has this spec.
    pub(crate) async fn new(name: &str, spec: Value, arguments: &[&str]) -> Result<Self> {
        Self::on(Tenant::new(name, 1).await?, spec, arguments).await
    }

    /// The same on the first node of this tenant.
    pub(crate) async fn on(tenant: Tenant, spec: Value, arguments: &[&str]) -> Result<Self> {
        let driver_name = format!("{}.csi.hostlet.test", tenant.namespace());
        let mut object = json!({"metadata": {"name": driver_name}, "spec": spec});
        object["spec"]["requiresRepublish"] = json!(false);
        let drivers: Api<CSIDriver> = Api::all(tenant.client());
        drivers.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let work = tenant.nodes[0].root_dir().join("../csi");
        fs::create_dir_all(&work)?;
        let work = work.canonicalize()?;
        let mut driver = CsiDriver::new(CsiDriverOptions {
            program: env!("CARGO_BIN_EXE_csi_driver").into(),
            name: driver_name.clone(),
            node_id: tenant.nodes[0].name().to_owned(),
            root: tenant.nodes[0].root_dir(),
            volumes: work.join("volumes"),
            work,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            registrar: Some(csi_registrar()?),
        });
        driver.start()?;
        let bed = Self { tenant, driver, name: driver_name };
        bed.wait_until_registered().await?;
        Ok(bed)
    }

    pub(crate) fn node(&self) -> &Node {
        &self.tenant.nodes[0]
    }

    /// Waits until the CSINode has the driver.
    async fn wait_until_registered(&self) -> Result<CSINode> {
        let nodes: Api<CSINode> = Api::all(self.tenant.client());
        let has = |node: &CSINode| node.spec.drivers.iter().any(|driver| driver.name == self.name);
        wait_for_object(&nodes, self.node().name(), LATER, has).await
    }

    /// Creates a PersistentVolume of the driver, and a claim of the same name that is bound to it.
    pub(crate) async fn create_volume(&self, name: &str, more: Value) -> Result<()> {
        let volume = format!("{}-{name}", self.tenant.namespace());
        let claim = json!({"namespace": self.tenant.namespace(), "name": name});
        let mut object = json!({
            "metadata": {"name": volume},
            "spec": {
                "capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "", "claimRef": claim,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": self.name, "volumeHandle": name, "fsType": "ext4", "volumeAttributes": {"create": "true"}},
            },
        });
        merge(&mut object["spec"], more.clone());
        let volumes: Api<PersistentVolume> = Api::all(self.tenant.client());
        volumes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        let mut claim = json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
                "resources": {"requests": {"storage": "64Mi"}},
            },
        });
        for field in ["accessModes", "volumeMode"] {
            if let Some(value) = more.get(field) {
                claim["spec"][field] = value.clone();
            }
        }
        self.tenant.create::<PersistentVolumeClaim>(claim).await?;
        Ok(())
    }

    /// Where a volume is mounted for a pod.
    pub(crate) fn mount(&self, pod: &Pod, claim: &str) -> PathBuf {
        let volumes = self.node().root_dir().join("pods").join(uid(pod)).join("volumes/kubernetes.io~csi");
        volumes.join(format!("{}-{claim}", self.tenant.namespace())).join("mount")
    }

    /// The names of the driver's node calls about volumes that succeeded, oldest first.
    pub(crate) fn done(&self) -> Result<Vec<String>> {
        let calls = self.driver.calls()?;
        let done = calls.iter().filter(|call| call["code"] == json!("OK"));
        let names = done.filter_map(|call| call["call"].as_str());
        let of_volumes = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"];
        Ok(names.filter(|name| of_volumes.contains(name)).map(str::to_owned).collect())
    }

    /// How often a call of the driver succeeded.
    pub(crate) fn count(&self, name: &str) -> Result<usize> {
        let calls = self.driver.calls()?;
        Ok(calls.iter().filter(|call| call["call"] == name && call["code"] == "OK").count())
    }

    /// Waits until the driver has taken everything back, then removes the objects of the cluster.
    pub(crate) async fn end(mut self) -> Result<()> {
        wait_until_clean(self.node()).await?;
        wait_for("the volumes are unstaged", SOON, async || {
            let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
            let root = self.node().root_dir().join("plugins/kubernetes.io/csi").display().to_string();
            let left: Vec<&str> = mounts.lines().filter(|line| line.contains(&root)).collect();
            Ok(if left.is_empty() { Look::Done(()) } else { Look::NotYet(left.join("\n")) })
        })
        .await?;
        assert_eq!(self.driver.violations()?, [""; 0]);
        self.driver.stop()?;
        let volumes: Api<PersistentVolume> = Api::all(self.tenant.client());
        for volume in volumes.list(&ListParams::default()).await?.items {
            let name = volume.metadata.name.unwrap_or_default();
            if name.starts_with(self.tenant.namespace()) {
                volumes.delete(&name, &DeleteParams::default()).await?;
            }
        }
        let drivers: Api<CSIDriver> = Api::all(self.tenant.client());
        drivers.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// A pod that mounts the claims at `/data/<claim>`.
pub(crate) fn user(name: &str, script: &str, claims: &[&str]) -> Value {
    let mut object = pod(name, script);
    let volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}))
        .collect();
    let mounts: Vec<Value> =
        claims.iter().map(|claim| json!({"name": claim, "mountPath": format!("/data/{claim}")})).collect();
    object["spec"]["volumes"] = json!(volumes);
    object["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
    object
}

/// Waits for an event `FailedMount` of a pod with this text.
async fn wait_for_failed_mount(tenant: &Tenant, pod: &Pod, text: &str) -> Result<()> {
    let selector = format!("involvedObject.uid={},reason=FailedMount", uid(pod));
    wait_for(text, SOON, async || {
        let events = tenant.api::<Event>().list(&ListParams::default().fields(&selector)).await?.items;
        let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
        let is_there = messages.iter().any(|message| message.contains(text));
        Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
    })
    .await
}

pub(crate) const WRITES: &str = "echo $HOSTNAME >> /data/db/pods; trap 'exit 0' TERM; sleep 99999 & wait";

#[tokio::test]
async fn a_volume_is_staged_published_and_taken_back_whatever_is_restarted() {
    let spec = json!({"attachRequired": false, "podInfoOnMount": true, "fsGroupPolicy": "File"});
    let mut bed = Bed::new("csi", spec, &["--no-attach", "--image"]).await.unwrap();
    let csi_node = bed.wait_until_registered().await.unwrap();
    let driver = csi_node.spec.drivers.iter().find(|driver| driver.name == bed.name).unwrap();
    assert_eq!(driver.node_id, bed.node().name());
    let nodes: Api<ApiNode> = Api::all(bed.tenant.client());
    let node = nodes.get(bed.node().name()).await.unwrap();
    let annotations: &BTreeMap<String, String> = node.metadata.annotations.as_ref().unwrap();
    let ids: BTreeMap<String, String> =
        serde_json::from_str(&annotations["csi.volume.kubernetes.io/nodeid"]).unwrap();
    assert_eq!(ids[&bed.name], bed.node().name());

    bed.create_volume("db", json!({"mountOptions": ["noatime"]})).await.unwrap();
    let mut object = user("first", WRITES, &["db"]);
    object["spec"]["securityContext"] = json!({"fsGroup": 3000});
    let first = run(&bed.tenant, object).await.unwrap();
    let mount = bed.mount(&first, "db");
    assert_eq!(fs::read_to_string(mount.join("pods")).unwrap(), "first\n");
    assert_eq!(std::os::unix::fs::MetadataExt::gid(&fs::metadata(&mount).unwrap()), 3000);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = mounts.lines().find(|line| line.contains(&mount.display().to_string())).unwrap();
    assert!(line.contains("noatime") && line.contains("ext4"), "{line}");
    assert!(mount.with_file_name("vol_data.json").exists());

    // A second pod on the node uses it, too. Then agent and driver are restarted.
    let second = run(&bed.tenant, user("second", WRITES, &["db"])).await.unwrap();
    assert_eq!(bed.done().unwrap(), ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]);
    bed.tenant.nodes[0].kill_agent().unwrap();
    bed.driver.kill().unwrap();
    bed.tenant.nodes[0].start_agent().unwrap();
    bed.driver.start().unwrap();
    let third = run(&bed.tenant, user("third", WRITES, &["db"])).await.unwrap();
    assert_eq!(fs::read_to_string(bed.mount(&third, "db").join("pods")).unwrap(), "first\nsecond\nthird\n");
    let done = bed.done().unwrap();
    if bed.node().agent() == Agent::Hostlet {
        // Nothing is staged or published a second time.
        assert_eq!(done.len(), 4, "{done:?}");
    } else {
        // The stock kubelet asks for everything again, but takes nothing back.
        assert!(!done.iter().any(|call| call.contains("Un")), "{done:?}");
    }
    for pod in [&first, &second, &third] {
        delete(&bed.tenant, pod.metadata.name.as_deref().unwrap(), None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), pod.metadata.name.as_deref().unwrap()).await.unwrap();
    }
    let calls = bed.driver.calls().unwrap();
    let publish = calls.iter().find(|call| call["call"] == "NodePublishVolume").unwrap();
    assert!(publish.to_string().contains("csi.storage.k8s.io/pod.name"), "{publish}");
    bed.end().await.unwrap();
}

#[tokio::test]
async fn a_driver_that_fails_hangs_or_dies_delays_only_its_pods() {
    let spec = json!({"attachRequired": false});
    let mut bed = Bed::new("csi-faults", spec, &["--no-attach"]).await.unwrap();
    let faults = bed.driver.faults();
    faults.next("NodeStageVolume", [Fault::Fails(13), Fault::Dies]).unwrap();
    bed.create_volume("db", json!({})).await.unwrap();
    let made = bed.tenant.create_pod(user("waits", WRITES, &["db"])).await.unwrap();
    wait_for_failed_mount(&bed.tenant, &made, "code = Internal").await.unwrap();
    // It died in the second call.
    wait_for("the driver dies", SOON, async || {
        let dead = bed.driver.calls()?.iter().filter(|call| call["call"] == "NodeStageVolume").count() >= 3;
        Ok(if dead { Look::Done(()) } else { Look::NotYet(String::new()) })
    })
    .await
    .unwrap();
    // Another pod is not delayed by it.
    run(&bed.tenant, pod("other", IDLE)).await.unwrap();
    bed.driver.kill().unwrap();
    bed.driver.start().unwrap();
    wait_for_object::<Pod>(&bed.tenant.api(), "waits", LATER, is_ready).await.unwrap();

    faults.next("NodeUnpublishVolume", [Fault::Hangs]).unwrap();
    delete(&bed.tenant, "waits", None).await.unwrap();
    delete(&bed.tenant, "other", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "other").await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(bed.tenant.api::<Pod>().get_opt("waits").await.unwrap().is_some());
    faults.release().unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "waits").await.unwrap();
    bed.end().await.unwrap();
}

#[tokio::test]
async fn a_volume_is_used_once_it_is_attached_and_in_use_until_it_is_unstaged() {
    let bed = Bed::new("csi-attach", json!({"attachRequired": true}), &[]).await.unwrap();
    bed.create_volume("db", json!({})).await.unwrap();
    let volume = format!("kubernetes.io/csi/{}^db", bed.name);
    let made = bed.tenant.create_pod(user("waits", WRITES, &["db"])).await.unwrap();
    let nodes: Api<ApiNode> = Api::all(bed.tenant.client());
    let status = |node: &ApiNode| node.status.clone().unwrap_or_default();
    let in_use = |node: &ApiNode| status(node).volumes_in_use.unwrap_or_default().contains(&volume);
    wait_for_object(&nodes, bed.node().name(), SOON, in_use).await.unwrap();
    // The attach-detach controller has created it; this test is the driver's attacher.
    let attachments: Api<VolumeAttachment> = Api::all(bed.tenant.client());
    let attachment = wait_for("the VolumeAttachment", LATER, async || {
        let all = attachments.list(&ListParams::default()).await?.items;
        let own = all.into_iter().find(|attachment| attachment.spec.attacher == bed.name);
        Ok(own.map_or_else(|| Look::NotYet("none".to_owned()), Look::Done))
    })
    .await
    .unwrap();
    let name = attachment.metadata.name.unwrap();
    assert_eq!(bed.done().unwrap(), [""; 0]);
    let metadata = json!({"attachedTo": bed.node().name()});
    let attached = json!({"status": {"attached": true, "attachmentMetadata": metadata}});
    attachments.patch_status(&name, &PatchParams::default(), &Patch::Merge(attached)).await.unwrap();
    wait_for_object::<Pod>(&bed.tenant.api(), "waits", LATER, is_ready).await.unwrap();
    assert!(bed.mount(&made, "db").join("pods").exists());

    bed.driver.faults().next("NodeUnstageVolume", [Fault::Hangs]).unwrap();
    delete(&bed.tenant, "waits", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "waits").await.unwrap();
    assert!(in_use(&nodes.get(bed.node().name()).await.unwrap()), "it is not unstaged yet");
    bed.driver.faults().release().unwrap();
    wait_for_object(&nodes, bed.node().name(), LATER, |node| !in_use(node)).await.unwrap();
    // The controller detaches it.
    wait_for("it is detached", LATER, async || {
        let gone =
            attachments.get_opt(&name).await?.is_none_or(|it| it.metadata.deletion_timestamp.is_some());
        Ok(if gone { Look::Done(()) } else { Look::NotYet(name.clone()) })
    })
    .await
    .unwrap();
    bed.end().await.unwrap();
}

#[tokio::test]
async fn volumes_that_live_in_a_pod_and_block_devices() {
    let spec = json!({"attachRequired": false, "volumeLifecycleModes": ["Persistent", "Ephemeral"], "podInfoOnMount": true});
    let bed = Bed::new("csi-forms", spec, &["--no-attach", "--image"]).await.unwrap();
    bed.create_volume("raw", json!({"volumeMode": "Block"})).await.unwrap();
    let script = "echo text > /scratch/file; printf block | dd of=/dev/raw conv=notrunc 2>/dev/null; \
                  trap 'exit 0' TERM; sleep 99999 & wait";
    let mut object = pod("forms", script);
    object["spec"]["volumes"] = json!([
        {"name": "scratch", "csi": {"driver": bed.name}},
        {"name": "raw", "persistentVolumeClaim": {"claimName": "raw"}},
    ]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    object["spec"]["containers"][0]["volumeDevices"] = json!([{"name": "raw", "devicePath": "/dev/raw"}]);
    let made = run(&bed.tenant, object).await.unwrap();
    let volumes = bed.node().root_dir().join("pods").join(uid(&made)).join("volumes/kubernetes.io~csi");
    assert_eq!(fs::read_to_string(volumes.join("scratch/mount/file")).unwrap(), "text\n");
    let devices = bed.node().root_dir().join("pods").join(uid(&made)).join("volumeDevices/kubernetes.io~csi");
    let device = devices.join(format!("{}-raw", bed.tenant.namespace()));
    let mut start = [0; 5];
    std::io::Read::read_exact(&mut fs::File::open(&device).unwrap(), &mut start).unwrap();
    assert_eq!(&start, b"block");
    delete(&bed.tenant, "forms", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "forms").await.unwrap();
    bed.end().await.unwrap();
}

impl Bed {
    /// Does what a resizer does: the storage behind `db` has this size from now on, and the node is to do its part.
    async fn resize(&self, size: &str) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.tenant.client());
        let capacity = json!({"spec": {"capacity": {"storage": size}}});
        let name = format!("{}-db", self.tenant.namespace());
        volumes.patch(&name, &PatchParams::default(), &Patch::Merge(capacity)).await?;
        let pending = json!({"status": {
            "allocatedResources": {"storage": size},
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
            "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
        }});
        let claims = self.tenant.api::<PersistentVolumeClaim>();
        claims.patch_status("db", &PatchParams::default(), &Patch::Merge(pending)).await?;
        Ok(())
    }

    /// Waits until the claim has this size, and nothing of the expansion is left in its status.
    async fn wait_until_resized(&self, size: &str) -> Result<()> {
        let is_done = |claim: &PersistentVolumeClaim| {
            let status = claim.status.clone().unwrap_or_default();
            let has_size = status.capacity.is_some_and(|capacity| capacity["storage"].0 == size);
            // Kubernetes 1.37 has one about its use, too.
            let mut conditions = status.conditions.into_iter().flatten();
            let is_resizing = conditions.any(|condition| condition.type_.contains("Resiz"));
            has_size && status.allocated_resource_statuses.is_none() && !is_resizing
        };
        wait_for_object(&self.tenant.api(), "db", LATER, is_done).await.map(drop)
    }

    /// The sizes that the driver was asked for, in MiB.
    fn expansions(&self) -> Result<Vec<u64>> {
        let calls = self.driver.calls()?;
        let calls = calls.iter().filter(|call| call["call"] == "NodeExpandVolume" && !call["code"].is_null());
        Ok(calls.filter_map(|call| Some(call["capacity"].as_u64()? >> 20)).collect())
    }
}

#[tokio::test]
async fn a_volume_grows_while_it_is_used_and_before_it_is_used() {
    let spec = json!({"attachRequired": false});
    // Of directories: growing a mounted ext4 takes CAP_SYS_RESOURCE, which some hosts of these tests lack.
    let bed = Bed::new("csi-grow", spec, &["--no-attach"]).await.unwrap();
    bed.create_volume("db", json!({})).await.unwrap();
    run(&bed.tenant, user("first", WRITES, &["db"])).await.unwrap();
    // A failure is a condition, and is tried again.
    bed.driver.faults().next("NodeExpandVolume", [Fault::Fails(13)]).unwrap();
    bed.resize("128Mi").await.unwrap();
    let has_error = |claim: &PersistentVolumeClaim| {
        let conditions = claim.status.as_ref().and_then(|status| status.conditions.clone());
        let text = "failed to expand pvc with Expander.NodeExpand failed to expand the volume : rpc error: code = Internal";
        conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "NodeResizeError"
                && condition.message.is_some_and(|message| message.contains(text))
        })
    };
    wait_for_object(&bed.tenant.api(), "db", LATER, has_error).await.unwrap();
    bed.wait_until_resized("128Mi").await.unwrap();
    assert_eq!(bed.expansions().unwrap(), [128, 128]);
    for kind in ["Pod", "PersistentVolumeClaim"] {
        let text =
            format!("MountVolume.NodeExpandVolume succeeded for volume \"{}-db\" ", bed.tenant.namespace());
        let selector = format!("involvedObject.kind={kind},reason=FileSystemResizeSuccessful");
        wait_for("the event", SOON, async || {
            let events =
                bed.tenant.api::<Event>().list(&ListParams::default().fields(&selector)).await?.items;
            let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
            let is_there = messages.iter().any(|message| message.starts_with(&text));
            Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
        })
        .await
        .unwrap();
    }
    delete(&bed.tenant, "first", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "first").await.unwrap();

    bed.resize("192Mi").await.unwrap();
    run(&bed.tenant, user("second", WRITES, &["db"])).await.unwrap();
    assert_eq!(bed.expansions().unwrap(), [128, 128, 192], "before its pod runs");
    bed.wait_until_resized("192Mi").await.unwrap();
    delete(&bed.tenant, "second", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "second").await.unwrap();
    bed.end().await.unwrap();
}

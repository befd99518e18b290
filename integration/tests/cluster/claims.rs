//! Claims bound by the real controllers: a StatefulSet keeps its local volume, and a pod waits for its claim.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hostlet_host::filesystem_usage;
use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::stats::{ask, pod_in, sample, summary};
use crate::support::{
    IDLE, LATER, container, delete, is_ready, pod, run, uid, wait_for_object, wait_for_pods,
    wait_until_clean, wait_until_gone,
};

/// Creates a local PersistentVolume for the claims of this namespace. The directory need not exist.
async fn create_volume(tenant: &Tenant, name: &str, path: &Path) -> Api<PersistentVolume> {
    let values = [tenant.nodes[0].name()];
    let here = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": values}]);
    let volume = json!({
        "metadata": {"name": name, "labels": {"for": tenant.namespace()}},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        },
    });
    let volumes: Api<PersistentVolume> = Api::all(tenant.client());
    volumes.create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
    volumes
}

fn claim(tenant: &Tenant, name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}},
            "selector": {"matchLabels": {"for": tenant.namespace()}},
        },
    })
}

fn mounted(mut spec: Value, claim: &str) -> Value {
    spec["containers"][0]["volumeMounts"] = json!([{"name": claim, "mountPath": "/data"}]);
    spec
}

/// Waits until the metrics and the summary have what the filesystem of the volume at `disk` has, which the stock kubelet measures each
/// minute.
async fn wait_for_its_use(tenant: &Tenant, disk: &Path) {
    const CLAIM: &str = "data-db-0";
    let capacity = filesystem_usage(disk).unwrap().capacity;
    let labels = [("namespace", tenant.namespace()), ("persistentvolumeclaim", CLAIM)];
    let families =
        ["capacity_bytes", "available_bytes", "used_bytes", "inodes", "inodes_free", "inodes_used"];
    wait_for("the use of the claim", LATER, async || {
        let (metrics, summary) = (ask(tenant, "metrics").await?, summary(tenant, "").await?);
        let values = families.map(|name| sample(&metrics, &format!("kubelet_volume_stats_{name}"), &labels));
        let volume = pod_in(&summary, "db-0")
            .and_then(|pod| pod["volume"].as_array()?.iter().find(|volume| volume["name"] == "data"));
        let (true, Some(volume)) = (values.iter().all(Option::is_some), volume) else {
            return Ok(Look::NotYet(format!("{values:?} {summary}")));
        };
        assert_eq!(values[0], Some(capacity as f64));
        assert_eq!(volume["capacityBytes"], capacity);
        assert_eq!(volume["pvcRef"], json!({"name": CLAIM, "namespace": tenant.namespace()}));
        Ok(Look::Done(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_stateful_set_keeps_its_local_volume() {
    let mut tenant = Tenant::new("claims", 1).await.unwrap();
    let disk = tenant.nodes[0].root_dir().join("../disk");
    fs::create_dir_all(disk.join("old")).unwrap();
    let disk = disk.canonicalize().unwrap();
    fs::write(disk.join("old/file"), "theirs").unwrap();
    fs::set_permissions(disk.join("old/file"), fs::Permissions::from_mode(0o600)).unwrap();
    let name = format!("pv-{}", tenant.namespace());
    let volumes = create_volume(&tenant, &name, &disk).await;
    let script = "cat /data/starts; echo started >> /data/starts; trap 'exit 0' TERM; sleep 9999 & wait";
    let spec = json!({
        "terminationGracePeriodSeconds": 2, "securityContext": {"fsGroup": 3000}, "containers": [container(script)],
    });
    let set = json!({
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 1, "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": mounted(spec, "data")},
            "volumeClaimTemplates": [claim(&tenant, "data")],
        },
    });
    tenant.create_controller::<StatefulSet>(set).await.unwrap();
    let running = |pods: &[Pod]| pods.len() == 1 && is_ready(&pods[0]);
    let first = wait_for_pods(&tenant, "the pod", LATER, running).await.unwrap().remove(0);
    let dir = tenant.nodes[0]
        .root_dir()
        .join("pods")
        .join(uid(&first))
        .join("volumes/kubernetes.io~local-volume")
        .join(&name);
    assert_eq!(fs::read_to_string(dir.join("starts")).unwrap(), "started\n");
    let file = fs::metadata(disk.join("old/file")).unwrap();
    assert_eq!((file.gid(), file.mode() & 0o777), (3000, 0o660));
    wait_for_its_use(&tenant, &disk).await;

    // Restarted, the agent finds its mount. The volume outlives the pod.
    tenant.nodes[0].kill_agent().unwrap();
    tenant.nodes[0].start_agent().unwrap();
    delete(&tenant, "db-0", None).await.unwrap();
    let second = |pods: &[Pod]| running(pods) && uid(&pods[0]) != uid(&first);
    wait_for_pods(&tenant, "another pod", LATER, second).await.unwrap();
    assert_eq!(fs::read_to_string(disk.join("starts")).unwrap(), "started\nstarted\n");
    assert!(!dir.exists());

    tenant.api::<StatefulSet>().delete("db", &DeleteParams::background()).await.unwrap();
    wait_for_pods(&tenant, "no pods", LATER, <[Pod]>::is_empty).await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
    assert_eq!(fs::read_to_string(disk.join("old/file")).unwrap(), "theirs");
    volumes.delete(&name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_pod_waits_for_its_claim_and_its_directory_with_the_stock_kubelets_events() {
    let tenant = Tenant::new("late-claims", 1).await.unwrap();
    tenant.create::<PersistentVolumeClaim>(claim(&tenant, "late")).await.unwrap();
    let mut object = pod("waits", IDLE);
    // The scheduler would wait itself.
    object["spec"]["nodeName"] = json!(tenant.nodes[0].name());
    object["spec"]["volumes"] = json!([{"name": "late", "persistentVolumeClaim": {"claimName": "late"}}]);
    object["spec"] = mounted(object["spec"].take(), "late");
    let made = tenant.create_pod(object).await.unwrap();
    let namespace = tenant.namespace();
    let not_bound = format!(
        "Unable to attach or mount volumes: unmounted volumes=[late], unattached volumes=[], failed to process \
         volumes=[late]: error processing PVC {namespace}/late: PVC is not bound"
    );
    wait_for_event(&tenant, &not_bound).await;

    let name = format!("pv-{namespace}");
    let disk = tenant.nodes[0].root_dir().parent().unwrap().join("late-disk");
    let volumes = create_volume(&tenant, &name, &disk).await;
    let no_path = format!(
        "MountVolume.NewMounter initialization failed for volume \"{name}\" : path \"{}\" does not exist",
        disk.display()
    );
    wait_for_event(&tenant, &no_path).await;
    fs::create_dir_all(&disk).unwrap();
    wait_for_object(&tenant.api::<Pod>(), "waits", LATER, is_ready).await.unwrap();
    let dir =
        tenant.nodes[0].root_dir().join("pods").join(uid(&made)).join("volumes/kubernetes.io~local-volume");
    assert!(dir.join(&name).exists());

    delete(&tenant, "waits", None).await.unwrap();
    wait_until_gone(&tenant.api::<Pod>(), "waits").await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
    volumes.delete(&name, &DeleteParams::default()).await.unwrap();
}

async fn wait_for_event(tenant: &Tenant, message: &str) {
    let found = wait_for(message, LATER, async || {
        let events = tenant.api::<Event>().list(&ListParams::default()).await?.items;
        let texts: Vec<_> = events.iter().filter_map(|event| event.message.clone()).collect();
        let is_found = events.iter().any(|event| {
            event.reason.as_deref() == Some("FailedMount") && event.message.as_deref() == Some(message)
        });
        Ok(if is_found { Look::Done(()) } else { Look::NotYet(texts.join("\n")) })
    });
    found.await.unwrap();
}

#[tokio::test]
async fn the_claim_of_a_local_volume_grows_with_it() {
    let tenant = Tenant::new("grow", 1).await.unwrap();
    let disk = tenant.nodes[0].root_dir().join("../disk");
    fs::create_dir_all(&disk).unwrap();
    let name = format!("pv-{}", tenant.namespace());
    let volumes = create_volume(&tenant, &name, &disk.canonicalize().unwrap()).await;
    tenant.create::<PersistentVolumeClaim>(claim(&tenant, "data")).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = tenant.api();
    let user = |name: &str| {
        let mut user = pod(name, IDLE);
        user["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
        user["spec"] = mounted(user["spec"].take(), "data");
        user
    };
    let resize = async |size: &str| {
        let patch = Patch::Merge(json!({"spec": {"capacity": {"storage": size}}}));
        volumes.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    };
    let has = |size: &'static str| {
        move |claim: &PersistentVolumeClaim| {
            let capacity = claim.status.as_ref().and_then(|status| status.capacity.as_ref());
            capacity.is_some_and(|capacity| capacity["storage"].0 == size)
        }
    };
    run(&tenant, user("first")).await.unwrap();
    // While it is used.
    resize("2Gi").await;
    wait_for_object(&claims, "data", LATER, has("2Gi")).await.unwrap();
    for kind in ["Pod", "PersistentVolumeClaim"] {
        let text = format!("MountVolume.NodeExpandVolume succeeded for volume \"{name}\" ");
        let selector = format!("involvedObject.kind={kind},reason=FileSystemResizeSuccessful");
        wait_for("the event", LATER, async || {
            let events = tenant.api::<Event>().list(&ListParams::default().fields(&selector)).await?.items;
            let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
            let is_there = messages.iter().any(|message| message.starts_with(&text));
            Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
        })
        .await
        .unwrap();
    }
    delete(&tenant, "first", None).await.unwrap();
    wait_until_gone(&tenant.api::<Pod>(), "first").await.unwrap();
    // Before it is used.
    resize("3Gi").await;
    run(&tenant, user("second")).await.unwrap();
    assert!(has("3Gi")(&claims.get("data").await.unwrap()));
    delete(&tenant, "second", None).await.unwrap();
    wait_until_gone(&tenant.api::<Pod>(), "second").await.unwrap();
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
    volumes.delete(&name, &DeleteParams::default()).await.unwrap();
}

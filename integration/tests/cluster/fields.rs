//! Fields of the pod spec whose effect depends on the cluster or the runtime.

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::support::{IDLE, SOON, pod, run, statuses, uid, wait_for_object};

/// Creates a RuntimeClass that is named after the tenant, because classes belong to the whole cluster.
async fn class(tenant: &Tenant, name: &str, mut object: Value) -> String {
    let name = format!("{}-{name}", tenant.namespace());
    object["metadata"] = json!({"name": name});
    let classes = Api::<RuntimeClass>::all(tenant.client());
    let made: RuntimeClass = serde_json::from_value(object).unwrap();
    classes.create(&PostParams::default(), &made).await.unwrap();
    name
}

#[tokio::test]
async fn a_runtime_class_has_a_handler_and_an_overhead() {
    let tenant = Tenant::new("classes", 1).await.unwrap();
    let overhead = json!({"podFixed": {"cpu": "50m", "memory": "16Mi"}});
    let own = class(&tenant, "own", json!({"handler": "runc", "overhead": overhead})).await;
    let broken = class(&tenant, "broken", json!({"handler": "none"})).await;

    let mut object = pod("own", IDLE);
    object["spec"]["runtimeClassName"] = json!(own);
    object["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m"}, "limits": {"memory": "32Mi"}});
    let runs = run(&tenant, object).await.unwrap();
    let status = serde_json::to_value(&runs.status).unwrap();
    assert_eq!(status["allocatedResources"], json!({"cpu": "150m", "memory": "48Mi"}), "{status}");
    assert_eq!(status["qosClass"], "Burstable");
    let sandboxes = tenant.nodes[0].host().cri().sandboxes().await.unwrap();
    let labelled = uid(&runs);
    let its = sandboxes.iter().find(|sandbox| sandbox.metadata.as_ref().is_some_and(|it| it.uid == labelled));
    assert_eq!(its.unwrap().runtime_handler, "runc");

    let mut object = pod("broken", IDLE);
    object["spec"]["runtimeClassName"] = json!(broken);
    tenant.create_pod(object).await.unwrap();
    let events = tenant.api::<Event>();
    wait_for("an event that names the handler", SOON, async || {
        let fields = "involvedObject.name=broken,reason=FailedCreatePodSandBox";
        let events = events.list(&ListParams::default().fields(fields)).await?.items;
        let names = |event: &Event| event.message.as_ref().is_some_and(|text| text.contains("\"none\""));
        Ok(if events.iter().any(names) { Look::Done(()) } else { Look::NotYet(format!("{events:?}")) })
    })
    .await
    .unwrap();
    let classes = Api::<RuntimeClass>::all(tenant.client());
    for name in [own, broken] {
        classes.delete(&name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn resources_of_the_whole_pod_are_its_class_and_the_limits_of_its_containers() {
    let tenant = Tenant::new("whole", 1).await.unwrap();
    let mut object = pod("whole", IDLE);
    let amounts = json!({"cpu": "250m", "memory": "64Mi"});
    object["spec"]["resources"] = json!({"requests": amounts, "limits": amounts});
    let limit = json!({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}});
    let main = &mut object["spec"]["containers"][0];
    main["env"] = json!([{"name": "LIMIT", "valueFrom": limit}]);
    main["command"][2] = json!(format!("[ $LIMIT = 64 ] || exit 7; {IDLE}"));
    let second = json!({"requests": {"cpu": "50m"}, "limits": {"memory": "16Mi"}});
    let mut other = pod("other", IDLE)["spec"]["containers"][0].take();
    other["name"] = json!("second");
    other["resources"] = second;
    object["spec"]["containers"].as_array_mut().unwrap().push(other);
    let whole = run(&tenant, object).await.unwrap();
    let status = serde_json::to_value(&whole.status).unwrap();
    assert_eq!(status["qosClass"], "Guaranteed", "{status}");
    assert_eq!(status["allocatedResources"], amounts, "{status}");
}

/// A pod whose init container writes a file with a variable, and whose container gets `key` from it.
fn with_file(name: &str, key: &str, script: &str) -> Value {
    let mut object = pod(name, script);
    let mount = json!([{"name": "data", "mountPath": "/data"}]);
    let mut init = object["spec"]["containers"][0].clone();
    init["name"] = json!("init");
    init["command"][2] =
        json!("mkdir /data/d; printf \"# made\\nKEY='of a\\n file' # end\\n\" > /data/d/vars");
    init["volumeMounts"] = mount;
    let file = json!({"fileKeyRef": {"volumeName": "data", "path": "d/vars", "key": key}});
    object["spec"]["initContainers"] = json!([init]);
    object["spec"]["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    object["spec"]["containers"][0]["env"] = json!([{"name": "FROM_FILE", "valueFrom": file}]);
    object
}

#[tokio::test]
async fn variables_come_from_a_file_of_an_init_container() {
    let tenant = Tenant::new("files", 1).await.unwrap();
    let script = format!("[ \"$FROM_FILE\" = \"$(printf 'of a\\n file')\" ] || exit 7; {IDLE}");
    run(&tenant, with_file("found", "KEY", &script)).await.unwrap();

    tenant.create_pod(with_file("lacks", "OTHER", IDLE)).await.unwrap();
    let waiting = |pod: &Pod| statuses(pod).first()?.state.as_ref()?.waiting.clone();
    let pods = tenant.api::<Pod>();
    let lacks = wait_for_object(&pods, "lacks", SOON, |pod| {
        waiting(pod).is_some_and(|waiting| waiting.reason.as_deref() == Some("CreateContainerConfigError"))
    });
    let lacks = lacks.await.unwrap();
    let file = tenant.nodes[0]
        .root_dir()
        .join(format!("pods/{}/volumes/kubernetes.io~empty-dir/data/d/vars", uid(&lacks)));
    let expected =
        format!("environment variable key \"OTHER\" not found in file {:?}", file.display().to_string());
    assert_eq!(waiting(&lacks).unwrap().message, Some(expected));
}

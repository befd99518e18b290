//! Statuses and events of pods, field by field as the stock kubelet reports them.

use anyhow::Result;
use hostlet_integration::cluster::{Agent, Names, Tenant, check};
use hostlet_integration::real::BUSYBOX_IMAGE;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, container, delete, line, phase, pod, run, statuses, uid, wait_until_gone,
};

/// Creates a pod and waits until its status can be compared and equals the record. A pod whose containers have terminated
/// still has its sandbox for a moment, and an agent may report both together or one after the other.
pub(crate) async fn compared(tenant: &Tenant, object: Value, record: &str, wanted: impl Fn(&Pod) -> bool) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    tenant.create_pod(object).await.unwrap();
    let api = tenant.api::<Pod>();
    let equal = wait_for(record, LATER, async || {
        let pod = api.get(&name).await?;
        if !wanted(&pod) {
            return Ok(Look::NotYet(serde_json::to_string(&pod.status)?));
        }
        check_status(tenant, &pod, record, &[])?;
        Ok(Look::Done(()))
    });
    equal.await.unwrap();
}

/// Compares a pod's status with the record. `names` are strings of this run besides those of every pod.
pub(crate) fn check_status(tenant: &Tenant, pod: &Pod, record: &str, names: Names<'_>) -> Result<()> {
    let (uid, token) = (uid(pod), token_volume(pod));
    let usual = [
        (uid.as_str(), "(uid)"),
        (token.as_str(), "(token)"),
        (tenant.namespace(), "(namespace)"),
        (tenant.nodes[0].name(), "(node)"),
    ];
    let names = [names, &usual].concat();
    let mut status = serde_json::to_value(&pod.status)?;
    if status["qosClass"] == "BestEffort" {
        // The stock kubelet sometimes reports cgroup v1's value for no limit: 9007199254740988Ki.
        status.as_object_mut().unwrap().remove("resources");
    }
    for list in ["initContainerStatuses", "containerStatuses"] {
        let containers = status.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            as_after_the_first_restart(container);
        }
    }
    // The stock kubelet reports only in an event why a pod has no sandbox yet; hostlet also reports it here.
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if condition["type"] == "PodReadyToStartContainers" {
            condition
                .as_object_mut()
                .unwrap()
                .retain(|field, _| !["reason", "message"].contains(&field.as_str()));
        }
    }
    check(record, &status, &names)
}

/// The status of a container in its crash-loop back-off, as the record has it after the first restart: each pause is twice
/// as long as the previous one, and on a slow host any of them may be observed.
fn as_after_the_first_restart(container: &mut Value) {
    const PAUSES: [&str; 6] = ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"];
    let restarts = container["restartCount"].as_u64().unwrap_or_default().clamp(1, 6);
    let message = container.pointer_mut("/state/waiting/message");
    let Some((text, message)) = message.and_then(|message| Some((message.as_str()?.to_owned(), message)))
    else {
        return;
    };
    let before = format!("back-off {} ", PAUSES[restarts as usize - 1]);
    if let Some(rest) = text.strip_prefix(&before) {
        *message = json!(format!("back-off 10s {rest}"));
        container["restartCount"] = json!(1);
    }
}

/// The name of the volume that the API server adds for a token; if there is none, a name that occurs in no text.
fn token_volume(pod: &Pod) -> String {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    let names = volumes.into_iter().flatten().map(|volume| &volume.name);
    names
        .into_iter()
        .find(|name| name.starts_with("kube-api-access-"))
        .map_or("(none)".to_owned(), Clone::clone)
}

/// The reason for which a pod's only container waits.
fn waits_for(pod: &Pod) -> Option<&str> {
    statuses(pod).first()?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}

/// A pod whose only container is not restarted.
fn once(name: &str, script: &str) -> Value {
    let mut object = pod(name, script);
    object["spec"]["restartPolicy"] = json!("Never");
    object
}

#[tokio::test]
async fn statuses_of_pods_that_end_equal_the_stock_kubelets() {
    let tenant = Tenant::new("ends", 1).await.unwrap();
    let script = "echo bye > /dev/termination-log; exit 3";
    compared(&tenant, pod("crash", script), "status-crash", |pod| waits_for(pod) == Some("CrashLoopBackOff"))
        .await;
    compared(&tenant, once("done", "true"), "status-done", |pod| phase(pod) == "Succeeded").await;
    compared(&tenant, once("failed", "exit 4"), "status-failed", |pod| phase(pod) == "Failed").await;
    let mut oom = once("oom", "head -c 200000000 /dev/zero | tail");
    oom["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "16Mi"}});
    compared(&tenant, oom, "status-oom", |pod| phase(pod) == "Failed").await;
}

#[tokio::test]
async fn statuses_of_pods_that_cannot_start_equal_the_stock_kubelets() {
    let tenant = Tenant::new("stuck", 1).await.unwrap();
    let mut missing = pod("badcfg", IDLE);
    let from = json!({"configMapKeyRef": {"name": "nope", "key": "k"}});
    missing["spec"]["containers"][0]["env"] = json!([{"name": "A", "valueFrom": from}]);
    compared(&tenant, missing, "status-badcfg", |pod| waits_for(pod) == Some("CreateContainerConfigError"))
        .await;
    let mut missing = pod("novol", IDLE);
    missing["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "nope"}}]);
    missing["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    compared(&tenant, missing, "status-novol", |pod| waits_for(pod) == Some("ContainerCreating")).await;
    if Agent::chosen().unwrap() == Agent::Hostlet {
        let api = tenant.api::<Pod>();
        let reported = wait_for("what the pod waits for", SOON, async || {
            let status = api.get("novol").await?.status.unwrap_or_default();
            let mut conditions = status.conditions.iter().flatten();
            let condition = conditions.find(|condition| condition.type_ == "PodReadyToStartContainers");
            let message = condition.and_then(|condition| condition.message.clone()).unwrap_or_default();
            let has_cause =
                message.starts_with("no pod sandbox exists: ") && message.contains("\"nope\" not found");
            Ok(if has_cause { Look::Done(()) } else { Look::NotYet(message) })
        });
        reported.await.unwrap();
    }
    let mut missing = pod("nopull", IDLE);
    missing["spec"]["containers"][0]["image"] = json!("hostlet.local/none:1");
    missing["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    compared(&tenant, missing, "status-nopull", |pod| waits_for(pod) == Some("ErrImageNeverPull")).await;
}

#[tokio::test]
async fn the_status_of_a_rich_pod_equals_the_stock_kubelets() {
    let tenant = Tenant::new("rich", 1).await.unwrap();
    tenant.create::<ConfigMap>(json!({"metadata": {"name": "cm"}, "data": {"k": "v"}})).await.unwrap();
    tenant.create::<Secret>(json!({"metadata": {"name": "sec"}, "stringData": {"pw": "s"}})).await.unwrap();
    let mut main = container("trap 'exit 0' TERM; while true; do sleep 0.2; done");
    main["ports"] = json!([
        {"name": "http", "containerPort": 80, "protocol": "TCP"},
        {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
    ]);
    main["env"] = json!([
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "PW", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "pw"}}},
    ]);
    main["envFrom"] = json!([{"prefix": "CM_", "configMapRef": {"name": "cm"}}]);
    main["resources"] = json!({
        "requests": {"cpu": "100m", "memory": "32Mi", "ephemeral-storage": "10Mi"},
        "limits": {"cpu": "250m", "memory": "64Mi"},
    });
    main["securityContext"] = json!({
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false,
    });
    main["volumeMounts"] = json!([
        {"name": "empty", "mountPath": "/empty"},
        {"name": "mem", "mountPath": "/mem"},
        {"name": "cm", "mountPath": "/cm"},
        {"name": "sec", "mountPath": "/sec", "readOnly": true},
        {"name": "down", "mountPath": "/down"},
    ]);
    let second = json!({"name": "a-second", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", IDLE]});
    let object = json!({
        "metadata": {"name": "rich", "labels": {"app": "rich"}, "annotations": {"note": "x"}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "hostname": "myhost",
            "subdomain": "sub",
            "securityContext": {
                "runAsUser": 1000, "runAsGroup": 2000, "fsGroup": 3000, "supplementalGroups": [4000],
                "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1024 65000"}],
            },
            "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["foo", "bar"]}],
            "containers": [main, second],
            "volumes": [
                {"name": "empty", "emptyDir": {}},
                {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
                {"name": "cm", "configMap": {"name": "cm"}},
                {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o400}},
                {"name": "down", "downwardAPI": {"items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                ]}},
            ],
        },
    });
    compared(&tenant, object, "status-rich", crate::support::is_ready).await;
}

#[tokio::test]
async fn events_equal_the_stock_kubelets() {
    let tenant = Tenant::new("events", 1).await.unwrap();
    run(&tenant, pod("lives", IDLE)).await.unwrap();
    delete(&tenant, "lives", None).await.unwrap();
    let pods = tenant.api::<Pod>();
    wait_until_gone(&pods, "lives").await.unwrap();
    tenant.create_pod(pod("crash", "exit 3")).await.unwrap();
    let mut never = pod("nopull", IDLE);
    never["spec"]["containers"][0]["image"] = json!("hostlet.local/none:1");
    never["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
    tenant.create_pod(never).await.unwrap();
    let mut huge = pod("huge", IDLE);
    huge["spec"]["nodeName"] = json!(tenant.nodes[0].name());
    huge["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "500"}});
    tenant.create_pod(huge).await.unwrap();

    let (api, node) = (tenant.api::<Event>(), tenant.nodes[0].name());
    let cores = std::thread::available_parallelism().unwrap().get();
    let capacity = format!("capacity: {}", cores * 1000);
    for (pod, last) in
        [("lives", "Killing"), ("crash", "BackOff"), ("nopull", "Failed"), ("huge", "OutOfcpu")]
    {
        let fields = format!("involvedObject.name={pod},source=kubelet");
        // Events arrive individually and out of order.
        let what = format!("the events of {pod}");
        let compared = wait_for(&what, SOON, async || {
            let mut events = api.list(&ListParams::default().fields(&fields)).await?.items;
            events.sort_by_key(|event| (event.reason.clone(), event.message.clone()));
            if !events.iter().any(|event| event.reason.as_deref() == Some(last)) {
                return Ok(Look::NotYet(format!("{events:?}")));
            }
            let mut lines: Vec<Value> = events.iter().map(line).collect();
            // The counts of events are not compared, and each message only once.
            lines.dedup();
            let uid = pods.get_opt(pod).await?.as_ref().map_or("(none)".to_owned(), uid);
            let names = [
                (uid.as_str(), "(uid)"),
                (capacity.as_str(), "capacity: (all)"),
                (tenant.namespace(), "(namespace)"),
                (node, "(node)"),
            ];
            check(&format!("events-{pod}"), &Value::from(lines), &names)?;
            Ok(Look::Done(()))
        });
        compared.await.unwrap();
    }
}

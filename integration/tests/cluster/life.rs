//! The order of a pod's life as the stock kubelet reports it: init containers, sidecars, restart rules, deadlines, and debugging
//! with ephemeral containers.

use hostlet_integration::cluster::Tenant;
use hostlet_integration::real::BUSYBOX_IMAGE;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::status::compared;
use crate::support::{
    IDLE, LATER, SOON, assert_undisturbed, is_ready, line, phase, pod, run, statuses, wait_for_object,
};

fn init(name: &str, script: &str) -> Value {
    json!({"name": name, "image": BUSYBOX_IMAGE, "command": ["sh", "-c", script]})
}

fn sidecar(name: &str, script: &str) -> Value {
    let mut sidecar = init(name, script);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

fn with_inits(name: &str, policy: &str, inits: Value, script: &str) -> Value {
    let mut object = pod(name, script);
    object["spec"]["restartPolicy"] = json!(policy);
    object["spec"]["initContainers"] = inits;
    object
}

fn init_waits_for(pod: &Pod) -> Option<&str> {
    let statuses = pod.status.as_ref()?.init_container_statuses.as_deref()?;
    let mut waiting = statuses.iter().filter_map(|status| status.state.as_ref()?.waiting.as_ref());
    waiting.find_map(|waiting| waiting.reason.as_deref().filter(|reason| *reason != "PodInitializing"))
}

fn init_runs(pod: &Pod, name: &str) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.init_container_statuses.as_deref());
    let status = statuses.unwrap_or_default().iter().find(|status| status.name == name);
    status.and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

#[tokio::test]
async fn statuses_of_init_containers_and_sidecars_equal_the_stock_kubelets() {
    let tenant = Tenant::new("inits", 1).await.unwrap();
    let all = || json!([init("first", "true"), sidecar("proxy", IDLE), init("second", "true")]);
    compared(&tenant, with_inits("full", "Always", all(), IDLE), "status-inits", is_ready).await;
    let under_way = json!([init("first", "true"), sidecar("proxy", IDLE), init("second", IDLE)]);
    let object = with_inits("underway", "Always", under_way, IDLE);
    compared(&tenant, object, "status-inits-underway", |pod| init_runs(pod, "second")).await;
    let failing = || json!([init("first", "exit 5"), init("second", "true")]);
    let object = with_inits("retry", "Always", failing(), IDLE);
    compared(&tenant, object, "status-inits-retry", |pod| init_waits_for(pod) == Some("CrashLoopBackOff"))
        .await;
    let object = with_inits("never", "Never", failing(), IDLE);
    compared(&tenant, object, "status-inits-failed", |pod| phase(pod) == "Failed").await;
    let job = with_inits("job", "Never", json!([init("first", "true"), sidecar("proxy", IDLE)]), "sleep 1");
    compared(&tenant, job, "status-inits-job", |pod| phase(pod) == "Succeeded").await;
}

#[tokio::test]
async fn statuses_of_restart_rules_and_deadlines_equal_the_stock_kubelets() {
    let tenant = Tenant::new("rules", 1).await.unwrap();
    let rule = |action: &str, code: i32| json!([{"action": action, "exitCodes": {"operator": "In", "values": [code]}}]);
    let mut object = pod("deadline", IDLE);
    object["spec"]["activeDeadlineSeconds"] = json!(3);
    compared(&tenant, object, "status-deadline", |pod| phase(pod) == "Failed").await;
    let mut object = pod("rule", "exit 42");
    object["spec"]["restartPolicy"] = json!("Never");
    object["spec"]["containers"][0]["restartPolicy"] = json!("Never");
    object["spec"]["containers"][0]["restartPolicyRules"] = rule("Restart", 42);
    let waits = |pod: &Pod| {
        let waiting = statuses(pod).first().and_then(|status| status.state.as_ref()?.waiting.as_ref());
        waiting.and_then(|waiting| waiting.reason.as_deref()) == Some("CrashLoopBackOff")
    };
    compared(&tenant, object, "status-rule", waits).await;
    let script = "test -e /shared/again && { trap 'exit 0' TERM; while :; do sleep 0.2; done; }; touch /shared/again; exit 9";
    let mut object =
        with_inits("again", "Never", json!([init("first", "true"), sidecar("proxy", IDLE)]), script);
    object["spec"]["volumes"] = json!([{"name": "shared", "emptyDir": {}}]);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "shared", "mountPath": "/shared"}]);
    object["spec"]["containers"][0]["restartPolicy"] = json!("Never");
    object["spec"]["containers"][0]["restartPolicyRules"] = rule("RestartAllContainers", 9);
    let restarted = |pod: &Pod| is_ready(pod) && statuses(pod).iter().all(|status| status.restart_count == 1);
    compared(&tenant, object, "status-again", restarted).await;
}

#[tokio::test]
async fn events_of_init_containers_name_them() {
    let tenant = Tenant::new("initevents", 1).await.unwrap();
    run(&tenant, with_inits("inits", "Always", json!([init("first", "true"), sidecar("proxy", IDLE)]), IDLE))
        .await
        .unwrap();
    let api = tenant.api::<Event>();
    wait_for("the events", SOON, async || {
        let fields = "involvedObject.name=inits,source=kubelet,reason=Started";
        let events = api.list(&ListParams::default().fields(fields)).await?.items;
        let mut paths: Vec<String> =
            events.iter().filter_map(|event| event.involved_object.field_path.clone()).collect();
        paths.sort();
        let expected = ["spec.containers{main}", "spec.initContainers{first}", "spec.initContainers{proxy}"];
        Ok(if paths == expected {
            Look::Done(())
        } else {
            Look::NotYet(format!("{:?}", events.iter().map(line).collect::<Vec<_>>()))
        })
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_ephemeral_container_sees_the_processes_of_its_target() {
    let tenant = Tenant::new("debug", 1).await.unwrap();
    let before = run(&tenant, pod("target", IDLE)).await.unwrap();
    let api = tenant.api::<Pod>();
    let debugger = json!({
        "name": "debugger", "image": BUSYBOX_IMAGE, "targetContainerName": "main",
        "command": ["sh", "-c", "ps > /dev/termination-log; exit 3"],
    });
    let patch = json!({"spec": {"ephemeralContainers": [debugger]}});
    let params = PatchParams::default();
    api.patch_subresource("ephemeralcontainers", "target", &params, &Patch::Strategic(patch)).await.unwrap();
    let ended = |pod: &Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.ephemeral_container_statuses.as_deref());
        let state = statuses.unwrap_or_default().first().and_then(|status| status.state.as_ref());
        state.is_some_and(|state| state.terminated.is_some())
    };
    let pod = wait_for_object(&api, "target", LATER, ended).await.unwrap();
    let status = &pod.status.as_ref().unwrap().ephemeral_container_statuses.as_ref().unwrap()[0];
    let terminated = status.state.as_ref().unwrap().terminated.as_ref().unwrap();
    assert_eq!(terminated.exit_code, 3);
    assert_eq!((status.started, status.ready), (None, false));
    let processes = terminated.message.as_deref().unwrap_or_default();
    assert!(processes.contains("sleep 100000"), "{processes}");
    assert_undisturbed(&tenant, &before).await.unwrap();
}

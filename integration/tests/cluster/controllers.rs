//! Pods of controllers: Deployments, Jobs, DaemonSets.

use std::collections::BTreeSet;

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, container, is_ready, node_name, phase, statuses, wait_for_object, wait_for_pods,
    wait_until_clean,
};

/// The specification of a controller whose pods run `script`.
fn spec(script: &str) -> Value {
    json!({
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": [container(script)]},
        },
    })
}

/// Whether there are exactly this many pods, all ready and none terminating.
fn settled(pods: &[Pod], count: usize) -> bool {
    pods.len() == count && pods.iter().all(|pod| is_ready(pod) && pod.metadata.deletion_timestamp.is_none())
}

#[tokio::test]
async fn a_deployment_is_scheduled_scaled_rolled_and_deleted() {
    let tenant = Tenant::new("deployment", 2).await.unwrap();
    let mut object = json!({"metadata": {"name": "web"}, "spec": spec(IDLE)});
    object["spec"]["replicas"] = json!(3);
    // Otherwise it is only likely that both nodes get some.
    object["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]);
    tenant.create_controller::<Deployment>(object).await.unwrap();
    let first = wait_for_pods(&tenant, "3 pods", SOON, |pods| settled(pods, 3)).await.unwrap();
    let nodes: BTreeSet<&str> = first.iter().map(node_name).collect();
    assert_eq!(nodes.len(), 2, "{nodes:?}");

    let api = tenant.api::<Deployment>();
    for count in [5, 2] {
        let scale = Patch::Merge(json!({"spec": {"replicas": count}}));
        api.patch("web", &PatchParams::default(), &scale).await.unwrap();
        wait_for_pods(&tenant, "as many pods as wanted", SOON, |pods| settled(pods, count)).await.unwrap();
    }

    let annotation = json!({"spec": {"template": {"metadata": {"annotations": {"roll": "2"}}}}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(annotation)).await.unwrap();
    let rolled = |pod: &Pod| pod.metadata.annotations.as_ref().is_some_and(|all| all.contains_key("roll"));
    let new = |pods: &[Pod]| settled(pods, 2) && pods.iter().all(rolled);
    wait_for_pods(&tenant, "pods of the new template alone", SOON, new).await.unwrap();
    let complete = |deployment: &Deployment| {
        let status = deployment.status.as_ref();
        status
            .is_some_and(|status| status.available_replicas == Some(2) && status.updated_replicas == Some(2))
    };
    wait_for_object(&api, "web", SOON, complete).await.unwrap();

    api.delete("web", &DeleteParams::background()).await.unwrap();
    wait_for_pods(&tenant, "no pods", SOON, <[Pod]>::is_empty).await.unwrap();
    for node in &tenant.nodes {
        wait_until_clean(node).await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_set_has_one_pod_on_each_node() {
    let tenant = Tenant::new("daemonset", 2).await.unwrap();
    let object = json!({"metadata": {"name": "agent"}, "spec": spec(IDLE)});
    tenant.create_controller::<DaemonSet>(object).await.unwrap();
    let pods = wait_for_pods(&tenant, "2 pods", SOON, |pods| settled(pods, 2)).await.unwrap();
    let on: BTreeSet<&str> = pods.iter().map(node_name).collect();
    assert_eq!(on, tenant.nodes.iter().map(|node| node.name()).collect());
    tenant.api::<DaemonSet>().delete("agent", &DeleteParams::background()).await.unwrap();
    wait_for_pods(&tenant, "no pods", SOON, <[Pod]>::is_empty).await.unwrap();
}

/// A Job whose pods run `script` once.
fn job(name: &str, script: &str, restart: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 1,
            "template": {"spec": {"restartPolicy": restart, "containers": [container(script)]}},
        },
    })
}

/// Waits until a Job has the condition, and returns the condition's reason and the Job's status.
async fn wait_for_end(tenant: &Tenant, name: &str, condition: &str) -> (String, JobStatus) {
    let api = tenant.api::<Job>();
    let what = format!("the job {name} is {condition}");
    let end = wait_for(&what, LATER, async || {
        let status = api.get(name).await?.status.unwrap_or_default();
        let found = status.conditions.iter().flatten().find(|c| c.type_ == condition && c.status == "True");
        Ok(match found {
            Some(found) => Look::Done((found.reason.clone().unwrap_or_default(), status.clone())),
            None => Look::NotYet(format!("{status:?}")),
        })
    });
    end.await.unwrap()
}

#[tokio::test]
async fn jobs_succeed_and_fail_with_a_back_off() {
    let tenant = Tenant::new("jobs", 1).await.unwrap();
    tenant.create_controller::<Job>(job("good", "true", "Never")).await.unwrap();
    tenant.create_controller::<Job>(job("bad", "exit 7", "Never")).await.unwrap();
    // Its one pod is restarted in place.
    tenant.create_controller::<Job>(job("stubborn", "exit 8", "OnFailure")).await.unwrap();

    let (_, status) = wait_for_end(&tenant, "good", "Complete").await;
    assert_eq!((status.succeeded, status.failed), (Some(1), None));
    let (reason, status) = wait_for_end(&tenant, "bad", "Failed").await;
    assert_eq!((reason.as_str(), status.succeeded, status.failed), ("BackoffLimitExceeded", None, Some(2)));
    let (reason, _) = wait_for_end(&tenant, "stubborn", "Failed").await;
    assert_eq!(reason, "BackoffLimitExceeded");

    let of = |pod: &Pod, name: &str| {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("job-name")).is_some_and(|job| job == name)
    };
    let ended = |pods: &[Pod]| pods.iter().all(|pod| matches!(phase(pod), "Succeeded" | "Failed"));
    let pods = wait_for_pods(&tenant, "only ended pods", SOON, ended).await.unwrap();
    for (job, count, exit_code) in [("good", 1, 0), ("bad", 2, 7)] {
        let codes = pods.iter().filter(|pod| of(pod, job)).flat_map(statuses).map(|status| {
            let terminated = status.state.as_ref().and_then(|state| state.terminated.as_ref());
            terminated.map(|terminated| terminated.exit_code)
        });
        assert_eq!(codes.collect::<Vec<_>>(), vec![Some(exit_code); count], "{job}");
    }
}

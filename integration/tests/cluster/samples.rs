//! The pods that everybody runs: all become Ready or complete, with the statuses that the stock kubelet gives them.

use std::fs;

use hostlet_integration::cluster::Tenant;
use hostlet_integration::samples::{Sample, Workload, pod_template};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::status::check_status;
use crate::support::{LATER, is_ready, name, phase};

/// Creates the objects of a sample.
fn create(tenant: &Tenant, sample: &Sample) {
    let mut objects = sample.objects.clone();
    for object in &mut objects {
        if let Some(template) = pod_template(object).unwrap() {
            tenant.keep_home(&mut template["spec"]);
        }
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write(file.path(), list.to_string()).unwrap();
    let path = file.path().to_str().unwrap();
    tenant.cluster().kubectl(&["--namespace", tenant.namespace(), "apply", "-f", path]).unwrap();
}

/// Waits until a pod of the workload is Ready or has completed, with the recorded status.
async fn compared(tenant: &Tenant, workload: &Workload) {
    let labels = workload.template["metadata"]["labels"].as_object().unwrap();
    let labels: Vec<String> =
        labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap())).collect();
    let selected = ListParams::default().labels(&labels.join(","));
    let record = format!("sample-{}", workload.name);
    let runs_once = workload.template["spec"]["restartPolicy"].is_string();
    let equal = wait_for(&record, LATER, async || {
        let pods = tenant.api::<Pod>().list(&selected).await?.items;
        let is_settled = |pod: &&Pod| if runs_once { has_completed(pod) } else { is_ready(pod) };
        let Some(pod) = pods.iter().find(is_settled) else {
            let statuses = pods.iter().map(|pod| serde_json::to_string(&pod.status));
            return Ok(Look::NotYet(statuses.collect::<Result<Vec<_>, _>>()?.join("\n")));
        };
        let mut pod = pod.clone();
        // The stock kubelet reports the pod's cgroup here, on cgroup v1 also a number for "no limit", or what was allocated,
        // whichever it came to first.
        pod.status.iter_mut().for_each(|status| status.resources = None);
        check_status(tenant, &pod, &record, &[(&name(&pod), "(pod)")])?;
        Ok(Look::Done(()))
    });
    equal.await.unwrap();
}

/// Whether a pod has ended well and its sandbox is gone.
fn has_completed(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let has_sandbox = conditions.iter().any(|c| c.type_ == "PodReadyToStartContainers" && c.status == "True");
    phase(pod) == "Succeeded" && !has_sandbox
}

/// Removes the persistent volumes of the samples, which are in no namespace.
struct Volumes<'t>(&'t Tenant, Vec<String>);

impl Drop for Volumes<'_> {
    fn drop(&mut self) {
        for volume in &self.1 {
            let args = ["delete", "persistentvolume", volume, "--wait=false", "--ignore-not-found"];
            drop(self.0.cluster().kubectl(&args));
        }
    }
}

#[tokio::test]
async fn the_pods_that_everybody_runs_become_ready_with_the_stock_kubelets_statuses() {
    let tenant = Tenant::new("samples", 1).await.unwrap();
    let samples = Sample::all(&tenant.nodes[0].host().directory("samples").unwrap()).unwrap();
    let all = samples.iter().flat_map(|sample| &sample.objects);
    let volumes = all.filter(|object| object["kind"] == "PersistentVolume");
    let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    let _volumes = Volumes(&tenant, volumes.map(name_of).collect());
    for sample in &samples {
        create(&tenant, sample);
    }
    for sample in &samples {
        for workload in sample.workloads().unwrap() {
            compared(&tenant, &workload).await;
        }
    }
}

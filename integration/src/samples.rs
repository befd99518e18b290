//! The workloads in `samples/workloads/`, the pods that everybody runs, as shapes of well-known projects; the pods in
//! `samples/fields.yaml`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::shell::integration_dir;

/// What the paths of the host in the samples begin with.
const HOST: &str = "/srv/sample";

/// A file of samples.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its objects, in order.
    pub objects: Vec<Value>,
}

/// A workload in a sample.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name of the controller.
    pub name: String,
    /// Labels and specification of its pods.
    pub template: Value,
    /// The volumes of its claim templates, as its first pod has them.
    claimed: Vec<Value>,
}

impl Sample {
    /// All samples, with `directory` for their paths of the host, in order of their files' names.
    pub fn all(directory: &Path) -> Result<Vec<Self>> {
        let samples = integration_dir().join("samples/workloads");
        let entries = fs::read_dir(&samples).with_context(|| format!("reading {}", samples.display()))?;
        let mut files =
            entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().context("samples")?;
        files.sort();
        let directory = directory.to_str().context("a directory whose name is no text")?;
        let sample = |file: &std::path::PathBuf| {
            let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
            let objects = serde_saphyr::from_multiple(&text.replace(HOST, directory));
            Ok(Self { objects: objects.with_context(|| format!("in {}", file.display()))? })
        };
        files.iter().map(sample).collect()
    }

    /// Its workloads.
    pub fn workloads(&self) -> Result<Vec<Workload>> {
        let mut objects = self.objects.clone();
        objects.iter_mut().filter_map(|object| Workload::of(object).transpose()).collect()
    }

    /// The objects that its pods need, as manifests for a host that is in no cluster: those of the sample, and the claim of each
    /// StatefulSet's first pod, bound to the volume of its class.
    pub fn manifests(&self) -> Vec<Value> {
        let kinds = ["ConfigMap", "PersistentVolume"];
        let objects = self.objects.iter().filter(|object| kinds.iter().any(|kind| object["kind"] == *kind));
        let claims = self.objects.iter().flat_map(|object| {
            claim_templates(object).map(|template| {
                let class = &template["spec"]["storageClassName"];
                let volume = self.objects.iter().find(|object| object["spec"]["storageClassName"] == *class);
                let mut spec = template["spec"].clone();
                spec["volumeName"] = volume.map_or(Value::Null, |volume| volume["metadata"]["name"].clone());
                json!({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": claim_name(template, object)}, "spec": spec,
                })
            })
        });
        objects.cloned().chain(claims).collect()
    }
}

fn claim_templates(object: &Value) -> impl Iterator<Item = &Value> {
    object["spec"]["volumeClaimTemplates"].as_array().into_iter().flatten()
}

/// The name of the claim of a StatefulSet's first pod.
fn claim_name(template: &Value, set: &Value) -> String {
    let text = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    format!("{}-{}-0", text(template), text(set))
}

impl Workload {
    fn of(object: &mut Value) -> Result<Option<Self>> {
        let name = object["metadata"]["name"].as_str().context("an object without a name")?.to_owned();
        let volume = |template| {
            let claim = claim_name(template, object);
            json!({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
        };
        let claimed: Vec<_> = claim_templates(object).map(volume).collect();
        Ok(pod_template(object)?.map(|template| Self { name, template: template.clone(), claimed }))
    }

    /// A pod of it, as a manifest for a host that is in no cluster. Tokens and priority classes are the API server's.
    pub fn pod(&self) -> Value {
        let mut spec = self.template["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("automountServiceAccountToken");
            fields.remove("priorityClassName");
            fields.remove("nodeSelector");
            let volumes = fields.entry("volumes").or_insert_with(|| json!([]));
            if let Some(volumes) = volumes.as_array_mut() {
                volumes.extend(self.claimed.iter().cloned());
            }
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default", "labels": self.template["metadata"]["labels"]},
            "spec": spec,
        })
    }
}

/// The pods in `samples/fields.yaml`, which together have almost every field.
pub fn fields() -> Result<Vec<Value>> {
    let path = integration_dir().join("samples/fields.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut pods: Vec<Value> = serde_saphyr::from_multiple(&text).context("samples/fields.yaml")?;
    for pod in &mut pods {
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
    }
    Ok(pods)
}

/// The pod template of a controller; `None` for an object that has no pods.
pub fn pod_template(object: &mut Value) -> Result<Option<&mut Value>> {
    let path = match object["kind"].as_str().unwrap_or_default() {
        "DaemonSet" | "Deployment" | "Job" | "StatefulSet" => "/spec/template",
        "CronJob" => "/spec/jobTemplate/spec/template",
        "ConfigMap" | "PersistentVolume" | "Service" => return Ok(None),
        other => bail!("a sample of the unknown kind {other:?}"),
    };
    object.pointer_mut(path).context("a workload without a pod template").map(Some)
}

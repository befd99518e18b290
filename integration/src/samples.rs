//! The workloads in `samples/workloads/`: the pods that everybody runs, as shapes of well-known projects.

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

    /// Whether its pods need objects of an API server.
    pub fn needs_objects(&self) -> bool {
        self.objects
            .iter()
            .any(|object| matches!(object["kind"].as_str(), Some("ConfigMap" | "PersistentVolume")))
    }
}

impl Workload {
    fn of(object: &mut Value) -> Result<Option<Self>> {
        let name = object["metadata"]["name"].as_str().context("an object without a name")?.to_owned();
        Ok(pod_template(object)?.map(|template| Self { name, template: template.clone() }))
    }

    /// A pod of it, as a manifest for a host that is in no cluster. Tokens and priority classes are the API server's.
    pub fn pod(&self) -> Value {
        let mut spec = self.template["spec"].clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("automountServiceAccountToken");
            fields.remove("priorityClassName");
            fields.remove("nodeSelector");
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": "default", "labels": self.template["metadata"]["labels"]},
            "spec": spec,
        })
    }
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

//! The metrics server, which asks every kubelet for `/metrics/resource` and answers `kubectl top` through the API server.

use std::fs;
use std::path::PathBuf;
use std::process::Child;

use anyhow::{Context, Result};
use serde_json::json;

use super::control_plane::{ADDRESS, Cluster};
use crate::shell::{lib, spawn_logged};

const PORT: u16 = 4443;
/// Seconds between two questions to a kubelet, the shortest that it accepts.
const RESOLUTION: u32 = 10;
/// Seconds for an answer, which must be shorter.
const PATIENCE: u32 = 8;

/// Its registration at the API server.
const REGISTRATION: &str = "v1beta1.metrics.k8s.io";

/// A metrics server beside the control plane. Dropping it ends it and its registration, without which no namespace could be deleted.
#[derive(Debug)]
pub struct MetricsServer<'a> {
    cluster: &'a Cluster,
    child: Child,
    /// Its log.
    pub log: PathBuf,
}

impl<'a> MetricsServer<'a> {
    /// Starts it and registers its API; builds its program if necessary.
    pub fn start(cluster: &'a Cluster) -> Result<Self> {
        let program = lib("metrics_server", [""; 0])?;
        let (kubeconfig, state) = (cluster.inner_kubeconfig(), cluster.state());
        let log = cluster.log("metrics-server");
        let mut command = cluster.command(program.trim());
        for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
            command.arg(format!("--{flag}={}", kubeconfig.display()));
        }
        command.arg(format!("--secure-port={PORT}")).arg(format!("--metric-resolution={RESOLUTION}s"));
        command.arg(format!("--kubelet-request-timeout={PATIENCE}s"));
        command.arg(format!("--cert-dir={}", state.join("metrics-server").display()));
        command.arg("--kubelet-preferred-address-types=InternalIP");
        command.arg(format!("--kubelet-certificate-authority={}", cluster.ca().display()));
        let child = spawn_logged(&mut command, &log).context("starting the metrics server")?;
        let server = Self { cluster, child, log };
        // A name that is an address: the API server of the tests cannot reach the addresses of services.
        let objects = json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "metrics-server", "namespace": "kube-system"},
                    "spec": {
                        "type": "ExternalName",
                        "externalName": ADDRESS.to_string(),
                        "ports": [{"port": PORT, "protocol": "TCP"}],
                    },
                },
                {
                    "apiVersion": "apiregistration.k8s.io/v1",
                    "kind": "APIService",
                    "metadata": {"name": REGISTRATION},
                    "spec": {
                        "group": "metrics.k8s.io",
                        "version": "v1beta1",
                        "groupPriorityMinimum": 100,
                        "versionPriority": 100,
                        "insecureSkipTLSVerify": true,
                        "service": {"name": "metrics-server", "namespace": "kube-system", "port": PORT},
                    },
                },
            ],
        });
        let manifest = state.join("metrics-server.json");
        fs::write(&manifest, objects.to_string()).context("writing a manifest")?;
        cluster.kubectl(&["apply", "-f", &manifest.display().to_string()])?;
        Ok(server)
    }
}

impl Drop for MetricsServer<'_> {
    #[allow(clippy::print_stderr, reason = "a failed clean-up is no secret")]
    fn drop(&mut self) {
        if let Err(error) = self.cluster.kubectl(&["delete", "apiservice", REGISTRATION]) {
            eprintln!("the metrics server is still registered: {error:#}");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

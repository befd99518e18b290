//! A node's agent: hostlet, or the stock kubelet as reference. Both get the same configuration and flags, which are defined here
//! only.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::control_plane::{Cluster, Place};
use crate::daemon;
use crate::real::RealHost;
use crate::shell::lib;

/// How a node gets its credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// The test makes its certificate.
    Certificate,
    /// It requests one with a bootstrap token.
    BootstrapToken,
}

/// The agent of the tests' nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// hostlet.
    Hostlet,
    /// The stock kubelet, whose behavior defines the tests' expectations.
    Stock,
}

impl Agent {
    /// hostlet, unless `HOSTLET_TEST_KUBELET=stock`.
    pub fn chosen() -> Result<Self> {
        match std::env::var("HOSTLET_TEST_KUBELET").as_deref() {
            Err(_) | Ok("hostlet") => Ok(Self::Hostlet),
            Ok("stock") => Ok(Self::Stock),
            Ok(other) => bail!("HOSTLET_TEST_KUBELET={other}: neither hostlet nor stock"),
        }
    }

    /// The path of the program, built if necessary.
    pub fn program(self) -> Result<PathBuf> {
        match self {
            Self::Hostlet => daemon::program(),
            Self::Stock => {
                lib("build_kubernetes", ["kubelet"])?;
                Ok(PathBuf::from(lib("kubernetes_program", ["kubelet"])?.trim()))
            }
        }
    }

    /// Writes the agent's files to the host's directory and returns its arguments. `extra` are further fields of
    /// `KubeletConfiguration`.
    pub(super) fn arrange(
        self,
        cluster: &Cluster,
        place: &Place,
        joining: Joining,
        labels: &str,
        host: &RealHost,
        extra: &Value,
    ) -> Result<Vec<OsString>> {
        let state = &host.dirs().state;
        let (kubeconfig, certificate, key) = cluster.certify(place)?;
        let resolv = state.join("resolv.conf");
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{}", host.socket().display()),
            "staticPodPath": host.manifests(),
            "fileCheckFrequency": "1s",
            "podLogsDir": host.logs(),
            "volumePluginDir": state.join("volume-plugins"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/{}", host.id()),
            "failCgroupV1": false,
            "failSwapOn": false,
            "makeIPTablesUtilChains": false,
            "tlsCertFile": certificate,
            "tlsPrivateKeyFile": key,
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": cluster.ca()},
            },
            "authorization": {"mode": "Webhook"},
            // A dead agent is noticed soon; see the control plane's grace period.
            "nodeLeaseDurationSeconds": 20,
            "healthzPort": 0,
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "resolvConf": resolv,
            // The machine's disk is shared.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "50Mi", "imagefs.available": "50Mi"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        });
        let mut extra = extra.as_object().cloned().unwrap_or_default();
        let more = extra.remove("hostlet");
        if let Some(config) = config.as_object_mut() {
            config.extend(extra);
        }
        // JSON is YAML.
        let mut text = config.to_string();
        if self == Self::Hostlet {
            let mut own = json!({
                "apiVersion": "hostlet.dev/v1alpha1",
                "kind": "HostletConfiguration",
                "socket": host.hostlet_socket(),
            });
            if let (Some(own), Some(Value::Object(more))) = (own.as_object_mut(), more) {
                own.extend(more);
            }
            text = format!("{text}\n---\n{own}");
        }
        let (config, credentials) = (state.join("config.yaml"), state.join("node.conf"));
        let bootstrap = state.join("bootstrap.conf");
        let (secret, login) = match joining {
            Joining::Certificate => (&credentials, kubeconfig),
            Joining::BootstrapToken => (&bootstrap, cluster.bootstrap_kubeconfig()?),
        };
        for (file, text) in [(&config, text.as_str()), (secret, &login), (&resolv, "nameserver 10.96.0.10\n")]
        {
            fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        let mut flags = vec![
            ("--config", config.into_os_string()),
            ("--kubeconfig", credentials.into_os_string()),
            ("--hostname-override", place.name.clone().into()),
            ("--node-ip", place.address.clone().into()),
            ("--node-labels", labels.into()),
            ("--root-dir", state.join("kubelet").into_os_string()),
        ];
        if joining == Joining::BootstrapToken {
            flags.push(("--bootstrap-kubeconfig", bootstrap.into_os_string()));
            flags.push(("--cert-dir", state.join("pki").into_os_string()));
        }
        Ok(flags.into_iter().flat_map(|(flag, value)| [flag.into(), value]).collect())
    }
}

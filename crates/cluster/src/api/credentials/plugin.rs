//! Runs a credential plugin (Kubernetes docs, "client-go credential plugins") and parses its credentials. Bounded in time; never
//! leaves a process behind.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use hostlet_base::json;
use hostlet_base::yaml::parse_documents;
use hostlet_host::{ProgramError, clip, run_program};

/// Time limit of a plugin. Plugins of cloud providers take seconds, or minutes when their servers are down.
const LIMIT: Duration = Duration::from_secs(60);

/// Supported API versions of ExecCredential.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// Why a plugin yielded no credentials.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("it has no command")]
    NoCommand,
    #[error("apiVersion {0:?}: use client.authentication.k8s.io/v1")]
    Version(String),
    #[error("interactiveMode Always: hostlet cannot prompt a user; use IfAvailable or Never")]
    Interactive,
    #[error("provideClusterInfo: the configuration of the cluster cannot be passed to it")]
    ClusterInfo,
    #[error("it cannot be started{hint}")]
    Start { hint: String, source: std::io::Error },
    #[error(transparent)]
    Run(#[from] ProgramError),
    #[error("its output is not an ExecCredential: {0}")]
    Syntax(String),
    #[error("it responded with API version {found:?} instead of {requested}")]
    OtherVersion { requested: &'static str, found: String },
    #[error(
        "its response has neither status.token nor both status.clientCertificateData and status.clientKeyData"
    )]
    NoCredentials,
    #[error("status.expirationTimestamp {0:?} is not a time")]
    Expiration(String),
    #[error("status.token has characters that HTTP does not permit")]
    Token,
}

/// A plugin's credentials.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Issued {
    pub(super) authorization: Option<HeaderValue>,
    /// Certificate and key as base64-encoded PEM, as in a kubeconfig.
    pub(super) certificate: Option<(String, String)>,
    /// Their expiry, if reported.
    pub(super) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
struct ExecCredential {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    status: Option<ExecCredentialStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredentialStatus {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Runs the plugin. Cancel-safe: a running plugin is killed with its process group.
pub(super) async fn run(exec: &ExecConfig) -> Result<Issued, PluginError> {
    let (command, version) = command(exec)?;
    let output = run_program(command, Vec::new(), LIMIT).await.map_err(|error| match error {
        ProgramError::Start(source) => {
            let hint = exec.install_hint.as_deref().map(|hint| format!(" ({})", clip(hint)));
            PluginError::Start { hint: hint.unwrap_or_default(), source }
        }
        error => PluginError::Run(error),
    })?;
    parse(&String::from_utf8_lossy(&output), version)
}

fn command(exec: &ExecConfig) -> Result<(Command, &'static str), PluginError> {
    let requested = exec.api_version.as_deref().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == requested);
    let version = version.ok_or_else(|| PluginError::Version(requested.to_owned()))?;
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(PluginError::Interactive);
    }
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        let cluster = exec.cluster.as_ref().and_then(|cluster| json::to_value(cluster).ok());
        spec["cluster"] = cluster.ok_or(PluginError::ClusterInfo)?;
    }
    let info = json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec});
    let program = exec.command.as_deref().filter(|command| !command.is_empty());
    let mut command = Command::new(program.ok_or(PluginError::NoCommand)?);
    command.args(exec.args.iter().flatten());
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    Ok((command, version))
}

/// Parses a plugin's output, JSON or YAML.
fn parse(text: &str, requested: &'static str) -> Result<Issued, PluginError> {
    let documents = parse_documents(text).map_err(|errors| {
        let first = errors.into_iter().next();
        PluginError::Syntax(first.map(|error| clip(&error.message)).unwrap_or_default())
    })?;
    let value = documents.into_iter().next().map_or(Value::Null, |document| document.value);
    // The output is secret, so only the kind of the error is reported.
    let credential: ExecCredential =
        json::from_value(&value).map_err(|_| PluginError::Syntax("a field has the wrong type".to_owned()))?;
    if credential.api_version != requested {
        return Err(PluginError::OtherVersion { requested, found: clip(&credential.api_version) });
    }
    let status = credential.status.ok_or(PluginError::NoCredentials)?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let expires = given(status.expiration_timestamp)
        .map(|at| at.parse().map_err(|_| PluginError::Expiration(clip(&at))));
    let token = given(status.token);
    let authorization = token.map(|token| bearer(&token).ok_or(PluginError::Token)).transpose()?;
    let pair = given(status.client_certificate_data).zip(given(status.client_key_data));
    if authorization.is_none() && pair.is_none() {
        return Err(PluginError::NoCredentials);
    }
    let certificate = pair.map(|(certificate, key)| (STANDARD.encode(certificate), STANDARD.encode(key)));
    Ok(Issued { authorization, certificate, expires: expires.transpose()? })
}

/// The header with a token; `None` if it is not a valid header value.
pub(super) fn bearer(token: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.trim())).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::error_chain;

    fn plugin(script: &str) -> ExecConfig {
        serde_json::from_value(json!({
            "apiVersion": VERSIONS[0], "command": "sh", "args": ["-c", script], "interactiveMode": "Never",
            "env": [{"name": "GREETING", "value": "hello"}],
        }))
        .unwrap()
    }

    fn credential(status: &str) -> String {
        format!(
            "echo '{{\"apiVersion\": \"{}\", \"kind\": \"ExecCredential\", \"status\": {status}}}'",
            VERSIONS[0]
        )
    }

    #[tokio::test]
    async fn credentials_are_parsed() {
        let issued =
            run(&plugin(&credential(r#"{"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"}"#)))
                .await
                .unwrap();
        assert_eq!(issued.authorization, bearer("t"));
        assert_eq!(issued.expires, Some("2030-01-01T00:00:00Z".parse().unwrap()));
        let issued = run(&plugin(&credential(r#"{"clientCertificateData": "c", "clientKeyData": "k"}"#)))
            .await
            .unwrap();
        assert_eq!(issued.certificate, Some((STANDARD.encode("c"), STANDARD.encode("k"))));
        let yaml = format!("printf 'apiVersion: {}\\nstatus:\\n  token: t\\n'", VERSIONS[0]);
        assert_eq!(run(&plugin(&yaml)).await.unwrap().authorization, bearer("t"));
    }

    #[tokio::test]
    async fn a_plugin_gets_its_request_and_variables() {
        let script = r#"[ "$GREETING" = hello ] && case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 3 ;; esac; "#;
        assert!(run(&plugin(&format!("{script}{}", credential(r#"{"token": "t"}"#)))).await.is_ok());
    }

    #[tokio::test]
    async fn errors_are_short_and_without_secrets() {
        let never = ExecConfig {
            command: Some("/none/such".to_owned()),
            install_hint: Some("get it".to_owned()),
            ..plugin("")
        };
        let asks = ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..plugin("") };
        let old = ExecConfig {
            api_version: Some("client.authentication.k8s.io/v1alpha1".to_owned()),
            ..plugin("")
        };
        for (exec, expected) in [
            (
                plugin("echo no; echo 'cannot log in' >&2; exit 7"),
                "it failed (exit status: 7): cannot log in",
            ),
            (plugin("yes x | tr -d '\\n' | head -c 3000000 >&2; exit 1"), "…"),
            (plugin("echo '{'"), "not an ExecCredential"),
            (plugin(&credential(r#"{"token": 5432}"#)), "a field has the wrong type"),
            (plugin(&credential(r#"{"clientKeyData": "k"}"#)), "neither status.token nor both"),
            (
                plugin(&credential(r#"{"token": "t", "expirationTimestamp": "soon"}"#)),
                "\"soon\" is not a time",
            ),
            (plugin("echo '{\"apiVersion\": \"x/v1\"}'"), "it responded with API version \"x/v1\""),
            (never, "it cannot be started (get it): No such file"),
            (asks, "interactiveMode Always"),
            (old, "v1alpha1"),
        ] {
            let error = error_chain(&run(&exec).await.unwrap_err());
            assert!(
                error.contains(expected) && error.len() < 600 && error.lines().count() == 1,
                "{expected}: {error}"
            );
            assert!(!error.contains("5432"), "{error}");
        }
    }
}

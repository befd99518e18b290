//! Runs the lifecycle hooks of one container: commands, HTTP requests and pauses (Kubernetes docs, "Container Lifecycle Hooks").
//! Does not decide when one runs, nor for how long.

use std::net::IpAddr;
use std::time::Duration;

use hostlet_base::{ContainerId, PodEvent, go_quoted};
use hostlet_net::http::{HttpError, HttpRequest};
use hostlet_runtime::cri::CriError;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler};
use tokio::time::sleep;

use super::context::WorkerContext;
use super::reporter::Reporter;
use crate::probe::{PortError, http_get_request, user_agent};

/// A request has no time limit of its own, as upstream: that of the hook ends it. This one only has to be finite.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a hook failed, in the words of the stock kubelet.
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    /// The command exited with an error.
    #[error("command '{command}' exited with {code}: {stderr}")]
    Exited {
        /// The command, its words joined with spaces.
        command: String,
        /// Its exit code.
        code: i32,
        /// Its standard error.
        stderr: String,
        output: String,
    },
    /// The command could not be run.
    #[error(transparent)]
    Exec(#[from] CriError),
    /// The pod has no address to send the request to.
    #[error("failed to find networking container: the pod has no IP address")]
    NoAddress,
    /// The port of the request is invalid, or none of the container's.
    #[error(transparent)]
    Port(#[from] PortError),
    /// There was no response.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The hook has none of the known handlers.
    #[error("invalid handler: it is none of exec, httpGet and sleep")]
    InvalidHandler,
}

/// The container whose hook runs.
#[derive(Clone, Copy)]
pub(super) struct HookTarget<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) reporter: &'a Reporter,
    pub(super) container: &'a Container,
    pub(super) id: &'a ContainerId,
    /// Addresses of the pod.
    pub(super) ips: &'a [IpAddr],
}

impl HookTarget<'_> {
    /// Runs a hook to its end, without a limit of its own.
    pub(super) async fn run(self, handler: &LifecycleHandler) -> Result<(), HookError> {
        if let Some(exec) = &handler.exec {
            self.exec(exec).await
        } else if let Some(get) = &handler.http_get {
            self.http_get(get).await
        } else if let Some(pause) = &handler.sleep {
            let under_way = self.context.metrics.hooks.pause();
            sleep(Duration::from_secs(u64::try_from(pause.seconds).unwrap_or(0))).await;
            under_way.finish();
            Ok(())
        } else {
            Err(HookError::InvalidHandler)
        }
    }

    /// The message of a failed hook (upstream `handlerRunner.Run`).
    pub(super) fn message(self, handler: &LifecycleHandler, error: &HookError) -> String {
        let (container, pod) = (go_quoted(&self.container.name), go_quoted(&self.reporter.pod().described()));
        let of = |kind: &str, what: &str| {
            format!(
                "{kind} lifecycle hook ({what}) for Container {container} in Pod {pod} failed - error: {error}"
            )
        };
        if let Some(exec) = &handler.exec {
            let words = exec.command.as_deref().unwrap_or_default().join(" ");
            let output = match error {
                HookError::Exited { output, .. } => output.as_str(),
                HookError::Exec(_)
                | HookError::NoAddress
                | HookError::Port(_)
                | HookError::Http(_)
                | HookError::InvalidHandler => "",
            };
            format!("{}, message: {}", of("Exec", &format!("[{words}]")), go_quoted(output))
        } else if let Some(get) = &handler.http_get {
            of("HTTP", get.path.as_deref().unwrap_or_default())
        } else if let Some(pause) = &handler.sleep {
            of("Sleep", &pause.seconds.to_string())
        } else {
            format!("Cannot run handler: {error}")
        }
    }

    /// Any response is a success. A server that does not speak TLS is asked again without it, and without credentials.
    async fn http_get(self, get: &HTTPGetAction) -> Result<(), HookError> {
        let ip = match self.ips.first() {
            Some(ip) => ip.to_string(),
            None if get.host.as_deref().is_some_and(|host| !host.is_empty()) => String::new(),
            None => return Err(HookError::NoAddress),
        };
        let uid = &self.reporter.pod().uid;
        let request = http_get_request(uid, get, self.container, &ip, &user_agent("lifecycle"), NO_LIMIT)?;
        let error = match self.send(&request).await {
            Err(error @ HttpError::NoTls(_)) => error,
            answered => return Ok(answered?),
        };
        let plain = HTTPGetAction { scheme: Some("HTTP".to_owned()), ..get.clone() };
        let plain = http_get_request(uid, &plain, self.container, &ip, &user_agent("lifecycle"), NO_LIMIT)?;
        if self.send(&HttpRequest { is_anonymous: true, ..plain }).await.is_err() {
            return Err(error.into());
        }
        self.context.metrics.hooks.fell_back();
        let url = request.url.to_string();
        let host = url.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let text =
            format!("request to HTTPS lifecycle hook {host} got HTTP response, retry with HTTP succeeded");
        self.reporter.announce(None, &PodEvent::warning("LifecycleHTTPFallback", text));
        Ok(())
    }

    async fn send(self, request: &HttpRequest) -> Result<(), HttpError> {
        match self.context.hook_client.get(request).await {
            Ok(_) | Err(HttpError::Body(_)) => Ok(()),
            Err(error @ (HttpError::Request(_) | HttpError::Exchange(_) | HttpError::NoTls(_))) => Err(error),
        }
    }

    async fn exec(self, exec: &ExecAction) -> Result<(), HookError> {
        let command = exec.command.clone().unwrap_or_default();
        let runtime = &self.context.runtime.service;
        let output = runtime.exec_sync(self.id, command.clone(), Duration::MAX).await?;
        if output.exit_code == 0 {
            return Ok(());
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Err(HookError::Exited {
            command: command.join(" "),
            code: output.exit_code,
            stderr: text(&output.stderr),
            output: text(&[output.stdout, output.stderr].concat()),
        })
    }
}

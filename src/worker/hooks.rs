//! Runs the lifecycle hooks of one container: commands and pauses (Kubernetes docs, "Container Lifecycle Hooks").
//! Does not decide when one runs, nor for how long.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, LifecycleHandler};
use tokio::time::sleep;

use super::context::WorkerContext;
use crate::cri::CriError;
use crate::types::{ContainerId, PodRef, go_quoted};

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
        /// All of its output.
        output: String,
    },
    /// The command could not be run.
    #[error(transparent)]
    Exec(#[from] CriError),
    /// The hook has none of the known handlers.
    #[error("invalid handler: it is neither exec nor sleep")]
    InvalidHandler,
}

/// The container whose hook runs.
#[derive(Clone, Copy)]
pub(super) struct HookTarget<'a> {
    pub(super) context: &'a WorkerContext,
    pub(super) pod: &'a PodRef,
    /// Its name in the pod.
    pub(super) name: &'a str,
    pub(super) id: &'a ContainerId,
}

impl HookTarget<'_> {
    /// Runs a hook to its end, without a limit of its own.
    pub(super) async fn run(self, handler: &LifecycleHandler) -> Result<(), HookError> {
        if let Some(exec) = &handler.exec {
            self.exec(exec).await
        } else if let Some(pause) = &handler.sleep {
            sleep(Duration::from_secs(u64::try_from(pause.seconds).unwrap_or(0))).await;
            Ok(())
        } else {
            Err(HookError::InvalidHandler)
        }
    }

    /// The message of a failed hook (upstream `handlerRunner.Run`).
    pub(super) fn message(self, handler: &LifecycleHandler, error: &HookError) -> String {
        let (container, pod) = (go_quoted(self.name), go_quoted(&self.pod.described()));
        let of = |kind: &str, what: &str| {
            format!(
                "{kind} lifecycle hook ({what}) for Container {container} in Pod {pod} failed - error: {error}"
            )
        };
        if let Some(exec) = &handler.exec {
            let words = exec.command.as_deref().unwrap_or_default().join(" ");
            let output = match error {
                HookError::Exited { output, .. } => output.as_str(),
                HookError::Exec(_) | HookError::InvalidHandler => "",
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

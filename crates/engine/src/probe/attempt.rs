//! One run of a probe: from the pod's spec to a request, and from its answer to a verdict.

use std::sync::Arc;
use std::time::Duration;

use hostlet_base::PodUid;
use hostlet_net::http::{HttpClient, HttpError, PodDialer};
use hostlet_runtime::cri::RuntimeService;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::answer::{Answer, Attempt, AttemptError};
use super::grpc::{GrpcClient, GrpcTarget};
use super::http_get::{http_get_request, or};
use super::port::resolve_port;
use super::schedule::Run;
use super::{exec, tcp, user_agent};

/// A probe that cannot be run is tried this often at once.
const ATTEMPTS: usize = 3;

/// Runs single probes of any kind.
pub(super) struct ProbeRunner {
    runtime: Arc<dyn RuntimeService>,
    dialer: PodDialer,
    http: HttpClient,
    grpc: GrpcClient,
    user_agent: String,
}

impl ProbeRunner {
    pub(super) fn new(runtime: Arc<dyn RuntimeService>) -> Self {
        let dialer = PodDialer::default();
        Self {
            runtime,
            http: HttpClient::new(dialer.clone()),
            grpc: GrpcClient::new(dialer.clone()),
            dialer,
            user_agent: user_agent("probe"),
        }
    }

    pub(super) async fn run(&self, run: &Run) -> Attempt {
        let mut attempt = self.attempt(run).await;
        for _ in 1..ATTEMPTS {
            if attempt.is_ok() {
                break;
            }
            attempt = self.attempt(run).await;
        }
        attempt
    }

    async fn attempt(&self, run: &Run) -> Attempt {
        let missing = || {
            AttemptError::NotSent(format!(
                "missing probe handler for {}:{}",
                run.pod.reference, run.container.name
            ))
        };
        let container = run.pod.container(&run.container).ok_or_else(missing)?.spec;
        let probe = run.kind.of(container).ok_or_else(missing)?;
        let limit = timeout(probe);
        let uid = &run.pod.reference.uid;
        if let Some(action) = &probe.exec {
            let words = action.command.as_deref().unwrap_or_default();
            return exec::probe(&*self.runtime, &run.id, exec::command(words, container), limit).await;
        }
        if let Some(action) = &probe.http_get {
            return self.http_get(uid, action, container, &run.ip, limit).await;
        }
        if let Some(action) = &probe.tcp_socket {
            let port = port(&action.port, container)?;
            let host = or(action.host.as_deref(), &run.ip);
            return Ok(tcp::probe(&self.dialer, uid, host, port, limit).await);
        }
        let action = probe.grpc.as_ref().ok_or_else(missing)?;
        let target = GrpcTarget {
            pod: uid.clone(),
            host: run.ip.clone(),
            port: u16::try_from(action.port).unwrap_or(0),
            service: action.service.clone().unwrap_or_default(),
            tls: action.mode.as_deref() == Some("TLS"),
        };
        Ok(self.grpc.probe(&target, &self.user_agent, limit).await)
    }

    async fn http_get(
        &self,
        uid: &PodUid,
        action: &HTTPGetAction,
        container: &Container,
        ip: &str,
        limit: Duration,
    ) -> Attempt {
        let request = http_get_request(uid, action, container, ip, &self.user_agent, limit);
        let request = request.map_err(|error| AttemptError::NotSent(error.to_string()))?;
        match self.http.get(&request).await {
            Ok(answer) if (300..400).contains(&answer.status) => {
                let body = String::from_utf8_lossy(&answer.body);
                Ok(Answer::Warning(format!("Probe terminated redirects, Response body: {body}")))
            }
            Ok(answer) if (200..300).contains(&answer.status) => Ok(Answer::Success),
            // Without the body, which may have secrets.
            Ok(answer) => {
                Ok(Answer::Failure(format!("HTTP probe failed with statuscode: {}", answer.status)))
            }
            Err(HttpError::Exchange(text) | HttpError::NoTls(text)) => Ok(Answer::Failure(text)),
            Err(HttpError::Request(text)) => Err(AttemptError::NotSent(text)),
            Err(HttpError::Body(text)) => Err(AttemptError::BrokenOff(text)),
        }
    }
}

fn port(port: &IntOrString, container: &Container) -> Result<u16, AttemptError> {
    resolve_port(port, container).map_err(|error| AttemptError::NotSent(error.to_string()))
}

/// The time limit of a run.
fn timeout(probe: &Probe) -> Duration {
    let seconds = probe.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Duration::from_secs(seconds.unwrap_or(1).max(1))
}

#[cfg(test)]
#[path = "attempt_tests.rs"]
mod tests;

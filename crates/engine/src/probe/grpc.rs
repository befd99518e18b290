//! `grpc` probes: `grpc.health.v1.Health/Check` (<https://github.com/grpc/grpc/blob/master/doc/health-checking.md>), on a connection of its
//! own.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use hostlet_base::{PodUid, go_duration, go_quoted, join_host_port};
use hostlet_net::http::{ConnectError, PodDialer, Stream, Watched, alongside, read_stream, unverified};
use http::{HeaderMap, Method, Request, Version};
use prost::Message;
use rustls::ClientConfig;
use tokio::time::{Instant, sleep, timeout_at};

use super::answer::Answer;

/// The first pause of a Go client between two attempts to connect.
const RECONNECT: Duration = Duration::from_secs(1);
/// An answer has a few bytes.
const MAX_ANSWER: usize = 4 << 10;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}

/// The server to ask.
#[derive(Clone, Debug)]
pub(super) struct GrpcTarget {
    pub(super) pod: PodUid,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) service: String,
    /// With TLS, whose certificate is not verified.
    pub(super) tls: bool,
}

/// Asks servers for their health.
#[derive(Clone, Debug, Default)]
pub(super) struct GrpcClient {
    dialer: PodDialer,
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl GrpcClient {
    /// A client that connects with this dialer.
    pub(super) fn new(dialer: PodDialer) -> Self {
        Self { dialer, tls: Arc::default() }
    }

    /// Probes a server.
    pub(super) async fn probe(&self, target: &GrpcTarget, user_agent: &str, limit: Duration) -> Answer {
        let deadline = Instant::now() + limit;
        let address = join_host_port(&target.host, target.port);
        loop {
            match self.check(target, &address, user_agent, deadline).await {
                Ok(outcome) => return judged(outcome, limit),
                Err(Unanswered::TimedOut) => return Answer::Failure(not_complete(limit)),
                // A Go client waits until it is connected, and tries again and again.
                Err(Unanswered::NotConnected) => {
                    if timeout_at(deadline, sleep(RECONNECT)).await.is_err() {
                        return Answer::Failure(format!(
                            "timeout: failed to connect service {} within {}: context deadline exceeded",
                            go_quoted(&address),
                            go_duration(limit)
                        ));
                    }
                }
            }
        }
    }

    async fn check(
        &self,
        target: &GrpcTarget,
        address: &str,
        user_agent: &str,
        deadline: Instant,
    ) -> Result<Outcome, Unanswered> {
        let connecting = timeout_at(deadline, self.connect(target)).await;
        let mut stream = connecting.ok().and_then(Result::ok).ok_or(Unanswered::NotConnected)?;
        let request = request(target, address, user_agent).ok_or(Unanswered::NotConnected)?;
        let called =
            call(&mut stream, request, framed(&HealthCheckRequest { service: target.service.clone() }));
        match timeout_at(deadline, called).await {
            Ok(Ok(outcome)) => Ok(outcome),
            // A server that speaks HTTP/2 sends its settings at once.
            Err(_) if !stream.head().is_empty() => Err(Unanswered::TimedOut),
            Ok(Err(_)) | Err(_) => Err(Unanswered::NotConnected),
        }
    }

    async fn connect(&self, target: &GrpcTarget) -> Result<Watched<Stream>, ConnectError> {
        let tcp = self.dialer.dial(&target.pod, &target.host, target.port).await?;
        if target.tls {
            return Watched::tls(tcp, &target.host, self.tls()?).await;
        }
        // Its frames are written one by one.
        let _ = tcp.set_nodelay(true);
        Ok(Watched::plain(tcp))
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let config = Arc::new(unverified(&[b"h2"])?);
        Ok(self.tls.get_or_init(|| config).clone())
    }
}

/// Why there is no outcome.
enum Unanswered {
    /// There is no connection on which HTTP/2 is spoken.
    NotConnected,
    /// The call took too long.
    TimedOut,
}

/// How a call ended: with a serving status, or with an error's code and message.
type Outcome = Result<i32, (u32, String)>;

fn request(target: &GrpcTarget, address: &str, user_agent: &str) -> Option<Request<()>> {
    let scheme = if target.tls { "https" } else { "http" };
    let request = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("{scheme}://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("user-agent", user_agent)
        .header("te", "trailers");
    request.body(()).ok()
}

async fn call(
    stream: &mut Watched<Stream>,
    request: Request<()>,
    message: Bytes,
) -> Result<Outcome, h2::Error> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    let mut connection = pin!(connection.fuse());
    let called = async {
        let (response, mut body) = sender.ready().await?.send_request(request, false)?;
        body.send_data(message, true)?;
        let (head, mut body) = response.await?.into_parts();
        let content = read_stream(&mut body, MAX_ANSWER).await?;
        let trailers = body.trailers().await?.unwrap_or_default();
        Ok::<_, h2::Error>(outcome(head.status.as_u16(), &head.headers, &content, &trailers))
    };
    match alongside(connection.as_mut(), called).await {
        // The server rejected this call alone.
        Err(error) if error.is_reset() && error.is_remote() => Ok(Err((UNAVAILABLE, error.to_string()))),
        called => called,
    }
}

/// A message with its prefix: not compressed, and its length.
fn framed(message: &HealthCheckRequest) -> Bytes {
    let content = message.encode_to_vec();
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&content);
    framed.into()
}

const OK: u32 = 0;
const UNKNOWN: u32 = 2;
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

/// gRPC's codes by number, as Go prints them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

fn outcome(status: u16, head: &HeaderMap, content: &[u8], trailers: &HeaderMap) -> Outcome {
    // A response without a body has everything in its head.
    let field = |name: &str| trailers.get(name).or_else(|| head.get(name)).map(|value| value.as_bytes());
    let code = field("grpc-status").and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let message = field("grpc-message").unwrap_or_default();
    let message = percent_encoding::percent_decode(message).decode_utf8_lossy().into_owned();
    match (code, status) {
        (Some(OK), _) => {}
        (Some(code), _) => return Err((code, message)),
        (None, 200) => {
            return Err((INTERNAL, "server closed the stream without sending trailers".to_owned()));
        }
        (None, _) => {
            let code = match status {
                400 => INTERNAL,
                401 => 16,
                403 => 7,
                404 => UNIMPLEMENTED,
                429 | 502 | 503 | 504 => UNAVAILABLE,
                _ => UNKNOWN,
            };
            let name = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
            let name = name.unwrap_or_default();
            return Err((
                code,
                format!("unexpected HTTP status code received from server: {status} ({name})"),
            ));
        }
    }
    let answer = content.get(5..).and_then(|message| HealthCheckResponse::decode(message).ok());
    let answer = answer.filter(|_| content.first() == Some(&0));
    answer.map(|answer| answer.status).ok_or_else(|| (INTERNAL, "the answer is malformed".to_owned()))
}

fn not_complete(limit: Duration) -> String {
    format!("timeout: health rpc did not complete within {}", go_duration(limit))
}

fn judged(outcome: Outcome, limit: Duration) -> Answer {
    match outcome {
        Ok(1) => Answer::Success,
        Ok(status) => {
            let name = match status {
                0 => "UNKNOWN".to_owned(),
                2 => "NOT_SERVING".to_owned(),
                3 => "SERVICE_UNKNOWN".to_owned(),
                other => other.to_string(),
            };
            Answer::Failure(format!("service unhealthy (responded with {})", go_quoted(&name)))
        }
        Err((UNIMPLEMENTED, message)) => Answer::Failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Err((DEADLINE_EXCEEDED, _)) => Answer::Failure(not_complete(limit)),
        Err((code, message)) => {
            let name = usize::try_from(code).ok().and_then(|code| CODES.get(code)).copied();
            let name = name.map_or_else(|| format!("Code({code})"), str::to_owned);
            Answer::Failure(format!(
                "error: health rpc probe failed: rpc error: code = {name} desc = {message}"
            ))
        }
    }
}

#[cfg(test)]
#[path = "grpc_tests.rs"]
mod tests;

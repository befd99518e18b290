//! Answers with a container's log. Statuses and texts of errors are the stock kubelet's.

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hostlet_base::{WallClock, error_chain, go_quoted};
use hostlet_engine::container_logs::{ContainerLogs, NoInstance, bare_id, find_instance, until_cancelled};
use hostlet_observe::log::{LogError, LogStream};
use hostlet_observe::status::PodDirectory;
use tokio_util::sync::CancellationToken;

use super::super::answers::{PLAIN, Slashes, only_get};
use super::query::{LogQuery, QueryError};

/// What logs are answered from.
#[derive(Clone)]
pub struct ContainerLogDeps {
    /// The pods of this node, whose statuses name the containers.
    pub pods: PodDirectory,
    /// Finds and reads the files of a container.
    pub logs: ContainerLogs,
    /// Whether one stream may be asked for (the feature gate `PodLogsQuerySplitStreams`).
    pub split_streams: bool,
    /// For times that others see; deadlines use tokio's clock.
    pub clock: WallClock,
    /// Aborts followed logs at shutdown.
    pub cancel: CancellationToken,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error("pod {} does not exist", go_quoted(.0))]
    NoPod(String),
    #[error("container {} not found in pod {pod:?}", go_quoted(container))]
    NoContainer { container: String, pod: String },
    #[error(
        "unable to return the given log stream: {0:?}. Please enable PodLogsQuerySplitStreams feature gate in kubelet"
    )]
    OneStream(&'static str),
    #[error(transparent)]
    NoInstance(#[from] NoInstance),
    #[error("unable to retrieve container logs for {0}")]
    NotInRuntime(String),
    #[error(transparent)]
    Log(#[from] LogError),
}

impl IntoResponse for AnswerError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Query(QueryError::Invalid) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NoPod(_) | Self::NoContainer { .. } => StatusCode::NOT_FOUND,
            Self::Query(QueryError::Undecodable)
            | Self::OneStream(_)
            | Self::NoInstance(_)
            | Self::NotInRuntime(_)
            | Self::Log(_) => StatusCode::BAD_REQUEST,
        };
        (status, error_chain(&self)).into_response()
    }
}

/// The route.
pub(in crate::node_api) fn routes(deps: ContainerLogDeps) -> Router {
    Router::new().restful("/containerLogs/{namespace}/{pod}/{container}", only_get(answer)).with_state(deps)
}

async fn answer(
    State(deps): State<ContainerLogDeps>,
    Path((namespace, name, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, AnswerError> {
    let query = LogQuery::parse(query.as_deref().unwrap_or_default(), deps.clock.now())?;
    let found = deps.pods.find(&namespace, &name).ok_or_else(|| AnswerError::NoPod(name.clone()))?;
    if !found.has_container(&container) {
        return Err(AnswerError::NoContainer { container, pod: name });
    }
    match query.options.stream {
        Some(stream) if !deps.split_streams => {
            return Err(AnswerError::OneStream(match stream {
                LogStream::Stdout => "Stdout",
                LogStream::Stderr => "Stderr",
            }));
        }
        Some(_) | None => {}
    }
    let pod = found.with_status();
    let id = find_instance(&pod, &container, query.previous)?;
    let log = deps.logs.open(&found.reference(), &bare_id(id), query.options, query.follow).await?;
    // The stock kubelet puts this into the log.
    let log = log.ok_or_else(|| AnswerError::NotInRuntime(id.to_owned()))?;
    let body = Body::from_stream(until_cancelled(log, deps.cancel));
    Ok(([(CONTENT_TYPE, PLAIN)], body).into_response())
}

//! `/checkpoint/{namespace}/{pod}/{container}` (KEP-2008): the runtime writes the state of a running container into a file below the root
//! directory. The texts are upstream's.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use hostlet_base::{ContainerId, PodRef, WallClock, error_chain};
use hostlet_host::file_work;
use hostlet_observe::pleg::Cache;
use hostlet_observe::status::PodDirectory;
use hostlet_runtime::cri::{ContainerState, CriError, RuntimeService};
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::answers::{Slashes, only_post, text};

/// Why there is no checkpoint.
#[derive(Debug, thiserror::Error)]
enum CheckpointError {
    #[error("pod does not exist")]
    NoPod,
    #[error("container {0} does not exist")]
    NoContainer(String),
    #[error("container {0} not found")]
    NotRunning(String),
    #[error("cannot create the directory of checkpoints")]
    Directory(#[source] io::Error),
    #[error(transparent)]
    Runtime(#[from] CriError),
}

/// What checkpoints need.
#[derive(Clone)]
pub struct Checkpoints {
    /// The pods of this node.
    pub pods: PodDirectory,
    /// What the runtime has.
    pub observed: Cache,
    /// The runtime, which writes the checkpoint.
    pub runtime: Arc<dyn RuntimeService>,
    /// Their directory, which is created with the first one.
    pub dir: PathBuf,
    /// The time in their names.
    pub clock: WallClock,
}

impl Checkpoints {
    /// The endpoint.
    pub(super) fn routes(self) -> Router {
        Router::new()
            .restful("/checkpoint/{namespace}/{pod}/{container}", only_post(checkpoint))
            .with_state(self)
    }

    /// The pod with this name, if one of its containers is named `container`; otherwise why not.
    fn pod(&self, namespace: &str, name: &str, container: &str) -> Result<PodRef, CheckpointError> {
        let found = self.pods.find(namespace, name).ok_or(CheckpointError::NoPod)?;
        match found.has_container(container) {
            true => Ok(found.reference()),
            false => Err(CheckpointError::NoContainer(container.to_owned())),
        }
    }

    fn running(&self, pod: &PodRef, container: &str) -> Option<ContainerId> {
        let observed = self.observed.get(pod).ok()?;
        let newest = observed.container(container)?;
        (newest.state == ContainerState::Running).then(|| newest.id.clone())
    }

    async fn write(
        &self,
        pod: &PodRef,
        container: &str,
        limit: Option<Duration>,
    ) -> Result<PathBuf, CheckpointError> {
        let running = self.running(pod, container);
        let id = running.ok_or_else(|| CheckpointError::NotRunning(container.to_owned()))?;
        let time = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ");
        let file = self.dir.join(format!("checkpoint-{}_{}-{container}-{time}.tar", pod.name, pod.namespace));
        let dir = self.dir.clone();
        let made = file_work(move || DirBuilder::new().recursive(true).mode(0o700).create(dir)).await;
        made.map_err(io::Error::other).flatten().map_err(CheckpointError::Directory)?;
        self.runtime.checkpoint_container(&id, &file, limit).await?;
        Ok(file)
    }
}

async fn checkpoint(
    State(checkpoints): State<Checkpoints>,
    Path((namespace, name, container)): Path<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Response {
    let pod = match checkpoints.pod(&namespace, &name, &container) {
        Ok(pod) => pod,
        Err(error) => return text(StatusCode::NOT_FOUND, error.to_string()),
    };
    let Ok(limit) = limit(query.as_deref().unwrap_or_default()) else {
        return text(StatusCode::NOT_FOUND, "cannot parse value of timeout parameter");
    };
    match checkpoints.write(&pod, &container, limit).await {
        Ok(file) => {
            let body = format!("{{\"items\":[\"{}\"]}}", file.display());
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => {
            let why = error_chain(&error);
            let why = format!("checkpointing of {namespace}/{name}/{container} failed ({why})");
            text(StatusCode::INTERNAL_SERVER_ERROR, why)
        }
    }
}

/// The last `timeout`, seconds; `None` for the runtime's own.
fn limit(query: &str) -> Result<Option<Duration>, std::num::ParseIntError> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap_or_default();
    let last = pairs.into_iter().rev().find(|(name, _)| name == "timeout");
    last.map(|(_, value)| value.parse().map(Duration::from_secs)).transpose()
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;

//! The routes of `/logs/`, and which of the two answers: files, or the logs of services.

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::any;
use http::{HeaderMap, StatusCode, Uri};
use percent_encoding::percent_decode_str;

use super::super::answers::{Slashes, line, only_get};
use super::conditions::Conditions;
use super::query::{Query, Wanted};
use super::{files, journal};

/// The system's logs, and what may be asked about them.
#[derive(Clone, Debug)]
pub struct SystemLogs {
    /// Whether there are any (`enableSystemLogHandler`).
    pub is_enabled: bool,
    /// Whether the logs of services may be asked for (`enableSystemLogQuery`).
    pub has_query: bool,
    /// Their directory.
    pub dir: PathBuf,
    /// The program that prints the journal.
    pub journalctl: PathBuf,
}

impl SystemLogs {
    /// The endpoint.
    pub(in crate::node_api) fn routes(self) -> Router {
        if !self.is_enabled {
            let disabled = || async { line(StatusCode::METHOD_NOT_ALLOWED, "logs endpoint is disabled.") };
            return Router::new().directory("/logs/", any(disabled));
        }
        Router::new().directory("/logs/", only_get(logs)).with_state(Arc::new(self))
    }
}

async fn logs(
    State(logs): State<Arc<SystemLogs>>,
    uri: Uri,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let wanted = Conditions::of(&headers);
    let path = uri.path().strip_prefix("/logs/").unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
    if !logs.has_query {
        return files::answer(&logs.dir, path, wanted).await;
    }
    match Query::parse(query.as_deref().unwrap_or_default()) {
        Err(errors) => line(StatusCode::BAD_REQUEST, &errors.to_string()),
        Ok(None) => files::answer(&logs.dir, path, wanted).await,
        Ok(Some(_)) if !path.trim_matches('/').is_empty() => {
            line(StatusCode::NOT_ACCEPTABLE, "path not allowed in query mode")
        }
        Ok(Some(query)) => match query.wanted() {
            Err(errors) => line(StatusCode::NOT_ACCEPTABLE, &errors.to_string()),
            Ok(Wanted::File(file)) => match files::missing(&logs.dir, &file).await {
                Some(error) => line(StatusCode::NOT_ACCEPTABLE, &query.no_such_file(&error)),
                None => files::answer(&logs.dir, file, wanted).await,
            },
            Ok(Wanted::Services(services)) => {
                journal::answer(&logs.journalctl, &logs.dir, &query, services).await
            }
        },
    }
}

//! Forms of answers that several endpoints share. As go-restful and Go's HTTP library write them, so that clients see upstream's.

use axum::response::{IntoResponse, Response};
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderName, StatusCode};
use serde::Serialize;

use crate::types::error_chain;

/// The type of texts.
const PLAIN: &str = "text/plain; charset=utf-8";

/// A text as it is (go-restful's `WriteErrorString`).
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, PLAIN)], text.into()).into_response()
}

/// A text as a line (Go's `http.Error`).
pub(super) fn line(status: StatusCode, text: &str) -> Response {
    let headers = [(CONTENT_TYPE, PLAIN), (HeaderName::from_static("x-content-type-options"), "nosniff")];
    (status, headers, format!("{text}\n")).into_response()
}

/// Another method than the endpoint has.
pub(super) async fn only_get() -> Response {
    let body = text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed");
    ([(ALLOW, "GET")], body).into_response()
}

/// An API object, as its codec writes it.
pub(super) fn json(object: &impl Serialize) -> Response {
    match serde_json::to_vec(object) {
        Ok(mut body) => {
            body.push(b'\n');
            ([(CONTENT_TYPE, "application/json")], body).into_response()
        }
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error_chain(&error)),
    }
}

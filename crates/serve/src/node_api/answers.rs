//! Forms of answers that several endpoints share, and their methods. As go-restful and Go's HTTP library write them, so that clients see
//! upstream's.

use axum::Router;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use http::header::{ALLOW, CONTENT_TYPE, LOCATION};
use http::{StatusCode, Uri};
use serde::Serialize;

use hostlet_base::error_chain;

/// The type of texts.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

/// Headers of texts of Go's HTTP library.
pub(super) const TEXT: [(&str, &str); 2] = [("content-type", PLAIN), ("x-content-type-options", "nosniff")];

/// A text as it is (go-restful's `WriteErrorString`).
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(CONTENT_TYPE, PLAIN)], text.into()).into_response()
}

/// A text as a line (Go's `http.Error`).
pub(super) fn line(status: StatusCode, text: &str) -> Response {
    (status, TEXT, format!("{text}\n")).into_response()
}

/// What a slash at the end of a path means: to go-restful nothing, to Go's HTTP library the directory of that name.
pub(super) trait Slashes<S> {
    /// Adds a route of go-restful, with and without a slash at its end.
    fn restful(self, path: &str, endpoint: MethodRouter<S>) -> Self;

    /// Adds a directory, whose path ends in a slash, and all below it. Without the slash, the path leads to it.
    fn directory(self, path: &str, endpoint: MethodRouter<S>) -> Self;
}

impl<S: Clone + Send + Sync + 'static> Slashes<S> for Router<S> {
    fn restful(self, path: &str, endpoint: MethodRouter<S>) -> Self {
        self.route(path, endpoint.clone()).route(&format!("{path}/"), endpoint)
    }

    fn directory(self, path: &str, endpoint: MethodRouter<S>) -> Self {
        let router = self.route(path, endpoint.clone()).route(&format!("{path}{{*below}}"), endpoint);
        router.route(path.trim_end_matches('/'), any(add_slash))
    }
}

async fn add_slash(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    (StatusCode::TEMPORARY_REDIRECT, [(LOCATION, format!("{}/{query}", uri.path()))]).into_response()
}

/// An endpoint with GET alone. go-restful's routes do not answer HEAD, other than those of Go's HTTP library, which answer every method.
pub(super) fn only_get<H: Handler<T, S>, T: 'static, S>(handler: H) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    only(get(handler), "GET")
}

/// An endpoint with GET and POST alone.
pub(super) fn get_or_post<H: Handler<T, S>, T: 'static, S>(handler: H) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    only(get(handler.clone()).post(handler), "GET, POST")
}

/// An endpoint with POST alone.
pub(super) fn only_post<H: Handler<T, S>, T: 'static, S>(handler: H) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    only(post(handler), "POST")
}

fn only<S: Clone + Send + Sync + 'static>(route: MethodRouter<S>, allowed: &'static str) -> MethodRouter<S> {
    let refuse =
        async move || ([(ALLOW, allowed)], text(StatusCode::METHOD_NOT_ALLOWED, "405: Method Not Allowed"));
    route.head(refuse).fallback(refuse)
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

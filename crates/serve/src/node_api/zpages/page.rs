//! A page in each of its forms: what it begins with as text, and the frame of its object. Knows no path.

use axum::response::{IntoResponse, Response};
use hostlet_base::error_chain;
use http::header::{ACCEPT, CONTENT_TYPE, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::super::answers;
use super::negotiate::{Encoding, Form, GROUP, Version, form};

/// Upstream's name of the component.
const COMPONENT: &str = "kubelet";

/// What every page begins with.
pub(super) fn head(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n"
    )
}

/// A page that clients accept in different forms.
pub(super) struct Page<'a> {
    /// Kind of the object.
    pub(super) kind: &'static str,
    /// The last segment of its path.
    pub(super) name: &'static str,
    pub(super) text: &'a dyn Fn() -> String,
    /// The fields of the object besides its kind and name.
    pub(super) fields: &'a dyn Fn() -> Value,
}

impl Page<'_> {
    /// Answers in the form that the client prefers.
    pub(super) fn answer(&self, headers: &HeaderMap) -> Response {
        match form(accepted(headers), self.kind) {
            Some(Form::Text) => answers::text(StatusCode::OK, (self.text)()),
            Some(Form::Object(encoding, version)) => self.object(encoding, version),
            None => not_acceptable(),
        }
    }

    fn object(&self, encoding: Encoding, version: Version) -> Response {
        let mut object = json!({
            "kind": self.kind,
            "apiVersion": format!("{GROUP}/{}", version.as_str()),
            "metadata": {"name": COMPONENT},
        });
        if let (Value::Object(object), Value::Object(fields)) = (&mut object, (self.fields)()) {
            object.extend(fields);
        }
        let mut response = match encoding {
            Encoding::Json => answers::json(&object),
            Encoding::Yaml => match serde_saphyr::to_string(&object) {
                Ok(text) => ([(CONTENT_TYPE, "application/yaml")], text).into_response(),
                Err(error) => answers::text(StatusCode::INTERNAL_SERVER_ERROR, error_chain(&error)),
            },
        };
        if version == Version::V1Alpha1 {
            let warning = format!(
                "299 - \"This version of the {} endpoint is deprecated. Please use a newer version.\"",
                self.name
            );
            if let Ok(warning) = HeaderValue::from_str(&warning) {
                response.headers_mut().insert(WARNING, warning);
            }
        }
        response
    }
}

/// The accepted types of a request.
fn accepted(headers: &HeaderMap) -> &str {
    headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default()
}

/// Upstream's answer if no form is accepted.
fn not_acceptable() -> Response {
    let message =
        "only the following media types are accepted: application/json, application/yaml, text/plain";
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "NotAcceptable", "code": 406,
    });
    (StatusCode::NOT_ACCEPTABLE, answers::json(&status)).into_response()
}

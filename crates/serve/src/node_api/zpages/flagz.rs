//! `/flagz`: the command line's flags with their values.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use http::HeaderMap;
use serde_json::json;

use super::page::{Page, head};

/// The endpoint.
pub(super) fn routes(flags: BTreeMap<String, String>) -> Router {
    let flags = Arc::new(flags);
    let answer = move |headers: HeaderMap| {
        let page = Page {
            kind: "Flagz",
            name: "flagz",
            text: &|| {
                let lines = flags.iter().map(|(name, value)| format!("{name}={value}\n"));
                head("flagz") + &lines.collect::<String>()
            },
            fields: &|| json!({"flags": *flags}),
        };
        std::future::ready(page.answer(&headers))
    };
    Router::new().route("/flagz", any(answer))
}

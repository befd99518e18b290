//! One attempt to register: make the Node, or adopt the one that is there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};

use super::adopt::adopt;
use crate::api::{ApiErrorKind, Objects, Wire};
use crate::node::request::{RequestError, within};

/// How it went.
pub(in crate::node) enum Registered {
    /// The Node was made.
    Created(Node),
    /// It was there.
    Adopted(Node),
}

/// May be repeated after any failure: what an attempt with a lost answer made, the next one adopts.
pub(in crate::node) async fn attempt(
    nodes: &Objects<Node>,
    initial: &Node,
    limit: Duration,
) -> Result<Registered, RequestError> {
    let error = match within(limit, nodes.create(&PostParams::default(), &Wire(initial.clone()))).await {
        Ok(Wire(node)) => return Ok(Registered::Created(node)),
        Err(error) => error,
    };
    match error.error_kind() {
        // One that may not make nodes may have been given one.
        ApiErrorKind::AlreadyExists | ApiErrorKind::Forbidden => {}
        ApiErrorKind::NotFound
        | ApiErrorKind::Conflict
        | ApiErrorKind::Invalid
        | ApiErrorKind::TooMany(_)
        | ApiErrorKind::Unavailable => return Err(error),
    }
    let name = initial.metadata.name.as_deref().unwrap_or_default();
    let existing = match within(limit, nodes.get(name)).await {
        Ok(Wire(existing)) => existing,
        // Then that it may not be made is what matters.
        Err(missing) if missing.error_kind() == ApiErrorKind::NotFound => return Err(error),
        Err(other) => return Err(other),
    };
    match adopt(initial, &existing) {
        None => Ok(Registered::Adopted(existing)),
        Some(patch) => {
            let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
            within(limit, nodes.patch(name, &parameters, &patch))
                .await
                .map(|Wire(node)| Registered::Adopted(node))
        }
    }
}

//! One attempt to register: make the Node, or adopt the one that is there.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};

use super::adopt::{adopt, without_devices};
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
    let parameters = PatchParams::default();
    let mut node = existing;
    if let Some(patch) = adopt(initial, &node) {
        Wire(node) = within(limit, nodes.patch(name, &parameters, &Patch::Strategic(patch))).await?;
    }
    if let Some(patch) = without_devices(&node) {
        Wire(node) = within(limit, nodes.patch_status(name, &parameters, &Patch::Strategic(patch))).await?;
        tracing::info!(node = name, "set the extended resources of the kubelet before this one to zero");
    }
    Ok(Registered::Adopted(node))
}

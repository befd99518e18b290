//! One attempt to register: creates the Node, or adopts the existing one.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};

use super::adopt::{adopt, without_devices};
use super::former_devices::FormerDevices;
use crate::api::{ApiErrorKind, TypedApi, Wire};
use crate::node::request::{RequestError, within};

/// The outcome of a successful attempt.
pub(in crate::node) enum Registered {
    /// The Node was created.
    Created(Node),
    /// It already existed.
    Adopted(Node),
}

/// Creates or adopts the Node. May be repeated after any failure: a Node created by a request whose response was lost is
/// adopted by the next attempt.
pub(in crate::node) async fn attempt(
    nodes: &TypedApi<Node>,
    initial: &Node,
    limit: Duration,
    former_devices: &FormerDevices,
) -> Result<Registered, RequestError> {
    let error = match within(limit, nodes.create(&PostParams::default(), &Wire(initial.clone()))).await {
        Ok(Wire(node)) => {
            former_devices.forget();
            return Ok(Registered::Created(node));
        }
        Err(error) => error,
    };
    match error.error_kind() {
        // Without permission to create Nodes, an administrator may have created this one.
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
        // Then the failed creation is the error to report.
        Err(missing) if missing.error_kind() == ApiErrorKind::NotFound => return Err(error),
        Err(other) => return Err(other),
    };
    let parameters = PatchParams::default();
    let mut node = existing;
    if let Some(patch) = adopt(initial, &node) {
        Wire(node) = within(limit, nodes.patch(name, &parameters, &Patch::Strategic(patch))).await?;
    }
    if let Some(patch) = without_devices(&node).filter(|_| former_devices.may_exist()) {
        Wire(node) = within(limit, nodes.patch_status(name, &parameters, &Patch::Strategic(patch))).await?;
        tracing::info!(node = name, "set the extended resources of a former kubelet to zero");
    }
    former_devices.forget();
    Ok(Registered::Adopted(node))
}

//! Files in projected volumes that belong to somebody: tokens, trust anchors and certificates of the pod's service account. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::keys::Defaults;
use crate::files::File;
use crate::model::Context;

/// Mode of a file that belongs to a user or a group: no one else may read it.
const OWNED_MODE: u32 = 0o600;

/// A file that only its owner may read: the user of the source, of the volume, or of all containers. Without an owner, and without a
/// group of the volume, everybody may who may by the volume's mode.
pub(super) fn owned_file(
    data: Vec<u8>,
    user: Option<i64>,
    defaults: Defaults,
    context: &Context<'_>,
) -> File {
    let uid = defaults.uid(user).or_else(|| common_user(context.pod));
    let mode = if uid.is_some() || context.group().is_some() { OWNED_MODE } else { defaults.mode(None) };
    File { data, mode, uid }
}

/// The user that all containers run as, if it is the same.
fn common_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let of = |container: &Container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(of_pod)
    };
    let mut users = spec.init_containers.iter().flatten().chain(&spec.containers).map(of);
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok()).flatten()
}

/// Name of the pod's service account.
pub(super) fn service_account(pod: &Pod) -> String {
    let name = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
    name.unwrap_or_default()
}

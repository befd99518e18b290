//! The SELinux label that a PersistentVolume is mounted with, so that its files need no labels of their own (upstream
//! `GetMountSELinuxLabel`). Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, SELinuxOptions, SecurityContext, VolumeMount};

use super::csi_driver::Driver;
use crate::model::{Context, Persistent};

/// The containers of a pod use a volume with these labels. The wording is upstream's.
#[derive(Debug, thiserror::Error)]
#[error("multiple SELinux labels found: {0}")]
pub(super) struct MultipleLabels(String);

/// The label that a volume is mounted with for a pod; `None` if its files get labels. Fails if its containers have different ones.
pub(super) fn label(
    volume: &Persistent<'_>,
    driver: &str,
    context: &Context<'_>,
) -> Result<Option<String>, MultipleLabels> {
    let driver = Driver::of(driver, &context.snapshot.drivers);
    let security = context.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let policy = security.and_then(|security| security.se_linux_change_policy.as_deref());
    let (Some(file_label), false) = (context.file_label, volume.is_block) else { return Ok(None) };
    if !driver.has_labels() || policy == Some("Recursive") {
        return Ok(None);
    }
    let labels: BTreeSet<String> =
        options(context.pod, volume.volume).filter_map(|options| labelled(file_label, options)).collect();
    if labels.len() > 1 {
        return Err(MultipleLabels(Vec::from_iter(labels).join(",")));
    }
    Ok(labels.into_iter().next())
}

/// The options of the containers that mount the volume: their own, or those of the pod.
fn options<'a>(pod: &'a Pod, volume: &'a str) -> impl Iterator<Item = &'a SELinuxOptions> {
    type Part<'a> = (&'a Option<Vec<VolumeMount>>, &'a Option<SecurityContext>);
    let spec = pod.spec.as_ref();
    let of_pod = spec.and_then(|spec| spec.security_context.as_ref()?.se_linux_options.as_ref());
    let mut parts: Vec<Part<'a>> = Vec::new();
    if let Some(spec) = spec {
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        parts.extend(containers.map(|it| (&it.volume_mounts, &it.security_context)));
        let ephemeral = spec.ephemeral_containers.iter().flatten();
        parts.extend(ephemeral.map(|it| (&it.volume_mounts, &it.security_context)));
    }
    let mounts_it =
        move |mounts: &Option<Vec<VolumeMount>>| mounts.iter().flatten().any(|mount| mount.name == volume);
    parts.into_iter().filter(move |(mounts, _)| mounts_it(mounts)).filter_map(move |(_, security)| {
        security.as_ref().and_then(|security| security.se_linux_options.as_ref()).or(of_pod)
    })
}

/// The label of files for processes with these options: the host's, with their user and level. Without a level the runtime chooses one,
/// which is not known before, so that there is no label.
fn labelled(file_label: &str, options: &SELinuxOptions) -> Option<String> {
    let level = options.level.as_deref().filter(|level| !level.is_empty())?;
    let mut parts = file_label.splitn(4, ':');
    let (user, role, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let user = options.user.as_deref().filter(|user| !user.is_empty()).unwrap_or(user);
    Some(format!("{user}:{role}:{kind}:{level}"))
}

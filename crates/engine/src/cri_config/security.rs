//! Converts security contexts of pods and containers to the CRI (Kubernetes docs, "Configure a Security Context"). A container's
//! value overrides its pod's. Pure.

use std::path::Path;

use hostlet_pod::view::PodView;
use hostlet_runtime::cri::ImageInfo;
use hostlet_runtime::cri::wire::security_profile::ProfileType;
use hostlet_runtime::cri::wire::{
    Capability, Int64Value, LinuxContainerSecurityContext, NamespaceMode, NamespaceOption, SeLinuxOption,
    SecurityProfile, SupplementalGroupsPolicy, UserNamespace,
};
use k8s_openapi::api::core::v1::{
    AppArmorProfile, Capabilities, Container, SELinuxOptions, SeccompProfile, SecurityContext,
};

use super::{ConfigError, HostSettings};

/// Paths masked in containers, because they expose the host or other tenants.
pub const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Paths read-only in containers, because they are the host's.
pub const READONLY_PATHS: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];
/// Legacy annotation with a container's AppArmor profile, followed by the container's name.
const APPARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";

/// The user of a container's process if the pod does not set one.
enum ImageUser<'a> {
    Number(i64),
    Name(&'a str),
}

impl<'a> ImageUser<'a> {
    /// The image's user; root if it has none.
    fn of(image: &'a ImageInfo) -> Self {
        match image.uid {
            Some(uid) => Self::Number(uid),
            None if image.username.is_empty() => Self::Number(0),
            None => Self::Name(&image.username),
        }
    }
}

/// Security context of a container.
#[allow(deprecated, reason = "runtimes before containerd 1.7 read only the old form of the AppArmor profile")]
pub(super) fn container_context(
    pod: PodView<'_>,
    container: &Container,
    image: &ImageInfo,
    host: &HostSettings,
) -> Result<LinuxContainerSecurityContext, ConfigError> {
    let unset = SecurityContext::default();
    let own = container.security_context.as_ref().unwrap_or(&unset);
    let shared = pod.spec.security_context.as_ref();
    let image_user = ImageUser::of(image);
    let run_as_user = own.run_as_user.or(shared.and_then(|shared| shared.run_as_user));
    if own.run_as_non_root.or(shared.and_then(|shared| shared.run_as_non_root)).unwrap_or(false) {
        verify_non_root(pod, container, run_as_user, &image_user)?;
    }
    let (uid, username) = match (run_as_user, image_user) {
        (Some(uid), _) | (None, ImageUser::Number(uid)) => (Some(uid), String::new()),
        (None, ImageUser::Name(name)) => (None, name.to_owned()),
    };
    let seccomp = own.seccomp_profile.as_ref().or(shared.and_then(|shared| shared.seccomp_profile.as_ref()));
    let selinux =
        own.se_linux_options.as_ref().or(shared.and_then(|shared| shared.se_linux_options.as_ref()));
    let apparmor = apparmor_profile(pod, container)?;
    let unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    let (supplemental_groups, supplemental_groups_policy) = groups(pod)?;
    Ok(LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(capabilities),
        privileged: own.privileged.unwrap_or(false),
        namespace_options: Some(namespaces(pod)),
        selinux_options: selinux.map(selinux_options),
        run_as_user: uid.map(number),
        run_as_group: own.run_as_group.or(shared.and_then(|shared| shared.run_as_group)).map(number),
        run_as_username: username,
        readonly_rootfs: own.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups,
        supplemental_groups_policy,
        no_new_privs: own.allow_privilege_escalation == Some(false),
        masked_paths: if unmasked { Vec::new() } else { masked_paths(host) },
        readonly_paths: if unmasked { Vec::new() } else { READONLY_PATHS.map(String::from).to_vec() },
        seccomp: Some(seccomp_profile(seccomp, host)?),
        apparmor_profile: apparmor.as_ref().map(legacy_apparmor).unwrap_or_default(),
        apparmor,
        ..Default::default()
    })
}

/// Which namespaces are the pod's and which are the host's. A user namespace of the pod has no IDs yet, which runtimes reject.
pub(super) fn namespaces(pod: PodView<'_>) -> NamespaceOption {
    let shared_with_host =
        |shared: Option<bool>| if shared == Some(true) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let pid = match (pod.spec.host_pid, pod.spec.share_process_namespace) {
        (Some(true), _) => NamespaceMode::Node,
        (_, Some(true)) => NamespaceMode::Pod,
        _ => NamespaceMode::Container,
    };
    let users = match pod.spec.host_users {
        Some(false) => NamespaceMode::Pod,
        Some(true) | None => NamespaceMode::Node,
    };
    NamespaceOption {
        network: shared_with_host(pod.spec.host_network).into(),
        pid: pid.into(),
        ipc: shared_with_host(pod.spec.host_ipc).into(),
        target_id: String::new(),
        userns_options: Some(UserNamespace { mode: users.into(), ..Default::default() }),
    }
}

/// Supplementary groups of a pod's processes, and how they are merged with the image's.
pub(super) fn groups(pod: PodView<'_>) -> Result<(Vec<i64>, i32), ConfigError> {
    let Some(context) = &pod.spec.security_context else { return Ok((Vec::new(), 0)) };
    let groups =
        context.fs_group.iter().chain(context.supplemental_groups.iter().flatten()).copied().collect();
    let policy = match context.supplemental_groups_policy.as_deref() {
        None => SupplementalGroupsPolicy::Merge,
        Some(policy) => SupplementalGroupsPolicy::from_str_name(policy)
            .ok_or_else(|| ConfigError::SupplementalGroupsPolicy(policy.to_owned()))?,
    };
    Ok((groups, policy.into()))
}

/// SELinux options as in the CRI.
pub(super) fn selinux_options(options: &SELinuxOptions) -> SeLinuxOption {
    SeLinuxOption {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        r#type: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

/// A user or group ID as in the CRI, where 0 differs from unset.
pub(super) fn number(value: i64) -> Int64Value {
    Int64Value { value }
}

/// A profile without a file.
pub(super) fn profile(kind: ProfileType) -> SecurityProfile {
    SecurityProfile { profile_type: kind.into(), localhost_ref: String::new() }
}

fn verify_non_root(
    pod: PodView<'_>,
    container: &Container,
    run_as_user: Option<i64>,
    image_user: &ImageUser<'_>,
) -> Result<(), ConfigError> {
    let (pod, container) = (pod.describe(), container.name.clone());
    match (run_as_user, image_user) {
        (Some(0), _) => Err(ConfigError::RunAsUserIsRoot { pod, container }),
        (Some(_), _) => Ok(()),
        (None, ImageUser::Name(user)) => {
            Err(ConfigError::ImageUserNotNumeric { user: (*user).to_owned(), pod, container })
        }
        (None, ImageUser::Number(0)) => Err(ConfigError::ImageIsRoot { pod, container }),
        (None, ImageUser::Number(uid)) if !(0..=i64::from(i32::MAX)).contains(uid) => {
            Err(ConfigError::ImageUserInvalid { uid: *uid, pod, container })
        }
        (None, ImageUser::Number(_)) => Ok(()),
    }
}

fn capabilities(wanted: &Capabilities) -> Capability {
    Capability {
        add_capabilities: wanted.add.clone().unwrap_or_default(),
        drop_capabilities: wanted.drop.clone().unwrap_or_default(),
        ..Default::default()
    }
}

fn masked_paths(host: &HostSettings) -> Vec<String> {
    MASKED_PATHS.iter().map(ToString::to_string).chain(host.kernel.throttle_paths.iter().cloned()).collect()
}

fn seccomp_profile(
    wanted: Option<&SeccompProfile>,
    host: &HostSettings,
) -> Result<SecurityProfile, ConfigError> {
    let Some(wanted) = wanted else {
        let unset = if host.seccomp_default { ProfileType::RuntimeDefault } else { ProfileType::Unconfined };
        return Ok(profile(unset));
    };
    match wanted.type_.as_str() {
        "RuntimeDefault" => Ok(profile(ProfileType::RuntimeDefault)),
        "Localhost" => {
            let file = wanted.localhost_profile.as_deref().filter(|file| !file.is_empty());
            let file = Path::new("seccomp").join(file.ok_or(ConfigError::SeccompProfileMissing)?);
            let localhost_ref = host.root_dir.join(file).to_string_lossy().into_owned();
            Ok(SecurityProfile { profile_type: ProfileType::Localhost.into(), localhost_ref })
        }
        _ => Ok(profile(ProfileType::Unconfined)),
    }
}

/// The container's field, else the legacy annotation (in manifests, which no API server converts), else the pod's field.
fn apparmor_profile(pod: PodView<'_>, container: &Container) -> Result<Option<SecurityProfile>, ConfigError> {
    let own = container.security_context.as_ref().and_then(|own| own.app_armor_profile.clone());
    let shared = || pod.spec.security_context.as_ref()?.app_armor_profile.clone();
    let Some(wanted) = own.or_else(|| annotated_apparmor(pod, &container.name)).or_else(shared) else {
        return Ok(None);
    };
    match wanted.type_.as_str() {
        "RuntimeDefault" => Ok(Some(profile(ProfileType::RuntimeDefault))),
        "Unconfined" => Ok(Some(profile(ProfileType::Unconfined))),
        "Localhost" => {
            let localhost_ref = wanted.localhost_profile.ok_or(ConfigError::AppArmorProfileMissing)?;
            Ok(Some(SecurityProfile { profile_type: ProfileType::Localhost.into(), localhost_ref }))
        }
        unknown => Err(ConfigError::AppArmorProfileType(unknown.to_owned())),
    }
}

fn annotated_apparmor(pod: PodView<'_>, container: &str) -> Option<AppArmorProfile> {
    let value = pod.meta.annotations.as_ref()?.get(&format!("{APPARMOR_ANNOTATION}{container}"))?;
    let (type_, localhost_profile) = match value.as_str() {
        "runtime/default" => ("RuntimeDefault", None),
        "unconfined" => ("Unconfined", None),
        other => ("Localhost", Some(other.strip_prefix("localhost/")?.to_owned())),
    };
    Some(AppArmorProfile { type_: type_.to_owned(), localhost_profile })
}

/// The profile for runtimes from before the CRI's `apparmor` field.
fn legacy_apparmor(profile: &SecurityProfile) -> String {
    match profile.profile_type() {
        ProfileType::RuntimeDefault => "runtime/default".to_owned(),
        ProfileType::Unconfined => "unconfined".to_owned(),
        ProfileType::Localhost => format!("localhost/{}", profile.localhost_ref),
    }
}

#[cfg(test)]
#[path = "security_tests.rs"]
mod tests;

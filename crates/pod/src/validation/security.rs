//! Users, groups, privileges, seccomp and AppArmor profiles, sysctls, and host namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, PodSecurityContext, PodSpec, SeccompProfile, SecurityContext,
    WindowsSecurityContextOptions,
};

use super::{Errors, FieldError, FieldPath, list, names, one_of, required, text};

/// The profile types of seccomp and AppArmor.
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

pub(super) fn check_pod(spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    if spec.share_process_namespace.unwrap_or(false) && spec.host_pid.unwrap_or(false) {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(&path.child("shareProcessNamespace"), true, rule));
    }
    if spec.host_users == Some(false) {
        let shared =
            [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        for (field, _) in shared.into_iter().filter(|(_, set)| set.unwrap_or(false)) {
            errors.push(FieldError::forbidden(&path.child(field), "when `hostUsers` is false"));
        }
    }
    if let Some(context) = &spec.security_context {
        check_pod_context(context, spec, &path.child("securityContext"), errors);
    }
}

fn check_pod_context(context: &PodSecurityContext, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    check_id(context.run_as_user, &path.child("runAsUser"), errors);
    check_id(context.run_as_group, &path.child("runAsGroup"), errors);
    check_id(context.fs_group, &path.child("fsGroup"), errors);
    for (index, group) in list(&context.supplemental_groups).iter().enumerate() {
        check_id(Some(*group), &path.child("supplementalGroups").index(index), errors);
    }
    one_of(
        errors,
        &path.child("fsGroupChangePolicy"),
        context.fs_group_change_policy.as_deref(),
        &["Always", "OnRootMismatch"],
    );
    one_of(
        errors,
        &path.child("supplementalGroupsPolicy"),
        context.supplemental_groups_policy.as_deref(),
        &["Merge", "Strict"],
    );
    one_of(
        errors,
        &path.child("seLinuxChangePolicy"),
        context.se_linux_change_policy.as_deref(),
        &["MountOption", "Recursive"],
    );
    check_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    check_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
    check_sysctls(context, spec, &path.child("sysctls"), errors);
    check_windows_options(context.windows_options.as_ref(), spec, path, errors);
}

/// Without a named operating system, a pod may have options for Windows, which mean nothing on Linux.
fn check_windows_options(
    options: Option<&WindowsSecurityContextOptions>,
    spec: &PodSpec,
    path: &FieldPath,
    errors: &mut Errors,
) {
    if options.is_some() && spec.os.as_ref().is_some_and(|os| os.name == "linux") {
        let rule = "windows options cannot be set for a linux pod";
        errors.push(FieldError::forbidden(&path.child("windowsOptions"), rule));
    }
}

pub(super) fn check_container(
    context: &SecurityContext,
    spec: &PodSpec,
    path: &FieldPath,
    errors: &mut Errors,
) {
    check_id(context.run_as_user, &path.child("runAsUser"), errors);
    check_id(context.run_as_group, &path.child("runAsGroup"), errors);
    one_of(errors, &path.child("procMount"), context.proc_mount.as_deref(), &["Default", "Unmasked"]);
    if context.proc_mount.as_deref() == Some("Unmasked") && spec.host_users != Some(false) {
        let rule = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(&path.child("procMount"), "Unmasked", rule));
    }
    if context.allow_privilege_escalation == Some(false) {
        let path = path.child("allowPrivilegeEscalation");
        if context.privileged.unwrap_or(false) {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(FieldError::invalid(&path, false, rule));
        }
        let added =
            context.capabilities.as_ref().map(|capabilities| list(&capabilities.add)).unwrap_or_default();
        // With the prefix: that is the only spelling that the API server checks.
        if added.iter().any(|name| name == "CAP_SYS_ADMIN") {
            let rule = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(FieldError::invalid(&path, false, rule));
        }
    }
    check_seccomp(context.seccomp_profile.as_ref(), &path.child("seccompProfile"), errors);
    check_app_armor(context.app_armor_profile.as_ref(), &path.child("appArmorProfile"), errors);
    check_windows_options(context.windows_options.as_ref(), spec, path, errors);
}

/// Checks that user and group IDs fit 31 bits.
pub(super) fn check_id(id: Option<i64>, path: &FieldPath, errors: &mut Errors) {
    if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.push(FieldError::invalid(path, id, format!("must be between 0 and {}, inclusive", i32::MAX)));
    }
}

fn check_seccomp(profile: Option<&SeccompProfile>, path: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    check_profile(&profile.type_, profile.localhost_profile.as_deref(), "seccomp", path, errors);
    let local = text(&profile.localhost_profile);
    // The name is joined to the profile directory and must not leave it.
    if local.starts_with('/') {
        errors.push(FieldError::invalid(&path.child("localhostProfile"), local, "must be a relative path"));
    }
    if names::has_backsteps(local) {
        errors.push(FieldError::invalid(&path.child("localhostProfile"), local, "must not contain '..'"));
    }
}

fn check_app_armor(profile: Option<&AppArmorProfile>, path: &FieldPath, errors: &mut Errors) {
    let Some(profile) = profile else { return };
    check_profile(&profile.type_, profile.localhost_profile.as_deref(), "AppArmor", path, errors);
}

fn check_profile(kind: &str, local: Option<&str>, what: &str, path: &FieldPath, errors: &mut Errors) {
    if kind.is_empty() {
        let field = if what == "seccomp" { "seccompProfile" } else { "appArmorProfile" };
        let why = format!("type is required when {field} is set");
        errors.push(FieldError::required(&path.child("type"), &why));
        return;
    }
    one_of(errors, &path.child("type"), Some(kind), &PROFILE_TYPES);
    let local_path = path.child("localhostProfile");
    match (kind, local) {
        ("Localhost", None | Some("")) => {
            let why = format!("must be set when {what} type is Localhost");
            errors.push(FieldError::required(&local_path, &why));
        }
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(local)) => {
            let rule = format!("can only be set when {what} type is Localhost");
            errors.push(FieldError::invalid(&local_path, local, rule));
        }
    }
}

fn check_sysctls(context: &PodSecurityContext, spec: &PodSpec, path: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, sysctl) in list(&context.sysctls).iter().enumerate() {
        let path = path.index(index).child("name");
        if !required(errors, &path, &sysctl.name) {
            continue;
        }
        if !names::is_sysctl(&sysctl.name) {
            let rule = "must have at most 253 characters, and consist of lower case alphanumeric characters, '-' or \
                '_' in parts separated by '.' or '/'";
            errors.push(FieldError::invalid(&path, &sysctl.name, rule));
            continue;
        }
        let name = sysctl.name.replace('/', ".");
        if spec.host_network.unwrap_or(false) && name.starts_with("net.") {
            let rule = "may not be specified when 'hostNetwork' is true";
            errors.push(FieldError::invalid(&path, &sysctl.name, rule));
        }
        if spec.host_ipc.unwrap_or(false) && is_ipc_sysctl(&name) {
            let rule = "may not be specified when 'hostIPC' is true";
            errors.push(FieldError::invalid(&path, &sysctl.name, rule));
        }
        if !taken.insert(name) {
            errors.push(FieldError::duplicate(&path, &sysctl.name));
        }
    }
}

/// The sysctls of an IPC namespace.
fn is_ipc_sysctl(name: &str) -> bool {
    name == "kernel.sem"
        || ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|prefix| name.starts_with(prefix))
}

//! Tests of the security contexts.

use serde_json::{Value, json};

use super::*;
use crate::cri_config::testing::{host, pod};

fn context(spec: Value, own: Value, image: &ImageInfo) -> Result<LinuxContainerSecurityContext, ConfigError> {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "securityContext": own}]);
    let pod = pod(spec);
    container_context((&pod).into(), &pod.spec.as_ref().unwrap().containers[0], image, &host())
}

fn image(uid: Option<i64>, username: &str) -> ImageInfo {
    ImageInfo { uid, username: username.into(), ..Default::default() }
}

fn user(context: &LinuxContainerSecurityContext) -> Option<i64> {
    context.run_as_user.as_ref().map(|user| user.value)
}

#[test]
fn a_container_wins_over_its_pod_and_the_image_comes_last() {
    let shared =
        json!({"securityContext": {"runAsUser": 1, "runAsGroup": 2, "seLinuxOptions": {"level": "s0"}}});
    let own = context(
        shared.clone(),
        json!({"runAsUser": 5, "seLinuxOptions": {"type": "t"}}),
        &image(Some(9), ""),
    )
    .unwrap();
    assert_eq!((user(&own), own.run_as_group.unwrap().value), (Some(5), 2));
    assert_eq!(own.selinux_options.unwrap(), SeLinuxOption { r#type: "t".into(), ..Default::default() });
    let inherited = context(shared, json!({}), &image(Some(9), "")).unwrap();
    assert_eq!(user(&inherited), Some(1));

    assert_eq!(user(&context(json!({}), json!({}), &image(Some(9), "")).unwrap()), Some(9));
    assert_eq!(user(&context(json!({}), json!({}), &image(None, "")).unwrap()), Some(0));
    let named = context(json!({}), json!({}), &image(None, "nobody")).unwrap();
    assert_eq!((user(&named), named.run_as_username.as_str()), (None, "nobody"));
}

#[test]
fn non_root_is_verified_with_upstreams_messages() {
    let refused = |own: Value, image: &ImageInfo| context(json!({}), own, image).unwrap_err().to_string();
    let non_root = || json!({"runAsNonRoot": true});
    assert_eq!(
        refused(json!({"runAsNonRoot": true, "runAsUser": 0}), &image(Some(5), "")),
        "container's runAsUser breaks non-root policy (pod: \"web_ns(uid-1)\", container: c)"
    );
    assert_eq!(
        refused(non_root(), &image(None, "")),
        "container has runAsNonRoot and image will run as root (pod: \"web_ns(uid-1)\", container: c)"
    );
    assert_eq!(
        refused(non_root(), &image(None, "app")),
        "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: \"web_ns(uid-1)\", container: c)"
    );
    assert_eq!(
        refused(non_root(), &image(Some(1 << 31), "")),
        "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: \"web_ns(uid-1)\", container: c)"
    );
    assert!(context(json!({}), non_root(), &image(Some(1), "")).is_ok());
    assert!(context(json!({}), json!({"runAsNonRoot": true, "runAsUser": 7}), &image(None, "app")).is_ok());
    let pod_wide = json!({"securityContext": {"runAsNonRoot": true}});
    assert!(context(pod_wide.clone(), json!({}), &image(Some(0), "")).is_err());
    assert!(context(pod_wide, json!({"runAsNonRoot": false}), &image(Some(0), "")).is_ok());
}

#[test]
fn flags_capabilities_and_paths() {
    let strict = json!({
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "privileged": false
    });
    let strict = context(json!({}), strict, &image(Some(1), "")).unwrap();
    assert_eq!(strict.capabilities.as_ref().unwrap().add_capabilities, ["NET_ADMIN"]);
    assert_eq!(strict.capabilities.as_ref().unwrap().drop_capabilities, ["ALL"]);
    assert!(strict.readonly_rootfs && strict.no_new_privs && !strict.privileged);
    assert_eq!(strict.masked_paths, MASKED_PATHS);
    assert_eq!(strict.readonly_paths, READONLY_PATHS);

    let loose = context(json!({}), json!({"privileged": true, "procMount": "Unmasked"}), &image(Some(1), ""))
        .unwrap();
    assert!(loose.privileged && !loose.no_new_privs && loose.capabilities.is_none());
    assert!(loose.masked_paths.is_empty() && loose.readonly_paths.is_empty());
}

#[test]
fn thermal_throttling_is_masked_if_present() {
    let mut host = host();
    host.kernel.throttle_paths = vec!["/sys/devices/system/cpu/cpu0/thermal_throttle".into()];
    assert_eq!(masked_paths(&host).last().unwrap(), "/sys/devices/system/cpu/cpu0/thermal_throttle");
}

#[test]
fn seccomp_profiles() {
    let seccomp = |spec: Value, own: Value| {
        context(spec, own, &image(Some(1), "")).map(|context| context.seccomp.unwrap())
    };
    let runtime_default = || json!({"seccompProfile": {"type": "RuntimeDefault"}});
    assert_eq!(seccomp(json!({}), json!({})).unwrap(), profile(ProfileType::Unconfined));
    let inherited = seccomp(json!({"securityContext": runtime_default()}), json!({})).unwrap();
    assert_eq!(inherited, profile(ProfileType::RuntimeDefault));
    let own = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "p/a.json"}});
    let own = seccomp(json!({"securityContext": runtime_default()}), own).unwrap();
    assert_eq!(own.profile_type(), ProfileType::Localhost);
    assert_eq!(own.localhost_ref, "/var/lib/kubelet/seccomp/p/a.json");
    let missing = seccomp(json!({}), json!({"seccompProfile": {"type": "Localhost"}})).unwrap_err();
    assert_eq!(missing, ConfigError::SeccompProfileMissing);
    let strict = HostSettings { seccomp_default: true, ..host() };
    assert_eq!(seccomp_profile(None, &strict).unwrap(), profile(ProfileType::RuntimeDefault));
}

#[test]
#[allow(deprecated, reason = "the old form is still sent")]
fn apparmor_profiles() {
    let of = |annotation: Option<&str>, pod_wide: Value, own: Value| {
        let mut pod = pod(json!({
            "securityContext": pod_wide,
            "containers": [{"name": "c", "securityContext": own}]
        }));
        let annotations = pod.metadata.annotations.as_mut().unwrap();
        annotations.extend(annotation.map(|value| (format!("{APPARMOR_ANNOTATION}c"), value.to_owned())));
        let container = &pod.spec.as_ref().unwrap().containers[0];
        container_context((&pod).into(), container, &image(Some(1), ""), &host()).map(|context| {
            context.apparmor.map(|apparmor| (apparmor.profile_type(), context.apparmor_profile))
        })
    };
    let kind = |kind: &str| json!({"appArmorProfile": {"type": kind, "localhostProfile": "mine"}});
    assert_eq!(of(None, json!({}), json!({})).unwrap(), None);
    let localhost = Some((ProfileType::Localhost, "localhost/mine".to_owned()));
    assert_eq!(of(None, kind("Localhost"), json!({})).unwrap(), localhost);
    assert_eq!(of(Some("localhost/mine"), kind("Unconfined"), json!({})).unwrap(), localhost);
    let runtime = Some((ProfileType::RuntimeDefault, "runtime/default".to_owned()));
    assert_eq!(of(Some("unconfined"), json!({}), kind("RuntimeDefault")).unwrap(), runtime);
    assert_eq!(of(Some("nonsense"), json!({}), json!({})).unwrap(), None);
    let missing = json!({"appArmorProfile": {"type": "Localhost"}});
    assert_eq!(of(None, missing, json!({})), Err(ConfigError::AppArmorProfileMissing));
    assert_eq!(of(None, kind("X"), json!({})), Err(ConfigError::AppArmorProfileType("X".into())));
}

#[test]
fn namespaces_and_groups() {
    let options = |spec: Value| {
        let options = namespaces((&pod(spec)).into());
        (options.network(), options.pid(), options.ipc())
    };
    use NamespaceMode::{Container, Node, Pod};
    assert_eq!(options(json!({"containers": []})), (Pod, Container, Pod));
    assert_eq!(
        options(json!({"containers": [], "hostNetwork": true, "hostPID": true, "hostIPC": true})),
        (Node, Node, Node)
    );
    assert_eq!(options(json!({"containers": [], "shareProcessNamespace": true})).1, Pod);

    let with = |policy: &str| {
        let context = json!({"fsGroup": 1, "supplementalGroups": [2, 3], "supplementalGroupsPolicy": policy});
        groups((&pod(json!({"containers": [], "securityContext": context}))).into())
    };
    assert_eq!(with("Strict").unwrap(), (vec![1, 2, 3], SupplementalGroupsPolicy::Strict.into()));
    assert_eq!(with("Odd"), Err(ConfigError::SupplementalGroupsPolicy("Odd".into())));
}

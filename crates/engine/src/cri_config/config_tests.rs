//! The container configuration; the first test compares all of it with that of a stock kubelet 1.36.

use std::collections::HashMap;
use std::sync::Arc;

use hostlet_pod::objects::{Object, ObjectRef, ObjectState};
use hostlet_resources::GrantedCpus;
use hostlet_runtime::cri::wire::{
    Capability, HugepageLimit, Int64Value, LinuxContainerResources, LinuxContainerSecurityContext,
    NamespaceMode, NamespaceOption, UserNamespace,
};
use serde_json::json;

use super::*;
use crate::cri_config::testing::{FULL_UID, full_pod, host, pod};

const IMAGE_ID: &str = "sha256:0753620345a0388e82baec3fb6cc933c012e715d92851a7e2830227219857aa1";

fn image() -> ImageInfo {
    ImageInfo { id: IMAGE_ID.into(), uid: Some(0), ..Default::default() }
}

/// The sources on a host without Services.
fn no_services() -> EnvSources<'static> {
    EnvSources { services: Some(Default::default()), ..EnvSources::default() }
}

/// What a start finds and prepares.
struct Found<'a> {
    host: HostSettings,
    image: ImageInfo,
    env: EnvSources<'a>,
    sandbox: PodSandboxConfig,
}

impl<'a> Found<'a> {
    fn with(env: EnvSources<'a>) -> Self {
        Self { host: host(), image: image(), env, sandbox: PodSandboxConfig::default() }
    }

    /// The input for the first start of the pod's first container, to which nothing is given.
    fn input<'i>(&'i self, pod: &'i Pod) -> ContainerInput<'i> {
        ContainerInput {
            pod,
            container: &pod.spec.as_ref().unwrap().containers[0],
            host: &self.host,
            attempt: 0,
            image: &self.image,
            env: &self.env,
            sandbox: &self.sandbox,
            target: None,
            extras: ContainerExtras::default(),
        }
    }
}

fn texts(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(String::from).to_vec()
}

#[test]
fn what_was_granted_comes_first_and_the_pods_and_the_kubelets_own_override_it() {
    let grant = ContainerGrant {
        devices: vec![GrantedDevice {
            host_path: "/dev/gpu3".into(),
            container_path: "/dev/gpu0".into(),
            permissions: "rw".into(),
        }],
        mounts: vec![GrantedMount {
            host_path: "/opt/lib".into(),
            container_path: "/usr/lib/gpu".into(),
            read_only: true,
        }],
        env: [("GREETING", "granted"), ("GPU", "3")].map(|(k, v)| (k.into(), v.into())).into(),
        annotations: [("vendor.com/gpu", "3"), ("io.kubernetes.container.restartCount", "9")]
            .map(|(k, v)| (k.into(), v.into()))
            .into(),
        cdi_devices: vec!["vendor.com/gpu=3".into()],
        cpus: Some(GrantedCpus { list: "2-3".into(), are_exclusive: true }),
        memory_nodes: Some("0".into()),
    };
    let mut pod = full_pod();
    pod.spec.as_mut().unwrap().containers[0].args = Some(words(["$(GPU)"]));
    let found = Found::with(EnvSources { granted: grant.env.clone(), ..no_services() });
    let volume = Device { container_path: "/dev/block".into(), ..Device::default() };
    let mount = Mount { container_path: "/etc/hosts".into(), ..Mount::default() };
    let extras =
        ContainerExtras { mounts: vec![mount], devices: vec![volume], grant, ..ContainerExtras::default() };
    let config = container_config(ContainerInput { extras, ..found.input(&pod) }).unwrap();
    let devices = config.devices.iter().map(|it| [&*it.host_path, &*it.container_path, &*it.permissions]);
    assert_eq!(devices.collect::<Vec<_>>(), [["/dev/gpu3", "/dev/gpu0", "rw"], ["", "/dev/block", ""]]);
    let mounts = config.mounts.iter().map(|it| (&*it.host_path, &*it.container_path, it.readonly));
    assert_eq!(mounts.collect::<Vec<_>>(), [("/opt/lib", "/usr/lib/gpu", true), ("", "/etc/hosts", false)]);
    let cdi: Vec<_> = config.cdi_devices.iter().map(|it| &*it.name).collect();
    assert_eq!(cdi, ["vendor.com/gpu=3"]);
    let value = |name: &str| {
        let found = config.envs.iter().find(|variable| variable.key == name).unwrap();
        String::from_utf8(found.value.clone()).unwrap()
    };
    assert_eq!([value("GPU"), value("GREETING")], ["3", "hi $(POD)"]);
    assert_eq!(config.args, ["3"]);
    let resources = config.linux.unwrap().resources.unwrap();
    assert_eq!([&*resources.cpuset_cpus, &*resources.cpuset_mems], ["2-3", "0"]);
    assert_eq!(resources.cpu_quota, -1, "its CPUs are its own");
    assert_eq!(config.annotations["vendor.com/gpu"], "3");
    assert_eq!(config.annotations["io.kubernetes.container.restartCount"], "0");
}

#[test]
fn equals_the_stock_kubelets() {
    let mounts = vec![
        Mount {
            container_path: "/etc/hosts".into(),
            host_path: format!("/var/lib/kubelet/pods/{FULL_UID}/etc-hosts"),
            ..Default::default()
        },
        Mount {
            container_path: "/dev/termination-log".into(),
            host_path: format!("/var/lib/kubelet/pods/{FULL_UID}/containers/main/13d963d7"),
            ..Default::default()
        },
    ];
    let pod = full_pod();
    let ips = ["10.88.7.89".parse().unwrap()];
    let found = Found::with(EnvSources { pod_ips: &ips, ..no_services() });
    let extras = ContainerExtras { mounts: mounts.clone(), ..ContainerExtras::default() };
    let config = container_config(ContainerInput { extras, ..found.input(&pod) }).unwrap();
    let variable = |key: &str, value: &str| KeyValue { key: key.into(), value: value.into() };
    let expected = ContainerConfig {
        metadata: Some(ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: Some(ImageSpec {
            image: IMAGE_ID.into(),
            user_specified_image: "registry.k8s.io/e2e-test-images/busybox:1.37.0-1".into(),
            ..Default::default()
        }),
        command: words(["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 0.2; done"]),
        args: words(["hi $(POD)", "$(ESC)"]),
        envs: vec![variable("GREETING", "hi $(POD)"), variable("POD", "full")],
        mounts,
        labels: texts(&[
            ("io.kubernetes.container.name", "main"),
            ("io.kubernetes.pod.name", "full"),
            ("io.kubernetes.pod.namespace", "demo"),
            ("io.kubernetes.pod.uid", FULL_UID),
        ]),
        annotations: texts(&[
            ("io.kubernetes.container.hash", "a785d335"),
            (
                "io.kubernetes.container.ports",
                r#"[{"name":"http","containerPort":80,"protocol":"TCP"},{"hostPort":5353,"containerPort":53,"protocol":"UDP"}]"#,
            ),
            ("io.kubernetes.container.preStopHandler", r#"{"exec":{"command":["true"]}}"#),
            ("io.kubernetes.container.restartCount", "0"),
            ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log"),
            ("io.kubernetes.container.terminationMessagePolicy", "File"),
            ("io.kubernetes.pod.terminationGracePeriod", "5"),
        ]),
        log_path: "main/0.log".into(),
        linux: Some(LinuxContainerConfig {
            resources: Some(LinuxContainerResources {
                cpu_period: 100_000,
                cpu_quota: 25_000,
                cpu_shares: 102,
                memory_limit_in_bytes: 67_108_864,
                memory_swap_limit_in_bytes: 67_108_864,
                oom_score_adj: 997,
                hugepage_limits: vec![
                    HugepageLimit { page_size: "2MB".into(), limit: 0 },
                    HugepageLimit { page_size: "1GB".into(), limit: 0 },
                ],
                ..Default::default()
            }),
            security_context: Some(LinuxContainerSecurityContext {
                capabilities: Some(Capability {
                    add_capabilities: words(["NET_ADMIN"]),
                    drop_capabilities: words(["ALL"]),
                    ..Default::default()
                }),
                masked_paths: words([
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
                ]),
                namespace_options: Some(NamespaceOption {
                    pid: NamespaceMode::Container.into(),
                    userns_options: Some(UserNamespace {
                        mode: NamespaceMode::Node.into(),
                        ..Default::default()
                    }),
                    ..Default::default()
                }),
                no_new_privs: true,
                readonly_paths: words([
                    "/proc/bus",
                    "/proc/fs",
                    "/proc/irq",
                    "/proc/sys",
                    "/proc/sysrq-trigger",
                ]),
                readonly_rootfs: true,
                run_as_group: Some(Int64Value { value: 2000 }),
                run_as_user: Some(Int64Value { value: 1000 }),
                seccomp: Some(Default::default()),
                supplemental_groups: vec![3000, 4000],
                ..Default::default()
            }),
        }),
        ..Default::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn the_streams_the_working_directory_and_the_attempt_are_passed_on() {
    let container =
        json!({"name": "c", "image": "i", "stdin": true, "stdinOnce": true, "tty": true, "workingDir": "/w"});
    let pod = pod(json!({"containers": [container]}));
    let found = Found::with(no_services());
    let config = container_config(ContainerInput { attempt: 7, ..found.input(&pod) }).unwrap();
    assert!(config.stdin && config.stdin_once && config.tty);
    assert_eq!((config.working_dir.as_str(), config.log_path.as_str()), ("/w", "c/7.log"));
    assert_eq!(config.metadata.unwrap().attempt, 7);
    assert!(config.command.is_empty() && config.args.is_empty() && config.envs.is_empty());
}

/// The configuration of the only container of a pod with this spec.
fn config_of(spec: serde_json::Value, env: EnvSources<'_>) -> Result<ContainerConfig, ConfigError> {
    container_config(Found::with(env).input(&pod(spec)))
}

#[test]
fn only_private_pid_namespaces_are_replaced_by_the_targets() {
    for (spec, expected) in [
        (json!({}), NamespaceMode::Target),
        (json!({"shareProcessNamespace": true}), NamespaceMode::Pod),
        (json!({"hostPID": true}), NamespaceMode::Node),
    ] {
        let mut spec = spec;
        spec["containers"] = json!([{"name": "debugger", "image": "i"}]);
        let (pod, found, target) = (pod(spec), Found::with(no_services()), "app".into());
        let input = ContainerInput { target: Some(&target), ..found.input(&pod) };
        let config = container_config(input).unwrap();
        let options = config.linux.unwrap().security_context.unwrap().namespace_options.unwrap();
        let target = if expected == NamespaceMode::Target { "app" } else { "" };
        assert_eq!((options.pid(), options.target_id.as_str()), (expected, target));
    }
}

#[test]
fn bytes_of_a_secret_reach_the_environment_but_no_argument() {
    let secret = Object { binary: [("k".to_owned(), vec![0xff])].into(), ..Object::default() };
    let objects = [(ObjectRef::secret("s", "ns"), ObjectState::Found(Arc::new(secret)))];
    let env = EnvSources { objects: objects.into(), ..no_services() };
    let config = |args: &[&str]| {
        let key = json!({"secretKeyRef": {"name": "s", "key": "k"}});
        let variables = json!([{"name": "K", "valueFrom": key}]);
        config_of(json!({"containers": [{"name": "c", "args": args, "env": variables}]}), env.clone())
    };
    assert_eq!(config(&["$$(K)"]).unwrap().envs, [KeyValue { key: "K".into(), value: vec![0xff] }]);
    let error = config(&["--key=$(K)"]).unwrap_err();
    assert_eq!(error.to_string(), "\"--key=$(K)\" refers to a variable whose value is not UTF-8");
}

#[test]
fn a_container_never_starts_without_its_volumes() {
    let pod = pod(json!({"containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}));
    let found = Found::with(no_services());
    let config = |mounts| {
        let extras = ContainerExtras { mounts, ..ContainerExtras::default() };
        container_config(ContainerInput { extras, ..found.input(&pod) })
    };
    assert_eq!(
        config(Vec::new()).unwrap_err().to_string(),
        "cannot find volume \"v\" to mount into container \"c\""
    );
    assert!(config(vec![Mount { container_path: "/v".into(), ..Default::default() }]).is_ok());
}

#[test]
fn a_stop_signal_is_sent_with_its_feature_gate() {
    let pod = pod(json!({"containers": [
        {"name": "c", "image": "img", "lifecycle": {"stopSignal": "SIGRTMIN+3"}},
        {"name": "d", "image": "img", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
    ]}));
    let containers = &pod.spec.as_ref().unwrap().containers;
    let signal = |container, stop_signals| {
        let host = HostSettings { stop_signals, ..host() };
        let found = Found { host, ..Found::with(no_services()) };
        container_config(ContainerInput { container, ..found.input(&pod) }).unwrap().stop_signal
    };
    assert_eq!(signal(&containers[0], true), 38);
    assert_eq!((signal(&containers[0], false), signal(&containers[1], true)), (0, 0));
}

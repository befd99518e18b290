//! Tests of the rules.

use serde_json::{Value, json};

use super::validate;
use crate::defaults::{Membership, set_defaults};
use crate::wire::KubeletConfiguration;

fn breaches(set: Value) -> Vec<String> {
    let mut kc: KubeletConfiguration = serde_json::from_value(set).unwrap();
    set_defaults(&mut kc, Membership::Alone);
    validate(&kc).into_iter().map(|(path, message)| format!("{path}: {message}")).collect()
}

#[test]
fn the_defaults_break_no_rule() {
    assert_eq!(breaches(json!({})), Vec::<String>::new());
}

#[test]
fn each_rule_has_its_breach() {
    for (set, breach) in [
        (json!({"port": 70000}), "port: 70000 must be between 1 and 65535"),
        (json!({"readOnlyPort": 10250}), "readOnlyPort: must not be the same as port"),
        (json!({"healthzPort": -1}), "healthzPort: -1 must be between 0 and 65535"),
        (
            json!({"tracing": {"samplingRatePerMillion": 1_000_001}}),
            "tracing.samplingRatePerMillion: 1000001 must be between 0 and 1000000",
        ),
        (
            json!({"tracing": {"endpoint": "http://a:4317"}}),
            "tracing.endpoint: unsupported scheme http; options are none, dns, unix, or unix-abstract",
        ),
        (json!({"oomScoreAdj": -1001}), "oomScoreAdj: -1001 must be between -1000 and 1000"),
        (json!({"nodeLeaseDurationSeconds": -1}), "nodeLeaseDurationSeconds: -1 must be 1 or more"),
        (json!({"maxPods": -1}), "maxPods: -1 must be 0 or more"),
        (json!({"syncFrequency": "-1s"}), "syncFrequency: -1s must not be negative"),
        (json!({"memoryThrottlingFactor": 1.5}), "memoryThrottlingFactor: 1.5 must be above 0 and at most 1"),
        (
            json!({"memoryThrottlingFactor": 0.8, "featureGates": {"MemoryQoS": false}}),
            "memoryThrottlingFactor: needs the feature gate MemoryQoS",
        ),
        (
            json!({"cpuCFSQuotaPeriod": "10ms", "featureGates": {"CustomCPUCFSQuotaPeriod": false}}),
            "cpuCFSQuotaPeriod: 10ms needs the feature gate CustomCPUCFSQuotaPeriod",
        ),
        (json!({"cpuCFSQuotaPeriod": "2s"}), "cpuCFSQuotaPeriod: 2s must be between 1ms and 1s"),
        (
            json!({"crashLoopBackOff": {"maxContainerRestartPeriod": "6m"}}),
            "crashLoopBackOff.maxContainerRestartPeriod: 6m0s must be between 1s and 300s",
        ),
        (
            json!({"containerRuntimeEndpoint": "tcp://127.0.0.1:1"}),
            "containerRuntimeEndpoint: \"tcp://127.0.0.1:1\" is not a unix socket; write it like \
             \"unix:///run/containerd/containerd.sock\"",
        ),
        (
            json!({"imageGCLowThresholdPercent": 85}),
            "imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent",
        ),
        (json!({"imageMaximumGCAge": "1m"}), "imageMaximumGCAge: 1m0s must be above imageMinimumGCAge, 2m0s"),
        (
            json!({"serializeImagePulls": true, "maxParallelImagePulls": 3}),
            "maxParallelImagePulls: cannot be above 1 while serializeImagePulls is true",
        ),
        (
            json!({"preloadedImagesVerificationAllowlist": ["a"]}),
            "preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: \
             NeverVerifyAllowlistedImages",
        ),
        (json!({"podLogsDir": "logs"}), "podLogsDir: \"logs\" must be an absolute path"),
        (
            json!({"podLogsDir": "/a/../b"}),
            "podLogsDir: \"/a/../b\" must not contain . or .., or redundant slashes",
        ),
        (
            json!({"podLogsDir": "/a/./b"}),
            "podLogsDir: \"/a/./b\" must not contain . or .., or redundant slashes",
        ),
        (json!({"podLogsDir": "/é"}), "podLogsDir: \"/é\" must be plain ASCII"),
        (json!({"podLogsDir": "/a:b"}), "podLogsDir: \"/a:b\" must not contain a colon"),
        (json!({"containerLogMaxFiles": 1}), "containerLogMaxFiles: 1 must be 2 or more"),
        (json!({"containerLogMonitorInterval": "2s"}), "containerLogMonitorInterval: must be 3s or more"),
        (
            json!({"enforceNodeAllocatable": ["pods", "none"]}),
            "enforceNodeAllocatable: \"none\" cannot be combined with others",
        ),
        (
            json!({"enforceNodeAllocatable": ["kube-reserved"]}),
            "enforceNodeAllocatable: \"kube-reserved\" needs kubeReservedCgroup",
        ),
        (
            json!({"cgroupsPerQOS": false}),
            "enforceNodeAllocatable: \"pods\" needs cgroupsPerQOS: true; set enforceNodeAllocatable: [none]",
        ),
        (
            json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "0"}}]}),
            "reservedMemory[0].limits.memory: must not be zero",
        ),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"}}),
            "evictionSoft.memory.available: needs an entry in evictionSoftGracePeriod",
        ),
        (
            json!({"evictionMinimumReclaim": {"memory.available": "-1Gi"}}),
            "evictionMinimumReclaim.memory.available: \"-1Gi\" must not be negative",
        ),
        (
            json!({"evictionMinimumReclaim": {"nodefs.available": "0%"}}),
            "evictionMinimumReclaim.nodefs.available: \"0%\" must be above zero",
        ),
        (
            json!({"evictionMinimumReclaim": {"memory": "1Gi"}}),
            "evictionMinimumReclaim.memory: must be one of memory.available, allocatableMemory.available, \
             nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, containerfs.available, \
             containerfs.inodesFree, pid.available",
        ),
        (
            json!({"evictionSoftGracePeriod": {"memory.available": "-5s"}}),
            "evictionSoftGracePeriod.memory.available: -5s must not be negative",
        ),
        (json!({"evictionMaxPodGracePeriod": -1}), "evictionMaxPodGracePeriod: -1 must be 0 or more"),
        (json!({"shutdownGracePeriod": "500ms"}), "shutdownGracePeriod: 500ms must be zero, or 1s or more"),
        (
            json!({"shutdownGracePeriod": "5s", "shutdownGracePeriodCriticalPods": "6s"}),
            "shutdownGracePeriodCriticalPods: must not be above shutdownGracePeriod",
        ),
        (
            json!({"shutdownGracePeriod": "5s", "featureGates": {"GracefulNodeShutdown": false,
                "GracefulNodeShutdownBasedOnPodPriority": false, "WindowsGracefulNodeShutdown": false}}),
            "shutdownGracePeriod: needs the feature gate GracefulNodeShutdown",
        ),
        (
            json!({"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 5}],
                "featureGates": {"GracefulNodeShutdownBasedOnPodPriority": false}}),
            "shutdownGracePeriodByPodPriority: needs the feature gate GracefulNodeShutdownBasedOnPodPriority",
        ),
        (
            json!({"shutdownGracePeriod": "5s",
                "shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 5}]}),
            "shutdownGracePeriodByPodPriority: cannot be combined with shutdownGracePeriod",
        ),
        (
            json!({"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": -1}]}),
            "shutdownGracePeriodByPodPriority[0].shutdownGracePeriodSeconds: -1 must be 0 or more",
        ),
        (
            json!({"shutdownGracePeriodByPodPriority": [{"priority": 7, "shutdownGracePeriodSeconds": 1},
                {"priority": 7, "shutdownGracePeriodSeconds": 2}]}),
            "shutdownGracePeriodByPodPriority[1].priority: 7 is listed twice; remove one of the two",
        ),
        (json!({"systemCgroups": "/system"}), "systemCgroups: needs cgroupRoot"),
        (
            json!({"systemCgroups": "/", "cgroupRoot": "/"}),
            "systemCgroups: cannot be the root; name a cgroup, such as /system",
        ),
        (json!({"runOnce": true}), "runOnce: is no longer supported; remove it"),
        (
            json!({"memoryReservationPolicy": "TieredReservation", "featureGates": {"MemoryQoS": false}}),
            "memoryReservationPolicy: TieredReservation needs the feature gate MemoryQoS",
        ),
        (
            json!({"allowedUnsafeSysctls": ["net.*", "vm.swappiness"]}),
            "allowedUnsafeSysctls[1]: \"vm.swappiness\" is not namespaced; setting it in one pod would change the host",
        ),
        (
            json!({"featureGates": {"CustomCPUCFSQuotaPriod": true}}),
            "featureGates.CustomCPUCFSQuotaPriod: there is no such feature gate (did you mean \
             \"CustomCPUCFSQuotaPeriod\"?)",
        ),
        (
            json!({"featureGates": {"ImageVolume": false}}),
            "featureGates.ImageVolume: cannot be set to false, the feature is locked to true",
        ),
        (
            json!({"featureGates": {"ContainerRestartRules": false}}),
            "featureGates.RestartAllContainersOnContainerExits: is on, but needs ContainerRestartRules; switch that \
             on, or this off",
        ),
    ] {
        assert_eq!(breaches(set.clone()), [breach], "{set}");
    }
}

#[test]
fn all_breaches_are_reported_at_once() {
    let found =
        breaches(json!({"port": -1, "maxPods": -5, "podLogsDir": "", "runOnce": true, "cgroupRoot": ""}));
    assert_eq!(found.len(), 3, "{found:?}");
}

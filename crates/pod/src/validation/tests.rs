//! Pods with one error each, and the resulting messages.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{ObjectReferences, unsupported, validate, validate_static};
use crate::defaults::set_defaults;

fn pod_of(metadata: Value, spec: Value) -> Pod {
    let mut pod: Pod = serde_json::from_value(
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
    )
    .unwrap();
    set_defaults(&mut pod);
    pod
}

/// A valid pod with the fields of `spec` replaced.
fn pod(spec: Value) -> Pod {
    let mut whole = json!({"containers": [{"name": "c", "image": "a:1"}]});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    pod_of(json!({"name": "web", "namespace": "default"}), whole)
}

/// As [`pod`], with `fields` of its only container replaced.
fn container(fields: Value) -> Pod {
    let mut container = json!({"name": "c", "image": "a:1"});
    for (key, value) in fields.as_object().unwrap() {
        container[key] = value.clone();
    }
    pod(json!({"containers": [container]}))
}

#[track_caller]
fn assert_errors(pod: &Pod, expected: &[&str]) {
    let errors: Vec<String> = validate(pod).iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.starts_with(expected), "{error}\nis not\n{expected}");
    }
}

#[track_caller]
fn not_served(pod: &Pod, expected: &[&str]) {
    assert_eq!(validate(pod), Vec::new());
    let errors: Vec<String> = unsupported(pod).into_iter().map(|error| error.path).collect();
    assert_eq!(errors, expected);
}

#[test]
fn a_full_good_pod_passes() {
    let containers = json!([
        {"name": "main", "image": "reg:5000/a/b@sha256:00", "imagePullPolicy": "Never", "command": ["sh"], "args": ["$(A)"],
         "workingDir": "/", "tty": true, "stdin": true, "stdinOnce": true,
         "ports": [{"name": "http", "containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}, {"containerPort": 53, "protocol": "UDP"}],
         "env": [{"name": "A", "value": "x"}, {"name": "B.c", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
             {"name": "L", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}],
         "resources": {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "100m", "ephemeral-storage": "10Mi"}},
         "securityContext": {"privileged": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
             "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}, "procMount": "Default",
             "seLinuxOptions": {"level": "s0"}, "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}},
         "terminationMessagePolicy": "FallbackToLogsOnError",
         "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]},
        {"name": "other", "image": "b"}
    ]);
    let security = json!({"runAsUser": 1000, "runAsGroup": 0, "fsGroup": 3000, "supplementalGroups": [4000],
            "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.ip_local_port_range", "value": "1024 65000"}]});
    let pod = pod(json!({
        "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 0, "hostname": "h", "subdomain": "s",
        "setHostnameAsFQDN": true, "shareProcessNamespace": true, "priorityClassName": "system-node-critical",
        "os": {"name": "linux"}, "automountServiceAccountToken": false, "serviceAccountName": "default",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["1.1.1.1", "::1"], "searches": ["a.b.", "_x.y", "."], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["foo"]}],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute"}, {"key": "a", "value": "b"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}],
        "affinity": {"podAntiAffinity": {}, "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "securityContext": security,
        "containers": containers
    }));
    assert_eq!(validate_static(&pod, ObjectReferences::Forbidden), Vec::new());
    assert_eq!(unsupported(&pod), Vec::new());
}

#[test]
fn all_errors_come_at_once_in_the_order_of_the_fields() {
    let pod = pod_of(
        json!({"name": "Web", "namespace": "a.b", "labels": {"a": "b c"}, "uid": "../x"}),
        json!({"restartPolicy": "Sometimes", "containers": [
            {"name": "a"},
            {"name": "a", "image": "x", "ports": [{"containerPort": 70000}]}]}),
    );
    assert_errors(
        &pod,
        &[
            "metadata.name: Invalid value: \"Web\": a lowercase RFC 1123 subdomain must consist of",
            "metadata.namespace: Invalid value: \"a.b\": a lowercase RFC 1123 label must consist of",
            "metadata.uid: Invalid value: \"../x\": must consist of",
            "metadata.labels: Invalid value: \"b c\": a valid label must be",
            "spec.containers[0].image: Required value",
            "spec.containers[1].name: Duplicate value: \"a\"",
            "spec.containers[1].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535",
            "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
}

#[test]
fn an_empty_pod_says_what_it_lacks() {
    assert_errors(
        &pod_of(json!({}), json!({})),
        &[
            "metadata.name: Required value",
            "metadata.namespace: Required value",
            "spec.containers: Required value",
        ],
    );
}

#[test]
fn metadata_is_checked() {
    let with = |metadata: Value| pod_of(metadata, json!({"containers": [{"name": "c", "image": "a"}]}));
    assert_errors(
        &with(json!({"name": "a", "namespace": "b", "annotations": {"kubernetes.io/config.mirror": "x"}})),
        &["metadata.annotations[kubernetes.io/config.mirror]: Forbidden"],
    );
    assert_errors(
        &with(json!({"name": "a", "namespace": "b", "annotations": {"a b": "", "Ex.com/a": ""}})),
        &["metadata.annotations: Invalid value: \"a b\""],
    );
    assert_errors(
        &with(json!({"name": "a", "namespace": "b", "annotations": {"a": "x".repeat(300_000)}})),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
}

#[test]
fn the_pod_level_fields_are_checked() {
    for (spec, expected) in [
        (
            json!({"terminationGracePeriodSeconds": -1}),
            "spec.terminationGracePeriodSeconds: Invalid value: -1",
        ),
        (
            json!({"activeDeadlineSeconds": 0}),
            "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1",
        ),
        (json!({"hostname": "a.b"}), "spec.hostname: Invalid value: \"a.b\""),
        (json!({"subdomain": "A"}), "spec.subdomain: Invalid value"),
        (json!({"dnsPolicy": "Some"}), "spec.dnsPolicy: Unsupported value: \"Some\""),
        (json!({"dnsPolicy": "None"}), "spec.dnsConfig: Required value: must provide `dnsConfig`"),
        (
            json!({"dnsPolicy": "None", "dnsConfig": {}}),
            "spec.dnsConfig.nameservers: Required value: must provide at least",
        ),
        (
            json!({"dnsConfig": {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"]}}),
            "spec.dnsConfig.nameservers: Too many: 4",
        ),
        (json!({"dnsConfig": {"nameservers": ["x"]}}), "spec.dnsConfig.nameservers[0]: Invalid value: \"x\""),
        (json!({"dnsConfig": {"searches": ["a..b"]}}), "spec.dnsConfig.searches[0]: Invalid value"),
        (json!({"dnsConfig": {"searches": vec!["a"; 33]}}), "spec.dnsConfig.searches: Too many: 33"),
        (
            json!({"dnsConfig": {"options": [{"value": "1"}]}}),
            "spec.dnsConfig.options[0].name: Required value",
        ),
        (json!({"hostAliases": [{"ip": "1.2.3"}]}), "spec.hostAliases[0].ip: Invalid value"),
        (
            json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["_"]}]}),
            "spec.hostAliases[0].hostnames[0]: Invalid value",
        ),
        (json!({"priorityClassName": "mine"}), "spec.priorityClassName: Forbidden: no PriorityClass"),
        (json!({"priorityClassName": "system-node-critical", "priority": 1}), "spec.priority: Forbidden"),
        (json!({"preemptionPolicy": "x"}), "spec.preemptionPolicy: Unsupported value"),
        (json!({"os": {"name": "plan9"}}), "spec.os.name: Unsupported value"),
        (
            json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {"runAsUserName": "a"}}}),
            "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
        ),
        (
            json!({"shareProcessNamespace": true, "hostPID": true}),
            "spec.shareProcessNamespace: Invalid value: true",
        ),
        (json!({"securityContext": {"runAsUser": -1}}), "spec.securityContext.runAsUser: Invalid value: -1"),
        (
            json!({"securityContext": {"supplementalGroups": [0, 4_294_967_296_u64]}}),
            "spec.securityContext.supplementalGroups[1]: Invalid value",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "a b", "value": ""}]}}),
            "spec.securityContext.sysctls[0].name: Invalid value",
        ),
        (
            json!({"securityContext": {"sysctls": [{"name": "a.b", "value": ""}, {"name": "a/b", "value": ""}]}}),
            "spec.securityContext.sysctls[1].name: Duplicate value",
        ),
        (
            json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.x", "value": ""}]}}),
            "spec.securityContext.sysctls[0].name: Invalid value: \"net.x\": may not be specified when 'hostNetwork'",
        ),
        (
            json!({"hostIPC": true, "securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": ""}]}}),
            "spec.securityContext.sysctls[0].name: Invalid value: \"kernel.shmmax\": may not be",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "x"}}}),
            "spec.securityContext.seccompProfile.type: Unsupported value",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
            "spec.securityContext.seccompProfile.localhostProfile: Required value",
        ),
        (
            json!({"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "../x"}}}),
            "spec.securityContext.seccompProfile.localhostProfile: Invalid value",
        ),
        (
            json!({"securityContext": {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "x"}}}),
            "spec.securityContext.appArmorProfile.localhostProfile: Invalid value",
        ),
        (json!({"tolerations": [{"operator": "Equal"}]}), "spec.tolerations[0].operator: Invalid value"),
        (
            json!({"tolerations": [{"key": "a", "effect": "x"}]}),
            "spec.tolerations[0].effect: Unsupported value",
        ),
    ] {
        assert_errors(&pod(spec), &[expected]);
    }
}

#[test]
fn the_container_level_fields_are_checked() {
    for (fields, expected) in [
        (json!({"name": "A"}), "spec.containers[0].name: Invalid value: \"A\""),
        (json!({"name": ""}), "spec.containers[0].name: Required value"),
        (json!({"image": " a"}), "spec.containers[0].image: Invalid value: \" a\": must not have leading"),
        (json!({"imagePullPolicy": "x"}), "spec.containers[0].imagePullPolicy: Unsupported value"),
        (
            json!({"terminationMessagePolicy": "x"}),
            "spec.containers[0].terminationMessagePolicy: Unsupported value",
        ),
        (json!({"ports": [{}]}), "spec.containers[0].ports[0].containerPort: Required value"),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": -1}]}),
            "spec.containers[0].ports[0].hostPort: Invalid value: -1",
        ),
        (
            json!({"ports": [{"containerPort": 80, "protocol": "ICMP"}]}),
            "spec.containers[0].ports[0].protocol: Unsupported value",
        ),
        (
            json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}),
            "spec.containers[0].ports[1].name: Duplicate value",
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]}),
            "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//80\"",
        ),
        (json!({"env": [{"name": ""}]}), "spec.containers[0].env[0].name: Required value"),
        (json!({"env": [{"name": "a=b"}]}), "spec.containers[0].env[0].name: Invalid value"),
        (
            json!({"env": [{"name": "a", "valueFrom": {}}]}),
            "spec.containers[0].env[0].valueFrom: Invalid value",
        ),
        (
            json!({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value",
        ),
        (
            json!({"env": [{"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.x['a']"}}}]}),
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value",
        ),
        (
            json!({"env": [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]}),
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\"",
        ),
        (
            json!({"env": [{"name": "a", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "3Mi"}}}]}),
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.memory\": only divisor's values 1, 1k,",
        ),
        (
            json!({"resources": {"limits": {"cpu": "x"}, "requests": {"cpu": "1"}}}),
            "spec.containers[0].resources.limits[cpu]: Invalid value: \"x\": quantities must match",
        ),
        (
            json!({"resources": {"requests": {"cpu": "-1"}}}),
            "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater",
        ),
        (
            json!({"resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}}),
            "spec.containers[0].resources.requests: Invalid value: \"2Gi\": must be less than or equal to memory limit of 1Gi",
        ),
        (
            json!({"resources": {"limits": {"gpus": "1"}}}),
            "spec.containers[0].resources.limits[gpus]: Invalid value",
        ),
        (
            json!({"resources": {"requests": {"a.b/gpu": "1"}}}),
            "spec.containers[0].resources.limits[a.b/gpu]: Required value",
        ),
        (
            json!({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}),
            "spec.containers[0].resources: Forbidden: HugePages require",
        ),
        (
            json!({"resources": {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}}),
            "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
        ),
        (
            json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false}}),
            "spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: false: cannot set",
        ),
        (
            json!({"securityContext": {"runAsUser": -7}}),
            "spec.containers[0].securityContext.runAsUser: Invalid value: -7",
        ),
        (
            json!({"securityContext": {"procMount": "Unmasked"}}),
            "spec.containers[0].securityContext.procMount: Invalid value",
        ),
        (
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\"",
        ),
        (
            json!({"livenessProbe": {}}),
            "spec.containers[0].livenessProbe: Required value: must specify a handler",
        ),
        (
            json!({"readinessProbe": {"tcpSocket": {"port": 0}}}),
            "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0",
        ),
        (
            json!({"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 0}}}),
            "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": ""}]}}}),
            "spec.containers[0].livenessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP3"}}}),
            "spec.containers[0].livenessProbe.httpGet.protocol: Unsupported value: \"HTTP3\"",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2", "scheme": "HTTPS"}}}),
            "spec.containers[0].livenessProbe.httpGet.protocol: Invalid value: \"HTTP2\": is only supported with HTTP",
        ),
        (
            json!({"livenessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2", "host": "h"}}}),
            "spec.containers[0].livenessProbe.httpGet.host: Invalid value: \"h\": must be empty when",
        ),
        (
            json!({"livenessProbe": {"grpc": {"port": 80, "mode": "tls"}}}),
            "spec.containers[0].livenessProbe.grpc.mode: Unsupported value: \"tls\"",
        ),
        (
            json!({"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}}),
            "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
        ),
        (
            json!({"lifecycle": {"preStop": {"exec": {}}}}),
            "spec.containers[0].lifecycle.preStop.exec.command: Required value",
        ),
    ] {
        assert_errors(&container(fields), &[expected]);
    }
}

#[test]
fn ports_on_the_host_network_equal_host_ports() {
    let ports = json!([{"name": "c", "image": "a", "ports": [{"containerPort": 80, "hostPort": 81}]}]);
    assert_errors(
        &pod(json!({"hostNetwork": true, "containers": ports})),
        &[
            "spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true",
        ],
    );
    let ports = json!([{"name": "c", "image": "a", "ports": [{"containerPort": 80}]}]);
    assert_errors(&pod(json!({"hostNetwork": true, "containers": ports})), &[]);
}

#[test]
fn host_ports_conflict_across_containers() {
    let port = |ip: &str| json!([{"containerPort": 80, "hostPort": 80, "hostIP": ip}]);
    let both = |a: &str, b: &str| {
        pod(
            json!({"containers": [{"name": "a", "image": "a", "ports": port(a)}, {"name": "b", "image": "a", "ports": port(b)}]}),
        )
    };
    assert_errors(
        &both("127.0.0.1", "127.0.0.1"),
        &["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP/127.0.0.1/80\""],
    );
    assert_errors(&both("127.0.0.1", "127.0.0.2"), &[]);
}

/// The API server does not check it.
#[test]
fn a_port_may_name_any_host_address() {
    let ports = |ip: &str| json!([{"containerPort": 80, "hostPort": 80, "hostIP": ip}]);
    for ip in ["127.0.0.1", "::", "010.0.0.1", "localhost"] {
        assert_errors(&container(json!({"ports": ports(ip)})), &[]);
    }
}

#[test]
fn an_overriding_hostname_is_alone_and_at_most_64_bytes() {
    let of = |name: &str, more: Value| {
        let mut spec = more;
        spec["hostnameOverride"] = json!(name);
        pod(spec)
    };
    assert_errors(&of("my.host", json!({})), &[]);
    let path = "spec.hostnameOverride";
    assert_errors(&of("A", json!({})), &[&format!("{path}: Invalid value: \"A\"")]);
    assert_errors(&of(&format!("{}.b", "a".repeat(63)), json!({})), &[&format!("{path}: Too long")]);
    for field in ["hostNetwork", "setHostnameAsFQDN"] {
        let why = format!("{path}: Forbidden: may not be specified when {field} is true");
        assert_errors(&of("a", json!({(field): true})), &[&why]);
    }
}

#[test]
fn fields_of_newer_features_are_not_ignored() {
    let item = json!({"key": "k", "path": "p", "user": 5});
    let served = json!({"readinessProbe": {"httpGet": {"port": 80, "protocol": "HTTP2"}}});
    not_served(&container(served), &[]);
    not_served(
        &pod(json!({
            "evictionResponders": [{"name": "example.com/drain"}],
            "volumes": [{"name": "e", "emptyDir": {"mode": 0o700}}, {"name": "s", "secret": {"secretName": "s", "defaultUser": 5}},
                {"name": "c", "configMap": {"name": "c", "items": [item]}},
                {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "user": 5}}]}}],
            "containers": [{"name": "c", "image": "a:1", "volumeMounts": [{"name": "e", "mountPath": "/e", "bindMountOptions": ["noexec"]}]}]
        })),
        &["spec.containers[0].volumeMounts[0].bindMountOptions"],
    );
}

#[test]
fn owners_of_files_and_modes_of_directories_have_their_bounds() {
    let of = |source: Value| pod(json!({"volumes": [source], "containers": [{"name": "c", "image": "a"}]}));
    let item = |user: i64| json!({"key": "k", "path": "p", "user": user});
    let range = "Invalid value: -1: must be between 0 and 2147483647, inclusive";
    for (source, field) in [
        (json!({"name": "v", "secret": {"secretName": "s", "defaultUser": -1}}), "secret.defaultUser"),
        (json!({"name": "v", "configMap": {"name": "c", "items": [item(-1)]}}), "configMap.items[0].user"),
        (json!({"name": "v", "downwardAPI": {"defaultUser": -1}}), "downwardAPI.defaultUser"),
        (
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "user": -1}}]}}),
            "projected.sources[0].serviceAccountToken.user",
        ),
    ] {
        assert_errors(&of(source), &[&format!("spec.volumes[0].{field}: {range}")]);
    }
    let range = "spec.volumes[0].emptyDir.mode: Invalid value: 1024: must be a number between 0 and 01777 (octal), both inclusive";
    assert_errors(&of(json!({"name": "v", "emptyDir": {"mode": 0o2000}})), &[range]);
}

#[test]
fn mounts_must_refer_to_volumes() {
    let with = |volumes: Value, mounts: Value| {
        pod(json!({"volumes": volumes, "containers": [{"name": "c", "image": "a", "volumeMounts": mounts}]}))
    };
    assert_errors(
        &with(json!([{"name": "v"}, {"name": "v"}]), json!([])),
        &["spec.volumes[1].name: Duplicate value: \"v\""],
    );
    assert_errors(
        &with(json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]), json!([])),
        &["spec.volumes[0].hostPath: Forbidden: may not specify more"],
    );
    assert_errors(
        &with(json!([{"name": "v", "hostPath": {"path": "/a/../b"}}]), json!([])),
        &["spec.volumes[0].hostPath.path: Invalid value"],
    );
    let mounts = json!([{"name": "v", "mountPath": "/a", "subPath": "../x"}, {"name": "v", "mountPath": "/a"}, {"name": "v"}]);
    assert_errors(
        &with(json!([{"name": "v"}]), mounts),
        &[
            "spec.containers[0].volumeMounts[0].subPath: Invalid value",
            "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
            "spec.containers[0].volumeMounts[2].mountPath: Required value",
        ],
    );
}

#[test]
fn static_pods_may_not_refer_to_api_objects() {
    let pod = pod(json!({
        "serviceAccountName": "robot", "imagePullSecrets": [{"name": "s"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "volumes": [{"name": "s", "secret": {"secretName": "s"}}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        "containers": [{"name": "c", "image": "a", "envFrom": [{"configMapRef": {"name": "c"}}],
            "resources": {"claims": [{"name": "gpu"}]},
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]
    }));
    assert_eq!(validate(&pod), Vec::new());
    let errors =
        |objects| -> Vec<String> { validate_static(&pod, objects).iter().map(ToString::to_string).collect() };
    assert_eq!(
        errors(ObjectReferences::FromFiles),
        [
            "spec.serviceAccountName: Forbidden: a static pod may not reference a service account",
            "spec.resourceClaims[0]: Forbidden: a static pod may not reference resource claims",
            "spec.volumes[2].projected.sources[0].serviceAccountToken: Forbidden: a static pod may not reference service account tokens",
            "spec.containers[0].resources.claims[0]: Forbidden: a static pod may not reference resource claims",
        ]
    );
    assert_eq!(
        errors(ObjectReferences::Forbidden),
        [
            "spec.serviceAccountName: Forbidden: a static pod may not reference a service account",
            "spec.imagePullSecrets[0]: Forbidden: a static pod may not reference secrets",
            "spec.resourceClaims[0]: Forbidden: a static pod may not reference resource claims",
            "spec.volumes[0].secret: Forbidden: a static pod may not reference secrets",
            "spec.volumes[1].persistentVolumeClaim: Forbidden: a static pod may not reference persistent volume claims",
            "spec.volumes[2].projected.sources[0].serviceAccountToken: Forbidden: a static pod may not reference service account tokens",
            "spec.containers[0].resources.claims[0]: Forbidden: a static pod may not reference resource claims",
            "spec.containers[0].env[0].valueFrom.secretKeyRef: Forbidden: a static pod may not reference secrets",
            "spec.containers[0].envFrom[0].configMapRef: Forbidden: a static pod may not reference config maps",
        ]
    );
}

#[test]
fn unsupported_fields_are_reported_one_by_one() {
    not_served(
        &pod(json!({
            "initContainers": [{"name": "i", "image": "a", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "runtimeClassName": "kata", "overhead": {"cpu": "1"}, "hostUsers": false,
            "volumes": [{"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {}}}}},
                {"name": "c", "csi": {"driver": "csi.example.com"}},
                {"name": "odd", "emptyDir": {"medium": "Cloud"}}, {"name": "limited", "emptyDir": {"sizeLimit": "1Gi"}}],
            "schedulingGates": [{"name": "g"}],
            "resourceClaims": [{"name": "r"}]
        })),
        &["spec.schedulingGates", "spec.volumes[0].iscsi", "spec.volumes[3].emptyDir.medium"],
    );
    let handler = json!({"exec": {"command": ["true"]}});
    not_served(
        &container(json!({
            "livenessProbe": handler, "readinessProbe": handler, "startupProbe": handler,
            "envFrom": [{"secretRef": {"name": "s"}}], "restartPolicy": "Always",
            "env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
            "resources": {"limits": {"cpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi", "a.b/gpu": "1"}},
            "securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": "x"},
                "windowsOptions": {"runAsUserName": "ContainerUser"}}
        })),
        &[],
    );
}

#[test]
fn a_stop_signal_is_one_of_the_pods_operating_system() {
    let of = |os: Value, signal: &str| {
        let container = json!({"name": "c", "image": "a", "lifecycle": {"stopSignal": signal}});
        pod(json!({"os": os, "containers": [container]}))
    };
    for signal in ["SIGTERM", "SIGRTMIN+3", "SIGCLD"] {
        not_served(&of(json!({"name": "linux"}), signal), &[]);
    }
    let path = "spec.containers[0].lifecycle.stopSignal";
    let why = "Forbidden: may not be set for containers with empty `spec.os.name`";
    assert_errors(&of(Value::Null, "SIGTERM"), &[&format!("{path}: {why}")]);
    let unsupported = |signal: &str, values: &str| {
        format!("{path}: Unsupported value: \"{signal}\": supported values: {values}")
    };
    let first = unsupported("TERM", r#""SIGABRT", "SIGALRM""#);
    assert_errors(&of(json!({"name": "linux"}), "TERM"), &[&first]);
    let both = unsupported("SIGINT", r#""SIGKILL", "SIGTERM""#);
    assert_errors(&of(json!({"name": "windows"}), "SIGINT"), &[&both]);
}

#[test]
fn resize_policies() {
    let of = |restart: &str, policies: Value| {
        let container = json!({"name": "c", "image": "a", "resizePolicy": policies});
        pod(json!({"restartPolicy": restart, "containers": [container]}))
    };
    let policy = |resource: &str, policy: &str| json!({"resourceName": resource, "restartPolicy": policy});
    let both = json!([policy("cpu", "NotRequired"), policy("memory", "RestartContainer")]);
    assert_errors(&of("Always", both), &[]);
    let path = "spec.containers[0].resizePolicy";
    for (restart, wrong, error) in [
        (
            "Never",
            policy("cpu", "RestartContainer"),
            "Invalid value: \"RestartContainer\": must be 'NotRequired' when pod `restartPolicy` is 'Never'",
        ),
        (
            "Always",
            policy("a.b/gpu", "NotRequired"),
            "Unsupported value: \"a.b/gpu\": supported values: \"cpu\", \"memory\"",
        ),
        (
            "Always",
            policy("cpu", "Maybe"),
            "Unsupported value: \"Maybe\": supported values: \"NotRequired\", \"RestartContainer\"",
        ),
        ("Always", policy("cpu", ""), "Required value"),
    ] {
        assert_errors(&of(restart, json!([wrong])), &[&format!("{path}: {error}")]);
    }
    let twice = of("Always", json!([policy("cpu", "NotRequired"), policy("cpu", "NotRequired")]));
    assert_errors(&twice, &[&format!("{path}[1]: Duplicate value: \"cpu\"")]);
}

#[test]
fn a_pause_of_a_hook_fits_into_the_grace_period() {
    let of = |seconds: i64| {
        let lifecycle = json!({"preStop": {"sleep": {"seconds": seconds}}});
        pod(
            json!({"terminationGracePeriodSeconds": 5, "containers": [{"name": "c", "image": "a", "lifecycle": lifecycle}]}),
        )
    };
    assert_errors(&of(5), &[]);
    for wrong in [-1, 6] {
        let error = format!(
            "spec.containers[0].lifecycle.preStop.sleep: Invalid value: {wrong}: must be non-negative and less than \
             terminationGracePeriodSeconds (5)"
        );
        assert_errors(&of(wrong), &[&error]);
    }
}

#[test]
fn environment_files_are_in_an_empty_dir() {
    let of = |reference: Value| {
        let container = json!({"name": "c", "image": "a", "env": [{"name": "A", "valueFrom": {"fileKeyRef": reference}}]});
        pod(json!({
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/srv"}}],
            "containers": [container]
        }))
    };
    not_served(&of(json!({"volumeName": "e", "path": "dir/vars", "key": "KEY", "optional": true})), &[]);
    let path = "spec.containers[0].env[0].valueFrom.fileKeyRef";
    for (reference, error) in [
        (
            json!({"volumeName": "h", "path": "p", "key": "K"}),
            r#"volumeName: Invalid value: "h": referenced volume must be of type emptyDir"#,
        ),
        (json!({"volumeName": "n", "path": "p", "key": "K"}), r#"volumeName: Not found: "n""#),
        (
            json!({"volumeName": "e", "path": "../p", "key": "K"}),
            r#"path: Invalid value: "../p": must not contain '..'"#,
        ),
        (json!({"volumeName": "e", "path": "p", "key": ""}), "key: Required value"),
    ] {
        assert_errors(&of(reference), &[&format!("{path}.{error}")]);
    }
}

#[test]
fn resources_of_the_pod_and_its_containers_must_agree() {
    let whole = |whole: Value, container: Value| {
        pod(json!({"resources": whole, "containers": [{"name": "c", "image": "a", "resources": container}]}))
    };
    not_served(
        &whole(
            json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}),
            json!({"requests": {"cpu": "1"}, "limits": {"memory": "512Mi"}}),
        ),
        &[],
    );
    assert_errors(
        &whole(json!({"requests": {"cpu": "1"}}), json!({"requests": {"cpu": "2"}})),
        &[
            r#"spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2"#,
        ],
    );
    assert_errors(
        &whole(json!({"limits": {"memory": "1Mi"}}), json!({"limits": {"memory": "2Mi"}})),
        &[
            r#"spec.resources.containers[0][memory].limits: Invalid value: "2Mi": must be less than or equal to pod limits of 1Mi"#,
        ],
    );
    assert_errors(
        &whole(json!({"requests": {"ephemeral-storage": "1Mi"}}), json!({})),
        &["spec.resources.requests[ephemeral-storage]: Unsupported value"],
    );
    assert_errors(
        &pod(json!({"runtimeClassName": "kata", "overhead": {"cpu": "-1"}})),
        &[r#"spec.overhead[cpu]: Invalid value: "-1": must be greater than or equal to 0"#],
    );
}

#[test]
fn images_of_volumes_are_named() {
    let of = |image: Value| pod(json!({"volumes": [{"name": "v", "image": image}]}));
    not_served(&of(json!({"reference": "registry.local/model:1", "pullPolicy": "Never"})), &[]);
    let path = "spec.volumes[0].image";
    assert_errors(&of(json!({})), &[&format!("{path}.reference: Required value")]);
    let policy = of(json!({"reference": "model", "pullPolicy": "Sometimes"}));
    assert_errors(&policy, &[&format!("{path}.pullPolicy: Unsupported value: \"Sometimes\"")]);
}

#[test]
fn mounts_of_supported_volumes_are_served() {
    let pod_of = |mounts: Value| {
        pod(json!({
            "volumes": [{"name": "e", "emptyDir": {}}, {"name": "g", "emptyDir": {"medium": "HugePages-2Mi"}}, {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
                {"name": "h", "hostPath": {"path": "/srv"}},
                {"name": "d", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                {"name": "p", "projected": {"sources": [
                    {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}],
            "containers": [{"name": "c", "image": "a", "volumeMounts": mounts}]
        }))
    };
    not_served(
        &pod_of(
            json!([{"name": "e", "mountPath": "/e"}, {"name": "h", "mountPath": "/h", "readOnly": true}]),
        ),
        &[],
    );
    not_served(
        &pod_of(json!([
            {"name": "e", "mountPath": "/c", "readOnly": true, "recursiveReadOnly": "Enabled"},
            {"name": "e", "mountPath": "/d", "readOnly": true, "recursiveReadOnly": "IfPossible"}
        ])),
        &[],
    );
    assert_errors(
        &pod_of(json!([
            {"name": "e", "mountPath": "/c", "recursiveReadOnly": "Enabled"},
            {"name": "e", "mountPath": "/d", "readOnly": true, "mountPropagation": "HostToContainer", "recursiveReadOnly": "Enabled"},
            {"name": "e", "mountPath": "/e", "recursiveReadOnly": "Always"}
        ])),
        &[
            "spec.containers[0].volumeMounts[0].recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
            "spec.containers[0].volumeMounts[1].recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None",
            "spec.containers[0].volumeMounts[2].recursiveReadOnly: Unsupported value: \"Always\"",
        ],
    );
}

#[test]
fn volumes_of_drivers_and_devices_of_claims_are_checked() {
    let spec = json!({
        "containers": [{"name": "c", "image": "a:1", "volumeDevices": [
            {"name": "claim", "devicePath": "/dev/a"}, {"name": "own", "devicePath": "/dev/b"},
            {"name": "empty", "devicePath": "/dev/c"}, {"name": "none", "devicePath": "/dev/d"}]}],
        "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": "a"}},
            {"name": "own", "ephemeral": {}}, {"name": "empty", "emptyDir": {}},
            {"name": "driver", "csi": {"driver": "", "nodePublishSecretRef": {"name": ""}}}]
    });
    let errors: Vec<String> = validate(&pod(spec)).iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "spec.volumes[1].ephemeral.volumeClaimTemplate: Required value",
            "spec.volumes[3].csi.driver: Required value",
            "spec.volumes[3].csi.nodePublishSecretRef.name: Required value",
            "spec.containers[0].volumeDevices[2].name: Invalid value: \"empty\": can only use volume source type of \
             PersistentVolumeClaim or Ephemeral for block mode",
            "spec.containers[0].volumeDevices[3].name: Not found: \"none\"",
        ]
    );
    let references =
        pod(json!({"volumes": [{"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "driver", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}]}));
    let of = |objects| -> Vec<String> {
        validate_static(&references, objects).iter().map(ToString::to_string).collect()
    };
    let own = "spec.volumes[0].ephemeral: Forbidden: a static pod may not reference claims that a cluster makes for pods";
    let secret =
        "spec.volumes[1].csi.nodePublishSecretRef: Forbidden: a static pod may not reference secrets";
    assert_eq!(of(ObjectReferences::FromFiles), [own]);
    assert_eq!(of(ObjectReferences::Forbidden), [own, secret]);
}

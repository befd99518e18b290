//! Every failure that a manifest or a host can cause, with its message and explanation. The messages are from real runs on
//! containerd 1.6.20 and 2.1.9 with runc 1.1.5, with shortened identifiers; those marked `source` are from the source code of
//! these and later versions.

use hostlet_observe::status::ContainerKill;
use hostlet_pod::ManifestProblem;
use serde_json::json;

use super::testing::{Facts, OWN_FILE, at, problem};
use super::{Explanation, Verdict, unknown};

/// Prefixes of runc's errors in containerd 1 and 2.
const SHIM: &str = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: ";

/// A message, a part of the sentence, and a part of the remedy.
type Row = (&'static str, &'static str, &'static str);

/// Checks an explanation against its row: it must have a specific cause and remedy.
#[track_caller]
fn holds(said: &Explanation, (message, cause, remedy): Row) {
    let remedy_text = said.remedy.as_deref().unwrap_or_default();
    assert_eq!(said.verdict, Verdict::Wrong, "{message}: {said:?}");
    assert!(said.sentence.contains(cause), "{message}: {said:?}");
    assert!(remedy_text.contains(remedy), "{message}: {said:?}");
    assert!(said.step.is_some(), "{message}: {said:?}");
    for vague in
        ["correct the manifest according to", "or check the container runtime's log", "as the message says;"]
    {
        assert!(!remedy_text.starts_with(vague) && remedy_text != vague, "{message}: {said:?}");
    }
    assert!(!said.sentence.contains("OCI runtime create failed"), "{message}: {said:?}");
}

#[test]
fn programs_that_cannot_be_started() {
    for row @ (message, ..) in [
        (
            r#"unable to start container process: exec: "nope": executable file not found in $PATH: unknown"#,
            r#"cannot be started, because its program is not in its image: exec: "nope": executable file not found in $PATH;"#,
            "needs its absolute path",
        ),
        (
            r#"unable to start container process: exec: "/no/such": stat /no/such: no such file or directory"#,
            "its program is not in its image",
            "command and args",
        ),
        // source: runc 1.2
        (
            r#"unable to start container process: error during container init: exec: "/x": stat /x: no such file or directory"#,
            "its program is not in its image",
            "command and args",
        ),
        (
            r#"unable to start container process: exec: "/v/noexec": permission denied: unknown"#,
            "its program cannot be executed",
            "chmod +x",
        ),
        // source: runc 1.2
        (
            r#"unable to start container process: exec: "/bin": is a directory"#,
            "its command is a directory",
            "command and args",
        ),
        // source: runc 1.2
        (
            "unable to start container process: error during container init: exec /app: exec format error",
            "built for another architecture",
            "architecture",
        ),
        (
            "unable to start container process: error during container init: exec /run.sh: no such file or directory",
            "the interpreter or loader of its program",
            "first line of the script",
        ),
        (
            "Cwd must be an absolute path: unknown",
            "its workingDir is not an absolute path",
            "correct workingDir",
        ),
        // source: runc
        (
            r#"unable to start container process: chdir to cwd ("/srv") set in config.json failed: permission denied"#,
            "its workingDir cannot be entered",
            "correct workingDir",
        ),
        // source: runc 1.1.12
        (
            "unable to start container process: error during container init: mkdir /x: current working \
             directory is outside of \
             container mount namespace root -- possible container breakout detected",
            "leads out of the container",
            "correct workingDir",
        ),
        (
            "unable to start container process: error during container init: mkdir /etc/passwd: not a \
             directory: unknown",
            "workingDir or of a mountPath is a file",
            "must be a directory in the image",
        ),
    ] {
        let message = format!("{SHIM}{message}");
        let ended = json!({"exitCode": 128, "reason": "StartError", "message": message});
        holds(&Facts::new().crashed(ended).explained(), row);
    }
}

#[test]
fn mounts_that_cannot_be_made() {
    for row @ (message, ..) in [
        (
            r#"error mounting "/host" to rootfs at "/etc/passwd": mount /host:/etc/passwd (via /proc/self/fd/6), flags: 0x5000: not a directory: unknown"#,
            "a directory is mounted onto a file, or a file onto a directory",
            "both a file or both a directory",
        ),
        // source: runc 1.2
        (
            r#"error mounting "/host" to rootfs at "/bin/sh": create mountpoint for /bin/sh mount: mkdirat /bin/sh: not a directory"#,
            "a directory is mounted onto a file",
            "both a file or both a directory",
        ),
        (
            r#"error mounting "/vol/e" to rootfs at "/v/sub": mkdir /run/rootfs/v/sub: read-only file system: unknown"#,
            "is inside a read-only volume",
            "without readOnly",
        ),
        (
            r#"error mounting "/host" to rootfs at "/proc/x": "/run/rootfs/proc/x" cannot be mounted because it is inside /proc: unknown"#,
            "below /proc, which is not allowed",
            "another mountPath",
        ),
        (
            r#"error mounting "/gone" to rootfs at "/v": mount /gone:/v (via /proc/self/fd/6), flags: 0x5000: no such file or directory"#,
            "no longer exists on this host",
            "the path in the message exists",
        ),
        (
            r#"error mounting "/nfs" to rootfs at "/v": mount /nfs:/v (via /proc/self/fd/6), flags: 0x5000: permission denied"#,
            "does not permit a volume mount",
            "root can read",
        ),
    ] {
        let message =
            format!("{SHIM}unable to start container process: error during container init: {message}");
        let ended = json!({"exitCode": 128, "reason": "StartError", "message": message});
        holds(&Facts::new().crashed(ended).explained(), row);
    }
}

#[test]
fn containers_that_cannot_be_made() {
    for row in [
        (
            r#"failed to generate container "0123" spec: failed to generate spec: no command specified"#,
            "Container c cannot be created, because neither its image nor its manifest has a command: no command \
             specified",
            "a command",
        ),
        (
            r#"failed to generate container "0123" spec: failed to generate spec: failed to mkdir "/proc/nothing": mkdir /proc/nothing: no such file or directory"#,
            "the path of a hostPath volume does not exist on this host and cannot be created",
            "hostPath.path",
        ),
        (
            r#"failed to generate container "0123" spec: failed to generate spec: path "/host" is mounted on "/" but it is not a shared mount"#,
            "has mountPropagation",
            "make-rshared",
        ),
        // source: containerd
        (
            r#"failed to generate container "0123" spec: failed to generate spec: failed to stat "/x": permission denied"#,
            "cannot be accessed",
            "root",
        ),
        (
            r"failed to create containerd container: mount callback failed on /var/tmp/containerd-mount1: no users found",
            "the user in its image's configuration",
            "runAsUser to a UID",
        ),
        // source: containerd
        (
            r"failed to create containerd container: mount callback failed on /var/tmp/containerd-mount1: no groups found",
            "the group in its image's configuration",
            "runAsGroup",
        ),
        // source: runc
        (
            "unable to start container process: unable to find user www: no matching entries in passwd file",
            "the user in its image's configuration",
            "runAsUser to a UID",
        ),
        (
            r#"failed to create containerd container: cannot load seccomp profile "/seccomp/nothing.json": open /seccomp/nothing.json: no such file or directory"#,
            "its seccomp profile is not on this host",
            "RuntimeDefault",
        ),
        // source: containerd
        (
            r#"failed to create containerd container: decoding seccomp profile failed "/seccomp/x.json": unexpected end of JSON input"#,
            "is not valid JSON",
            "correct the file",
        ),
        // source: containerd
        (
            "failed to create containerd container: seccomp is not supported",
            "does not support seccomp",
            "remove seccompProfile",
        ),
        // source: containerd
        (
            "failed to create containerd container: apparmor profile not found k8s-web",
            "its AppArmor profile cannot be applied",
            "apparmor_parser",
        ),
        // source: runc
        (
            "unable to start container process: error during container init: unable to apply apparmor profile: \
             apparmor failed to \
             apply profile: write /proc/self/attr/apparmor/exec: no such file or directory",
            "its AppArmor profile cannot be applied",
            "aa-status",
        ),
        // source: containerd
        (
            r#"failed to init selinux options "": selinux is not enabled"#,
            "its SELinux label cannot be applied",
            "seLinuxOptions",
        ),
        // source: runc
        (
            r#"error gathering device information while adding custom device "/dev/fuse": no such file or directory"#,
            "a device that it requires does not exist on this host",
            "ls -l /dev",
        ),
        (
            "unable to start container process: container init was OOM-killed (memory limit too low?): unknown",
            "its memory limit is too low for anything to start",
            "limits.memory",
        ),
        (
            r#"failed to start containerd task "0123": cannot start a stopped process: unknown"#,
            "killed before it could start",
            "limits.memory",
        ),
        // source: runc
        (
            "unable to start container process: unable to apply cgroup configuration: unable to set memory \
             limit to 1048576 (current \
             usage: 4194304, peak usage: 4194304)",
            "lower than its current usage",
            "limits.memory",
        ),
        // source: runc
        (
            r#"unable to start container process: error during setting cgroup config for procHooks process: failed to write "200000": write /sys/fs/cgroup/cpu,cpuacct/kubepods/x/cpu.cfs_quota_us: invalid argument"#,
            "the kernel rejects its CPU limit",
            "limits.cpu",
        ),
        // source: runc
        (
            "unable to start container process: unable to apply cgroup configuration: cannot enter cgroupv2 \
             \"/sys/fs/cgroup/x\" \
             with domain controllers -- it is in an invalid state",
            "its cgroup cannot be created or configured",
            "mount | grep cgroup",
        ),
        // source: runc
        (
            "unable to start container process: error during container init: error setting rlimits for ready \
             process: error \
             setting rlimit type 7: operation not permitted",
            "not allowed to set its resource limits",
            "systemctl show containerd",
        ),
        (
            "unable to start container process: error during container init: write /proc/self/oom_score_adj: \
             permission denied",
            "not allowed to set its OOM score",
            "restrict_oom_score_adj",
        ),
        // source: containerd
        (
            "failed to create containerd task: failed to mount rootfs component: no such device",
            "the root file system of its image cannot be mounted",
            "modprobe overlay",
        ),
        // source: containerd
        (
            "failed to create containerd container: error unpacking image: failed to resolve rootfs: content \
             digest sha256:0123: not \
             found",
            "a part of its image is missing",
            "crictl rmi",
        ),
        // source: containerd
        (
            r#"failed to create containerd container: parent snapshot sha256:0123 does not exist: not found"#,
            "a part of its image is missing",
            "crictl rmi",
        ),
        // source: containerd
        (
            r#"failed to get image from containerd "sha256:0123": image "img": not found"#,
            "its image was removed in the meantime",
            "pulls it again",
        ),
        // source: containerd
        (
            r#"sandbox container "0123" is not running"#,
            "the pod's sandbox stopped in the meantime",
            "creates a new one",
        ),
        // source: containerd
        (r#"failed to find sandbox id "0123": not found"#, "the pod's sandbox is gone", "creates a new one"),
        // source: containerd
        (
            r#"failed to reserve container name "c_web-n_default_u_0": name "c_web-n_default_u_0" is reserved for "0123""#,
            "still processing an earlier attempt with the same name",
            "hostlet uses its result",
        ),
        (
            "create_container: no answer within 120s",
            "the container runtime takes too long to answer",
            "retries automatically",
        ),
        (
            "create_container: the container runtime does not answer at /run/containerd/containerd.sock: \
             Connection refused (os \
             error 111)",
            "the container runtime is not running",
            "systemctl start containerd",
        ),
        (
            "failed to create containerd task: failed to create shim task: ttrpc: closed: unknown",
            "shim process exited",
            "journalctl -u containerd",
        ),
        (
            "failed to create containerd container: failed to create prepare snapshot dir: mkdir \
             /var/lib/containerd/x: no space \
             left on device",
            "a disk of this host is full",
            "df -h",
        ),
        (
            "failed to create shim task: OCI runtime create failed: runc create failed: unable to start \
             container process: open \
             /dev/null: too many open files: unknown",
            "cannot open more files",
            "LimitNOFILE",
        ),
        (
            "failed to create containerd task: failed to start shim: fork/exec \
             /usr/bin/containerd-shim-runc-v2: resource \
             temporarily unavailable: unknown",
            "cannot start more processes",
            "pid_max",
        ),
        (
            "unable to start container process: error during container init: operation not permitted",
            "not allowed to do that on this host",
            "all capabilities",
        ),
    ] {
        for reason in ["CreateContainerError", "RunContainerError"] {
            let said = Facts::new().waiting(reason, row.0).explained();
            let cause = if reason == "CreateContainerError" {
                row.1.to_owned()
            } else {
                row.1.replace("created, ", "started, ")
            };
            assert!(said.sentence.contains(&cause), "{reason}: {said:?}");
            holds(&said, (row.0, "", row.2));
        }
    }
}

#[test]
fn containers_that_cannot_be_configured() {
    for row in [
        (
            r#"container's runAsUser breaks non-root policy (pod: "web-n_default(u)", container: c)"#,
            "cannot be configured as specified, because runAsNonRoot forbids root, but runAsUser is 0",
            "other than 0",
        ),
        (
            r#"container has runAsNonRoot and image will run as root (pod: "web-n_default(u)", container: c)"#,
            "its image runs as root",
            "remove runAsNonRoot",
        ),
        (
            r#"container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root (pod: "web-n_default(u)", container: c)"#,
            "has a user name instead of a UID",
            "that user's UID",
        ),
        (
            r#"container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: "web-n_default(u)", container: c)"#,
            "the user in its image is invalid",
            "runAsUser to a UID",
        ),
        (
            "services have not yet been read at least once, cannot construct envvars",
            "has not returned them yet",
            "can reach the API server",
        ),
        (
            r#"timed out waiting for the secret "x""#,
            "the API server has not returned",
            "can reach the API server",
        ),
        (
            r#"cannot read configmap "x": client error (Connect): tcp connect error"#,
            "failed to return an object",
            "can reach the API server",
        ),
        (
            r#"secrets "x" is forbidden: User "system:node:n1" cannot list resource "secrets" in API group """#,
            "does not allow this node to read",
            "the node's permissions",
        ),
        (
            "the value of key png in Secret ns/image is not UTF-8 and cannot be put into the environment",
            "that is not UTF-8",
            "as a volume",
        ),
        (r#"configmap "nope" not found"#, "a ConfigMap that its environment refers to", "optional: true"),
        (r#"secret "nope" not found"#, "a Secret that its environment refers to", "optional: true"),
        ("couldn't find key x in ConfigMap default/web", "refers to a key", "add the key"),
        ("couldn't parse env file", "missing or invalid", "NAME='value'"),
        (
            r#"environment variable key "K" not found in file "/pods/u/volumes/e/vars""#,
            "lacks the variable",
            "fileKeyRef",
        ),
        (
            r#"volume "v" requested recursive read-only mode, but it is not supported by the runtime"#,
            "needs a recursive read-only mount",
            "IfPossible",
        ),
        ("field label not supported: spec.x", "refers to an unsupported field", "fieldRef.fieldPath"),
        ("the node has no address", "this node has none", "--node-ip"),
        (
            r#"cannot find volume "v" to mount into container "c""#,
            "mounts a volume that the pod does not have",
            "spec.volumes",
        ),
        (
            "localhostProfile must be set if seccompProfile type is Localhost.",
            "its seccomp profile has no name",
            "localhostProfile",
        ),
        ("missing localhost apparmor profile name", "its AppArmor profile has no name", "aa-status"),
        (
            r#"environment variable "X": fileKeyRef is not supported"#,
            "a source that hostlet does not support yet",
            "env[].value",
        ),
        ("unsupported supplementalGroupsPolicy: X", "supplementalGroupsPolicy is unknown", "Merge or Strict"),
    ] {
        holds(&Facts::new().waiting("CreateContainerConfigError", row.0).explained(), row);
    }
}

#[test]
fn sandboxes_that_cannot_be_made() {
    for row @ (message, ..) in [
        (
            r#"failed to setup network for sandbox "0123": cni plugin not initialized"#,
            "sandbox cannot be created, because this node has no pod network yet",
            "/etc/cni/net.d",
        ),
        (
            r#"failed to setup network for sandbox "0123": plugin type="nosuchplugin" failed (add): failed to find plugin "nosuchplugin" in path [/usr/lib/cni]"#,
            "a CNI plugin of the pod network is not installed",
            "install the CNI plugin",
        ),
        (
            r#"failed to setup network for sandbox "0123": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.99.0.1-10.99.0.2"#,
            "no free address",
            "larger subnet",
        ),
        // source: CNI plugins
        (
            r#"failed to setup network for sandbox "0123": plugin type="bridge" failed (add): failed to set bridge addr: "cni0" already has an IP address different from 10.244.1.1/24"#,
            "the address of an earlier configuration",
            "ip link delete",
        ),
        // source: flannel
        (
            r#"failed to setup network for sandbox "0123": plugin type="flannel" failed (add): loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: no such file or directory"#,
            "flannel, this node's pod network, is not running yet",
            "flannel",
        ),
        // source: Calico
        (
            r#"failed to setup network for sandbox "0123": plugin type="calico" failed (add): stat /var/lib/calico/nodename: no such file or directory: check that the calico/node container is running and has mounted /var/lib/calico/"#,
            "Calico, this node's pod network",
            "calico-node",
        ),
        // source: Cilium
        (
            r#"failed to setup network for sandbox "0123": plugin type="cilium-cni" failed (add): unable to connect to Cilium agent: failed to create cilium agent client"#,
            "Cilium, this node's pod network",
            "cilium",
        ),
        // source: CNI plugins
        (
            r#"failed to setup network for sandbox "0123": plugin type="bridge" failed (add): failed to locate iptables: exec: "iptables": executable file not found in $PATH"#,
            "needs is not installed: iptables",
            "install iptables",
        ),
        (
            r#"failed to setup network for sandbox "0123": plugin type="ptp" failed (add): something new"#,
            "the pod network could not be set up",
            "check the plugin and its error in the message",
        ),
        (
            r#"failed to get sandbox image "127.0.0.1:1/pause:1": failed to pull image "127.0.0.1:1/pause:1": failed to pull and unpack image "127.0.0.1:1/pause:1": failed to resolve reference "127.0.0.1:1/pause:1": failed to do request: Head "http://127.0.0.1:1/v2/pause/manifests/1": dial tcp 127.0.0.1:1: connect: connection refused"#,
            "cannot pull its pause image",
            "pinned_images",
        ),
        (
            r#"failed to start sandbox "0123": failed to get sandbox image "pause:1": failed to pull image "pause:1": x"#,
            "cannot pull its pause image",
            "sandbox_image",
        ),
        // source: containerd
        (
            r#"failed to get sandbox runtime: no runtime for "kata" is configured"#,
            "has no such runtime handler",
            "containerd.runtimes",
        ),
        (
            r#"failed to create containerd task: failed to start shim: failed to resolve runtime path: runtime "io.containerd.nosuch.v2" binary not installed "containerd-shim-nosuch-v2": file does not exist: unknown"#,
            "has no shim for this kind of container",
            "runtime_type",
        ),
        (
            r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/log.json: no such file or directory): exec: "nosuchrunc": executable file not found in $PATH: unknown"#,
            "cannot find runc",
            "install runc",
        ),
        // source: containerd
        (
            r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error (open /run/log.json: no such file or directory): runc did not terminate successfully: exit status 127: unknown"#,
            "failed without an error message",
            "runc --version",
        ),
        (
            r#"failed to start sandbox "0123": failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/x" instead"#,
            "do not use the same cgroup driver",
            "SystemdCgroup",
        ),
        // source: runc
        (
            r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: unable to apply cgroup configuration: unable to start unit "cri-containerd-0123.scope" (properties [{Name:Slice}]): dial unix /run/dbus/system_bus_socket: connect: no such file or directory: unknown"#,
            "systemd, which creates the cgroups, cannot be reached",
            "cgroupDriver: cgroupfs",
        ),
        (
            r#"failed to reserve sandbox name "web-n_default_u_0": name "web-n_default_u_0" is reserved for "0123""#,
            "an earlier attempt with the same name",
            "wait",
        ),
        (
            r#"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: container init was OOM-killed (memory limit too low?): unknown"#,
            "the pod's memory limit is too low for its sandbox",
            "limits.memory",
        ),
        (
            r#"failed to start sandbox container task "0123": cannot start a stopped process: unknown"#,
            "usually because the pod's memory limit is too low",
            "limits.memory",
        ),
        (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
             create failed: unable to \
             start container process: unable to apply cgroup configuration: mkdir \
             /sys/fs/cgroup/memory/kubepods/x: cannot allocate \
             memory: unknown",
            "the pod's memory limit is too low for its sandbox",
            "limits.memory",
        ),
        (
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
             create failed: unable to \
             start container process: error during container init: write /proc/sys/kernel/shm_rmid_forced: \
             invalid argument: unknown",
            "one of the pod's sysctls",
            "spec.securityContext.sysctls",
        ),
        (
            "failed to construct FQDN from pod hostname and cluster domain, FQDN x is too long (64 characters \
             is the max, 80 \
             characters requested)",
            "together are too long for a host name",
            "setHostnameAsFQDN",
        ),
        (
            "create user namespace: kubelet user assigned IDs are not enough to support 110 pods",
            "do not suffice for pods with hostUsers: false",
            "/etc/subuid",
        ),
        (
            "kubelet mappings: mismatched subuids and subgids for user \"kubelet\"",
            "the IDs of this host's user kubelet cannot be read",
            "the same in /etc/subuid and /etc/subgid",
        ),
        (
            "user namespace: invalid user namespace configuration in /var/lib/hostlet/pods/u/userns",
            "the pod's range of IDs cannot be read, stored or used any more",
            "delete the pod",
        ),
        (
            "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
            "has no user namespaces for pods",
            "remove hostUsers",
        ),
        (
            "runtimeclass.node.k8s.io \"kata\" not found",
            "runtime class does not exist",
            "correct runtimeClassName",
        ),
        (
            "failed to lookup RuntimeClass kata: the runtime classes have not been read yet",
            "has not returned the runtime classes",
            "reach the API server",
        ),
        ("run_podsandbox: no answer within 240s", "takes too long to answer", "journalctl"),
        (
            "run_podsandbox: not implemented by this container runtime",
            "without its CRI plugin",
            "disabled_plugins",
        ),
        // source: containerd
        (
            r#"failed to create network namespace for sandbox "0123": mount of namespace: operation not permitted"#,
            "network namespace could not be created",
            "all capabilities",
        ),
    ] {
        let facts = Facts::new().no_sandbox(&format!("Failed to create pod sandbox: {message}"));
        holds(&facts.explained(), row);
    }
}

#[test]
fn steps_that_only_an_event_reports() {
    for row @ (message, ..) in [
        (
            "hostPath type check failed: /data is not a directory",
            "a hostPath volume requires a directory that does not exist on this host",
            "DirectoryOrCreate",
        ),
        (
            "hostPath type check failed: /host is not a file",
            "requires a file that does not exist on this host",
            "FileOrCreate",
        ),
        (
            "hostPath type check failed: /run/x is not a socket file",
            "requires a socket",
            "the service that listens",
        ),
        ("hostPath type check failed: /dev/x is not a character device", "requires a device", "ls -l /dev"),
        ("hostPath type check failed: /dev/x is not a block device", "requires a device", "driver"),
        (
            "cannot look at /host/file/x: Not a directory (os error 20)",
            "a component of a volume's path is not a directory",
            "correct the path",
        ),
        (r#"configmap "nope" not found"#, "the ConfigMap of a volume does not exist", "optional: true"),
        (r#"secret "nope" not found"#, "the Secret of a volume does not exist", "optional: true"),
        (
            "configmap references non-existent config key: a",
            "a key that its ConfigMap or Secret does not have",
            "add the key",
        ),
        (r#"timed out waiting for the configmap "x""#, "the API server has not returned", "API server"),
        (
            r#"cannot read configmap "x": client error (Connect): tcp connect error"#,
            "failed to return an object",
            "can reach the API server",
        ),
        (
            r#"configmaps "x" is forbidden: User "system:node:n1" cannot list resource"#,
            "does not allow this node to read",
            "the node's permissions",
        ),
        (
            "failed to fetch token: serviceaccounts \"x\" not found",
            "did not issue a token",
            "service account exists",
        ),
        ("there is no API server", "this node has no API server", "hostPath"),
        ("unsupported fieldPath: spec.x", "refers to an unsupported field", "fieldPath"),
        ("unsupported container resource : gpu", "refers to an unsupported resource", "resourceFieldRef"),
        ("container x not found", "refers to a container that the pod does not have", "containerName"),
        ("hostPath type X is not supported", "hostlet does not support yet", "spec.volumes"),
        (
            "medium HugePages: hugePages storage requested, but there is no resource request for huge pages",
            "requests none of that size",
            "hugepages-<size>",
        ),
        (
            "medium: HugePages can't be used if container requests multiple huge page sizes",
            "requests several sizes",
            "HugePages-<size>",
        ),
        (
            "/x has something mounted in it that is not the volume's own",
            "something else is mounted",
            "findmnt",
        ),
        (
            "only directory and block device are supported",
            "the path of a local PersistentVolume is not a directory",
            "local.path",
        ),
        (
            "volume uses the ReadWriteOncePod access mode and is already in use by another pod",
            "another pod on this node uses a volume for one pod only",
            "remove the other pod",
        ),
        (
            "Setting volume ownership for /x is taking longer than expected, consider using OnRootMismatch - https",
            "still being given to the pod's group",
            "OnRootMismatch",
        ),
        (
            "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs s:/e /v\nOutput: mount: bad option; \
             for several filesystems (e.g. nfs, cifs) you might need a /sbin/mount.<type> helper program.",
            "this host lacks the program that mounts NFS",
            "nfs-common",
        ),
        (
            "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs s:/e /v\nOutput: mount: \
             unknown filesystem type 'nfs'",
            "the kernel of this host has no NFS client",
            "modprobe nfs",
        ),
        (
            "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs s:/e /v\nOutput: mount.nfs: \
             access denied by server while mounting s:/e",
            "does not export the directory to this host",
            "exports of the server",
        ),
        (
            "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs s:/e /v\nOutput: mount.nfs: \
             Connection refused",
            "cannot be mounted",
            "by hand",
        ),
        (
            "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -o bind,remount,x /e /v\nOutput: mount: \
             bad option",
            "the host's mount refused",
            "mountOptions",
        ),
        ("cannot make /x: No space left on device (os error 28)", "a disk of this host is full", "df -h"),
        (
            "the volume is in memory with a size of 1, the least of its sizeLimit, the pod's limits.memory and the node's memory: \
             cannot write /x: No space left on device (os error 28)",
            "a volume in memory is too small",
            "limits.memory",
        ),
        ("cannot make /x: something new", "a volume cannot be set up", "check the path in the message"),
    ] {
        let event = format!("MountVolume.SetUp failed for volume \"v\" : {message}");
        let fresh = Facts::new().no_sandbox("No sandbox for pod can be found. Need to start a new one");
        let said = fresh.retrying(&event).explained();
        holds(&said, row);
        assert_eq!(said.step.as_deref(), Some("setting up the volumes"), "{said:?}");
        let kept = Facts::new().waiting("ContainerCreating", "").retrying(&event).explained();
        assert_eq!((kept.sentence, kept.remedy), (said.sentence, said.remedy));
    }
    const UNPROCESSED: &str = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], \
                               failed to process volumes=[data]: ";
    for (message, cause, remedy) in [
        ("PVC is not bound", "the claim of a volume is not bound", "kubectl describe pvc"),
        ("PVC is being deleted", "the claim of a volume is being deleted", "delete the pod"),
        (
            "found PV object pv-1 but its pv.Spec.ClaimRef.UID u0 does not point to claim.UID u1",
            "belongs to another claim",
            "spec.claimRef",
        ),
        (
            "failed to fetch PV pv-1 from API server: persistentvolumes \"pv-1\" not found",
            "the PersistentVolume of a claim does not exist",
            "create it",
        ),
        (
            "failed to fetch PVC from API server: persistentvolumeclaims \"data\" not found",
            "the claim of a volume does not exist",
            "claimName",
        ),
        (
            "no manifest defines the PersistentVolumeClaim ns/data",
            "no manifest defines the claim",
            "directory of static pods",
        ),
        (
            "found PV object v but it belongs to the claim default/b",
            "belongs to another claim",
            "spec.volumeName",
        ),
        (
            "failed to fetch PVC from API server: persistentvolumeclaims \"data\" is forbidden",
            "did not return the claim",
            "may read them",
        ),
    ] {
        let event = format!("{UNPROCESSED}error processing PVC ns/data: {message}");
        let said = Facts::new().no_sandbox("x").retrying(&event).explained();
        holds(&said, (message, cause, remedy));
        assert!(said.sentence.contains(": error processing PVC ns/data: "), "{said:?}");
    }
    for row in [
        (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: \
             volume v has volumeMode Block, but is specified in volumeMounts",
            "is a block device",
            "volumeDevices",
        ),
        (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: \
             volume v has volumeMode Filesystem, but is specified in volumeDevices",
            "is a filesystem",
            "volumeMounts",
        ),
        (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: \
             PVC ns/web-v was not created for pod ns/web (pod is not owner)",
            "was not made for the pod",
            "rename the claim",
        ),
        (
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: \
             context deadline exceeded",
            "did not finish its work on a volume in time",
            "logs of the driver's pod",
        ),
        (
            "MountVolume.MountDevice failed for volume \"pv\" : kubernetes.io/csi: attacher.MountDevice failed to create \
             newCsiDriverClient: driver name x not found in the list of registered CSI drivers",
            "is not registered on this node",
            "registrar",
        ),
        (
            "MountVolume.MountDevice failed for volume \"pv\" : fetching NodeStageSecretRef a/b failed: kubernetes.io/csi: failed to \
             find the secret b in the namespace a with error: secrets \"b\" not found",
            "prepare the volume does not exist",
            "csi.nodeStageSecretRef",
        ),
        (
            "MountVolume.SetUp failed for volume \"v\" : kubernetes.io/csi: mounter.SetupAt failed to check volume lifecycle mode: \
             volume mode \"Ephemeral\" not supported by driver x (no CSIDriver object)",
            "has no CSIDriver object",
            "volumeLifecycleModes",
        ),
        (
            "MountVolume.SetUp failed for volume \"pv\" : rpc error: code = DeadlineExceeded desc = x",
            "did not answer in time",
            "logs of the driver's pod",
        ),
        (
            "MountVolume.SetUp failed for volume \"pv\" : rpc error: code = Internal desc = x",
            "a call of the CSI driver failed",
            "logs of the driver's pod",
        ),
        (
            "AttachVolume.Attach failed for volume \"pv\" : x",
            "could not attach the volume",
            "VolumeAttachment",
        ),
        (
            "MountVolume.FindPluginBySpec failed for volume \"pv\" : hostlet does not mount PersistentVolumes of the type fc yet",
            "does not mount PersistentVolumes of this type",
            "csi, local, hostPath or nfs",
        ),
        (
            "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms",
            "belongs to other nodes",
            "nodeAffinity",
        ),
        (
            "MountVolume.NewMounter initialization failed for volume \"pv\" : path \"/mnt/x\" does not exist",
            "the directory of a local PersistentVolume does not exist",
            "create it",
        ),
        (
            "MountVolume.MountOptionSupport check failed for volume \"pv\" : mount options are not supported for this volume type",
            "has mount options",
            "remove mountOptions",
        ),
        (
            "Unable to attach or mount volumes: no answer within 120 s",
            "a disk or file system of this host does not respond",
            "state D",
        ),
        (
            "Unable to attach or mount volumes: earlier work on the pod's volumes has not ended",
            "a disk or file system of this host does not respond",
            "state D",
        ),
        (
            "unable to ensure pod container exists: mkdir /sys/fs/cgroup/x: Invalid argument",
            "its cgroup cannot be created or configured",
            "cgroup",
        ),
        ("unable to ensure pod container exists: denied", "the pod's cgroup cannot be created", "cgroupRoot"),
        (
            "error making pod data directories: creating /x: denied",
            "the pod's directory cannot be created",
            "writable by root",
        ),
        ("error killing pod: something new", "containers that must stop first do not stop", "journalctl"),
        (
            r#"error killing pod: failed to destroy network for sandbox "0123": plugin type="nosuchplugin" failed (delete): failed to find plugin "nosuchplugin" in path [/usr/lib/cni]"#,
            "a CNI plugin of the pod network is not installed",
            "install the CNI plugin",
        ),
        (
            r#"error killing pod: failed to destroy network for sandbox "0123": plugin type="bridge" failed (delete): x"#,
            "the pod network could not be torn down",
            "tear down what it set up",
        ),
        ("error determining status: something new", "does not report the state", "journalctl"),
    ] {
        holds(&Facts::new().waiting("ContainerCreating", "").retrying(row.0).explained(), row);
    }
}

#[test]
fn images_that_cannot_be_pulled() {
    for row in [
        (
            r#"failed to resolve reference "r.invalid/x:1": failed to do request: Head "https://r.invalid/v2/x/manifests/1": dial tcp: lookup r.invalid on 10.0.0.1:53: no such host"#,
            "cannot be pulled, because the name of its registry cannot be resolved: Head",
            "resolv.conf",
        ),
        (
            r#"failed to resolve image: failed to do request: Head "https://r.invalid/v2/x/manifests/1": dial tcp: lookup r.invalid on 10.0.0.1:53: read udp 10.77.9.9:60959->10.0.0.1:53: i/o timeout"#,
            "this host's DNS does not answer",
            "resolv.conf",
        ),
        (
            r#"failed to resolve reference "127.0.0.1:1/x:1": failed to do request: Head "http://127.0.0.1:1/v2/x/manifests/1": dial tcp 127.0.0.1:1: connect: connection refused"#,
            "nothing listens at its registry's address",
            "firewall",
        ),
        (
            r#"failed to resolve image: failed to do request: Head "https://10.77.9.200:5000/v2/x/manifests/1": dial tcp 10.77.9.200:5000: connect: no route to host"#,
            "cannot be reached from this host",
            "firewall",
        ),
        (
            r#"failed to do request: Head "https://r/v2/x/manifests/1": dial tcp 10.0.0.9:443: i/o timeout"#,
            "its registry does not answer",
            "HTTPS_PROXY",
        ),
        (
            r#"failed to do request: Head "https://r/v2/x/manifests/1": proxyconnect tcp: dial tcp 10.0.0.9:3128: connect: connection refused"#,
            "the proxy does not answer",
            "NO_PROXY",
        ),
        (
            r#"failed to do request: Head "https://10.77.9.9:5002/v2/x/manifests/1": x509: certificate signed by unknown authority"#,
            "its registry's certificate is from an authority that this host does not trust",
            "certs.d",
        ),
        (
            r#"failed to resolve image: failed to do request: Head "https://10.77.9.9:5002/v2/x/manifests/1": tls: failed to verify certificate: x509: certificate signed by unknown authority"#,
            "an authority that this host does not trust",
            "update-ca-certificates",
        ),
        (
            r#"failed to do request: Head "https://r/v2/": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z is before 2024-01-01T00:00:00Z"#,
            "is not valid at this time",
            "clock",
        ),
        (
            r#"failed to do request: Head "https://r/v2/": x509: certificate is valid for a.example, not r"#,
            "is for another name",
            "the name in the certificate",
        ),
        (
            r#"failed to do request: Head "https://10.77.9.9:5001/v2/x/manifests/1": tls: first record does not look like a TLS handshake"#,
            "speaks plain HTTP, and containerd expects TLS",
            "hosts.toml",
        ),
        (
            r#"failed to do request: Head "https://10.77.9.9:5001/v2/x/manifests/1": http: server gave HTTP response to HTTPS client"#,
            "speaks plain HTTP, and containerd expects TLS",
            "hosts.toml",
        ),
        (
            r#"failed to resolve reference "r/x:1": pulling from host r failed with status code [manifests 1]: 401 Unauthorized"#,
            "requires credentials",
            "private registry",
        ),
        (
            "failed to resolve image: pull access denied, repository does not exist or may require \
             authorization: authorization \
             failed: no basic auth credentials",
            "requires credentials, and there are none",
            "private registry",
        ),
        (
            "failed to resolve image: failed to authorize: failed to fetch anonymous token: unexpected status \
             from GET request to \
             http://r/token?service=x: 401 Unauthorized",
            "requires credentials",
            "private registry",
        ),
        (
            "pull access denied, repository does not exist or may require authorization: server message: \
             insufficient_scope: \
             authorization failed",
            "denies access to it, or has no such repository",
            "check the name",
        ),
        (
            "failed to resolve image: unexpected status from HEAD request to http://r/v2/x/manifests/1: 403 \
             Forbidden",
            "denies access to it",
            "check the name",
        ),
        (
            r#"failed to resolve reference "r/x:1": pulling from host r failed with status code [manifests 1]: 429 Too Many Requests"#,
            "limits the rate of requests",
            "mirror",
        ),
        (
            "failed to resolve image: unexpected status from HEAD request to http://r/v2/x/manifests/1: 500 \
             Internal Server Error",
            "its registry has an internal error (500)",
            "retries",
        ),
        (
            r#"failed to resolve reference "r/x:1": pulling from host r failed with status code [manifests 1]: 503 Service Unavailable"#,
            "not available at the moment (503)",
            "retries",
        ),
        (
            "failed to resolve image: unexpected status from HEAD request to http://r/v2/x/manifests/1: 418 I'm \
             a Teapot",
            "does not behave like a registry",
            "name and port",
        ),
        (
            r#"failed to resolve reference "r/x:1": r/x:1: not found"#,
            "because its registry does not have it: r/x:1: not found",
            "name and tag",
        ),
        (
            "failed to resolve image: r/x@sha256:0123: not found",
            "its registry does not have it",
            "a digest must be",
        ),
        (
            "no match for platform in manifest: not found",
            "not built for this machine's architecture",
            "uname -m",
        ),
        ("no signatures", "Docker schema 1", "push it again"),
        (
            "schema 1 image manifests are no longer supported: invalid argument",
            "Docker schema 1",
            "push it again",
        ),
        (
            "children: invalid desc sha256:0123: unexpected end of JSON input",
            "its registry's response is truncated",
            "push the image",
        ),
        (
            "failed to copy: httpReadSeeker: failed open: could not fetch content descriptor sha256:0123 \
             (text/html) from remote: not \
             found",
            "the server that responds is not an image registry",
            "web page",
        ),
        (
            "failed to copy: httpReadSeeker: failed open: could not fetch content descriptor sha256:0123 \
             (application/vnd.oci.image.layer.v1.tar) from remote: not found",
            "its registry lacks a part of it",
            "push the image",
        ),
        (
            "failed to copy: httpReadSeeker: failed open: content at http://r/v2/x/manifests/sha256:0123 not \
             found: not found",
            "its registry lacks a part of it",
            "push the image",
        ),
        (
            r#"failed commit on ref "layer-sha256:0123": unexpected commit digest sha256:4567, expected sha256:0123: failed precondition"#,
            "sent content that does not match",
            "mirror or proxy",
        ),
        (
            "failed to extract layer sha256:0123: mount callback failed on /var/tmp/containerd-mount1: \
             unexpected EOF: unknown",
            "a layer is damaged",
            "push the image",
        ),
        (
            "short read: expected 110240 bytes but got 10240: unexpected EOF",
            "the connection to its registry was interrupted",
            "retries",
        ),
        (
            "failed to extract layer sha256:0123: write /x: no space left on device: unknown",
            "a disk of this host is full",
            "df -h",
        ),
        ("pull QPS exceeded", "reached its own limit on pulls", "registryPullQPS"),
        ("pull_image: no answer within 600s", "it takes too long", "kept"),
        ("context deadline exceeded", "its registry takes too long to respond", "firewall"),
    ] {
        let failed = format!("failed to pull and unpack image \"img\": {}", row.0);
        let back_off = format!(
            "Back-off pulling image \"img\": ErrImagePull: rpc error: code = Unknown desc = {failed}"
        );
        for (reason, message) in [("ErrImagePull", failed), ("ImagePullBackOff", back_off)] {
            let said = Facts::new().waiting(reason, &message).explained();
            holds(&said, row);
            assert!(
                said.sentence.starts_with("The image img of container c cannot be pulled, because "),
                "{said:?}"
            );
            assert!(!said.sentence.contains("failed to pull and unpack"), "{said:?}");
        }
    }
}

#[test]
fn other_trouble_with_images() {
    let invalid =
        "Failed to apply default image tag \"I\": couldn't parse image name \"I\": invalid reference format";
    for (reason, row) in [
        ("InvalidImageName", (invalid, "is invalid: invalid reference format", "repository[:tag]")),
        (
            "ErrImageNeverPull",
            (
                "Container image \"img\" is not present with pull policy of Never",
                "imagePullPolicy Never forbids",
                "IfNotPresent",
            ),
        ),
        ("ImageInspectError", ("broken", "cannot inspect the image img: broken", "journalctl")),
        (
            "SignatureValidationFailed",
            ("bad", "rejected because of its signature: bad", "signature is valid"),
        ),
        ("RegistryUnavailable", ("connection refused", "nothing listens", "network")),
    ] {
        holds(&Facts::new().waiting(reason, row.0).explained(), row);
    }
}

#[test]
fn programs_that_end() {
    for (code, reason, cause, remedy) in [
        (0, "Completed", "exit code 0, which is success", "restartPolicy"),
        (1, "Error", "ended with exit code 1;", "hostlet logs web-n --previous"),
        (2, "Error", "ended with exit code 2;", "hostlet logs web-n --previous"),
        (126, "Error", "its command cannot be executed", "command and args"),
        (127, "Error", "its command was not found", "command and args"),
        (130, "Error", "terminated by a signal (exit code 130, SIGINT)", "hostlet logs"),
        (134, "Error", "terminated by a signal (exit code 134, SIGABRT)", "has a bug"),
        (137, "Error", "was killed (exit code 137, SIGKILL), and not for its memory limit", "out of memory"),
        (137, "OOMKilled", "it used more memory than its limit", "limits.memory"),
        (9, "OOMKilled", "after the kernel killed one of its processes", "limits.memory"),
        (139, "Error", "segmentation fault", "has a bug"),
        (143, "Error", "SIGTERM", "hostlet has no record of stopping it"),
        (159, "Error", "terminated by a signal (exit code 159, SIGSYS)", "hostlet logs"),
        (255, "Error", "ended with exit code 255;", "hostlet logs"),
        (137, "ContainerStatusUnknown", "could not observe it", "created again"),
    ] {
        let ended = json!({"exitCode": code, "reason": reason});
        holds(&Facts::new().crashed(ended).explained(), ("", cause, remedy));
    }
}

#[test]
fn a_container_that_hostlet_stopped_is_explained_by_the_reason() {
    let liveness = "Container c failed liveness probe, will be restarted";
    let facts = |code: i32, id: &str, at_second: i64| {
        let ended = json!({"exitCode": code, "reason": "Error", "containerID": "containerd://c1",
            "startedAt": at(100).to_string(), "finishedAt": at(200).to_string()});
        let mut facts = Facts::new().crashed(ended);
        let kill = |container: &str, id: &str, second, why: &str| ContainerKill {
            container: container.to_owned(),
            id: id.into(),
            at: at(second),
            why: why.to_owned(),
        };
        facts.doing.kills = vec![kill("other", "o", 150, "not this one"), kill("c", id, at_second, liveness)];
        facts
    };
    for code in [0, 2, 137, 143] {
        let stopped = format!("was stopped by hostlet (exit code {code}): {liveness}");
        facts(code, "c1", 195).says(Verdict::Wrong, &stopped, "failureThreshold");
    }
    // The status has whole seconds.
    holds(&facts(143, "c1", 200).explained(), ("", "was stopped by hostlet", "failureThreshold"));
    // Its own end, just before hostlet would have stopped it.
    holds(&facts(143, "c1", 202).explained(), ("", "exit code 143, SIGTERM", "no record"));
    // A stop of another instance.
    holds(&facts(143, "c0", 195).explained(), ("", "exit code 143, SIGTERM", "only until it restarts"));
    holds(&facts(0, "c0", 195).explained(), ("", "Container c ended with exit code 0", "restartPolicy"));
    let mut resized = facts(137, "c1", 195);
    resized.doing.kills[1].why = "Container c resize requires restart".to_owned();
    holds(&resized.explained(), ("", "resize requires restart", "read its log"));
}

#[test]
fn log_ends_with_a_remedy() {
    for (words, remedy) in [
        ("httpd: bind: Address already in use", "ss -ltnp"),
        ("sh: can't create /x: Read-only file system", "emptyDir"),
        ("exec /app: exec format error", "uname -m"),
        ("exec /run.sh: no such file or directory", "first line of the script"),
        ("chown: /data: Operation not permitted", "capabilities"),
        ("open /data/x: permission denied", "runAsUser"),
        ("write /cache/x: no space left on device", "df -h"),
        ("wget: bad address 'db'; Temporary failure in name resolution", "dnsPolicy"),
        ("dial tcp: lookup db on 10.96.0.10:53: no such host", "dnsPolicy"),
        ("curl: (6) Could not resolve host: db", "dnsPolicy"),
        ("dial tcp 10.0.0.3:5432: connect: connection refused", "does not listen"),
    ] {
        let message = Facts::new().crashed(json!({"exitCode": 1, "reason": "Error", "message": words}));
        let mut log = Facts::new().crashed(json!({"exitCode": 1, "reason": "Error"}));
        log.log_ends.insert("c".to_owned(), words.to_owned());
        for (facts, how) in [(message, "and said last: "), (log, "its log ends with ")] {
            let said = facts.explained();
            holds(&said, (words, how, remedy));
            assert!(said.sentence.contains(words), "{said:?}");
            assert!(
                said.remedy.as_deref().unwrap_or_default().contains("hostlet logs web-n --previous"),
                "{said:?}"
            );
        }
    }
}

#[test]
fn rejected_pods() {
    for (reason, message, cause, remedy) in [
        (
            "PodFeatureUnsupported",
            "spec.containers[0].lifecycle: Not supported by hostlet yet: lifecycle hooks and stop signals are \
             not applied",
            "spec.containers[0].lifecycle: Not supported by hostlet yet",
            "remove these fields",
        ),
        (
            "SysctlForbidden",
            r#"forbidden sysctl: "kernel.msgmax" not allowlisted"#,
            "forbidden sysctl",
            "allowedUnsafeSysctls",
        ),
        ("OutOfpods", "Node didn't have enough resource: pods", "enough resource: pods", "maxPods"),
        (
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 500000, used: 0, capacity: 2000",
            "enough resource: cpu",
            "resources.requests",
        ),
        ("OutOfmemory", "Node didn't have enough resource: memory", "resource: memory", "resources.requests"),
        ("Evicted", "The node had condition: [DiskPressure]. ", "condition: [DiskPressure]", "short of"),
        (
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
            "free ports",
            "hostPort",
        ),
        (
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
            "affinity/selector",
            "nodeSelector",
        ),
        (
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
            "the OS field",
            "spec.os",
        ),
        ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host", "AppArmor", "lsm="),
    ] {
        let mut facts = Facts::new().status(json!({
            "phase": "Failed", "reason": reason, "message": format!("Pod was rejected: {message}"),
        }));
        facts.disposition = super::Disposition::Rejected;
        holds(&facts.explained(), (reason, cause, remedy));
    }
}

#[test]
fn manifests_that_cannot_be_used() {
    for (message, remedy) in [
        (
            "not YAML or JSON: line 4 column 5: while parsing a flow mapping, did not find expected ',' or '}'",
            "indentation",
        ),
        ("line 4: spec.containers[0].imgae: unknown field, did you mean \"image\"?", "name of the field"),
        (
            "line 1: spec.containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535",
            "correct the fields",
        ),
        (
            "line 1: spec.volumes[0].configMap: Forbidden: a static pod may not reference config maps",
            "cannot refer to objects of the cluster",
        ),
        ("pod default/a is already defined by /m/a.json; rename one of the two", "rename the pod"),
        (
            "line 1: secret default/s: others than root may read or change the file: chmod 600 /m/s.yaml",
            "run that command",
        ),
        (
            "line 1: the ConfigMap \"c\" has no effect: this node has an API server; create it there, and remove it here",
            "in the cluster",
        ),
        ("the pod of /m/a.json has the same uid u; remove the uid from one of the two", "metadata.uid"),
        (
            "the file holds a Deployment of apiVersion apps/v1, not a Pod of apiVersion v1; hostlet runs only \
             pods from manifests",
            "kind Pod",
        ),
        ("the file holds 2 documents; put each pod into its own file", "its own file"),
        ("the file is empty; it should contain one v1 Pod", "write a pod"),
        ("the file is not UTF-8 text (byte 3); save it as UTF-8", "UTF-8"),
        ("the file is larger than 10 MiB, the limit for manifests", "it is the right file"),
        ("the target of the symbolic link does not exist", "the target of the link"),
        ("a named pipe is not a manifest; only regular files are read", "move it out"),
        ("cannot read the file: Permission denied (os error 13)", "root can read"),
        ("cannot list the manifests in /m: Permission denied (os error 13)", "staticPodPath"),
    ] {
        let broken = ManifestProblem { message: message.to_owned(), ..problem(OWN_FILE, None) };
        let said = unknown("web", &[], std::slice::from_ref(&broken), false, "n");
        holds(&said, (message, "its manifest cannot be used", remedy));
        assert!(said.sentence.contains(message), "{said:?}");
    }
}

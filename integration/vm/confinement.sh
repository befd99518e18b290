# shellcheck shell=bash
# The scenarios about what confines a container: user namespaces, read-only mounts, AppArmor. Sourced after node.sh.

# A pod in a user namespace of its own, with volumes of every kind. usage: isolated NAME
isolated() {
  cat <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 2000}
  volumes:
    - {name: disk, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory}}
    - {name: settings, configMap: {name: settings}}
    - {name: login, secret: {secretName: login, defaultMode: 0400}}
    - {name: facts, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      securityContext: {runAsUser: 1000}
      command: [sh, -c, "touch /disk/mine /memory/mine && exec sleep infinity"]
      volumeMounts:
        - {name: disk, mountPath: /disk}
        - {name: memory, mountPath: /memory}
        - {name: settings, mountPath: /settings}
        - {name: login, mountPath: /login}
        - {name: facts, mountPath: /facts}
    - name: root
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      securityContext: {procMount: Unmasked}
      command: [sleep, infinity]
      volumeMounts: [{name: disk, mountPath: /disk, subPath: part}]
YAML
}

# A directory with another file system in it, mounted read-only without and with what is in it. usage: reader NAME
reader() {
  cat <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: tree, hostPath: {path: /srv/tree}}]
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sleep, infinity]
      volumeMounts:
        - {name: tree, mountPath: /plain, readOnly: true}
        - {name: tree, mountPath: /possible, readOnly: true, recursiveReadOnly: IfPossible}
        - {name: tree, mountPath: /all, readOnly: true, recursiveReadOnly: Enabled}
YAML
}

# The UID of a pod. usage: pod_uid NAME
pod_uid() { vm "hostlet pods $1 -o json | jq -r '.items[0].metadata.uid'"; }

# The first of the host's IDs that a pod has, as hostlet recorded it. usage: first_id NAME
first_id() { vm "jq -r '.uidMappings[0].hostId' /var/lib/kubelet/pods/$(pod_uid "$1")/userns"; }

payload_users() { current_runtime "$1"; }

# Collects a current containerd and runc. usage: current_runtime DIRECTORY
current_runtime() {
  local go
  go=$(go_program) || die "containerd 2 and a current runc are built with Go (https://go.dev/dl/)"
  build_containerd2 "$go"
  build_runc "$go"
  cp -r "$(containerd2_dir)" "$(runc_dir)/runc" "$1/"
}

# Replaces Debian's containerd and runc by current ones, and boots a kernel that maps the IDs of every volume.
use_current_runtime() {
  vm "systemctl disable -q --now containerd.service hostlet.service; install -m 755 /payload/containerd-*/* /usr/bin/ &&
    install -m 755 /payload/runc /usr/sbin/runc && rm -f /etc/containerd/config.toml && mkdir -p /opt/cni &&
    ln -sfn /usr/lib/cni /opt/cni/bin && systemctl enable -q containerd.service hostlet.service && sync"
  # shellcheck disable=SC2034  # read at the next boot
  VM_KERNEL=newest
  vm_power_cut
  vm_boot
  vm_until 120 "containerd responds" "systemctl is-active containerd.service && ctr version"
  vm "hostlet doctor --fix"
}

scenario_users() {
  local name first second before uid
  use_current_runtime
  vm "containerd --version && runc --version && uname -r"
  vm "mkdir -p /srv/tree/inner && mount -t tmpfs inner /srv/tree/inner"
  node_objects
  for name in one two; do isolated "$name" | node_manifest "$name"; done
  reader reader | node_manifest reader
  node_ready 180 one two reader
  first=$(first_id one)
  second=$(first_id two)
  [ "$first" != "$second" ] || vm_fail "two pods have the IDs from $first on"
  for name in one two; do
    same "the IDs of $name" "0 $(first_id "$name") 65536" "$(vm "hostlet exec $name -c main -- cat /proc/self/uid_map | xargs")"
    same "the groups of $name" "0 $(first_id "$name") 65536" "$(vm "hostlet exec $name -c root -- cat /proc/self/gid_map | xargs")"
  done
  uid=$(pod_uid one)
  same "the user of a container, from the host" $((first + 1000)) \
    "$(vm "ps -o uid= -p \$(ctr -n k8s.io tasks ls | awk -v id=\$(hostlet pods one -o json |
      jq -r '.items[0].status.containerStatuses[] | select(.name == \"main\").containerID | ltrimstr(\"containerd://\")') '\$1 == id {print \$2}') | xargs")"
  # What a container sees: its own users, not those of the host.
  same "the volumes in the container" "1000:2000 /disk/mine
1000:2000 /memory/mine
0:2000 /settings/key
0:2000 /login/word
0:2000 /facts/name" "$(vm "hostlet exec one -c main -- stat -L -c '%u:%g %n' /disk/mine /memory/mine /settings/key /login/word /facts/name")"
  same "the Secret, which its group may read" open-sesame "$(vm "hostlet exec one -c main -- cat /login/word")"
  same "the same files on the host" "1000:2000
1000:2000" "$(vm "cd /var/lib/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir && stat -c %u:%g disk/mine memory/mine")"
  vm "hostlet exec one -c root -- touch /disk/by-root"
  same "a subPath" 0:2000 "$(vm "stat -c %u:%g /var/lib/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir/disk/part/by-root")"
  # procMount: Unmasked.
  same "masked paths of both containers" "yes no" "$(vm "for c in main root; do
    if hostlet exec one -c \$c -- grep -q ' /proc/kcore ' /proc/mounts; then echo yes; else echo no; fi; done | xargs")"
  # A restart of the daemon changes nothing, and a container that starts again shares the IDs of its pod.
  before=$(node_containers)
  vm "systemctl restart hostlet.service"
  node_ready 60 one two reader
  same "the containers after a restart" "$before" "$(node_containers)"
  same "the IDs after a restart" "$first $second" "$(first_id one) $(first_id two)"
  vm "hostlet restart one -c main"
  vm_until 60 "the container started again" "hostlet pods one -o json | jq -e '.items[0].status.containerStatuses[] |
    select(.name == \"main\") | .restartCount > 0 and .ready'"
  same "the IDs of the container that started again" "0 $first 65536" "$(vm "hostlet exec one -c main -- cat /proc/self/uid_map | xargs")"
  read_only_trees
  # A range is free again once its pod is gone.
  vm "rm $MANIFESTS/one.yaml"
  vm_until 60 "the pod is gone" "! ls /var/lib/kubelet/pods/$uid"
  isolated three | node_manifest three
  node_ready 120 three
  [ "$(first_id three)" != "$second" ] || vm_fail "a pod has the IDs of another one"
  vm "rm $MANIFESTS/*.yaml && umount /srv/tree/inner"
  vm_until 60 "nothing of the pods is left" "[ -z \"\$(ls /var/lib/kubelet/pods)\" ] && ! grep kubelet/pods /proc/self/mountinfo"
}

# A ConfigMap and a Secret for the pods.
node_objects() {
  node_manifest settings <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value}
YAML
  node_manifest login <<'YAML'
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {word: open-sesame}
YAML
  vm "chmod 600 $MANIFESTS/login.yaml"
}

read_only_trees() {
  local dir
  for dir in plain possible all; do
    same "a write into /$dir" 1 "$(vm_code "hostlet exec reader -- touch /$dir/file")"
  done
  same "a write into what is mounted in a tree that is read-only itself" 0 "$(vm_code "hostlet exec reader -- touch /plain/inner/file")"
  for dir in possible all; do
    same "a write into what is mounted in a tree that is read-only throughout" 1 "$(vm_code "hostlet exec reader -- touch /$dir/inner/file")"
  done
  same "what is reported" "Disabled Enabled Enabled" "$(vm "hostlet pods reader -o json | jq -r '.items[0].status.containerStatuses[0] |
    [.volumeMounts[] | select(.name == \"tree\") | .recursiveReadOnly // \"null\"] | join(\" \")'")"
}

# The exit code of a command in the VM.
vm_code() { vm "($1) >/dev/null 2>&1; echo \$?"; }

scenario_apparmor() {
  local profile
  # One that only forbids a file.
  vm "printf '%s\n' 'profile no-secrets flags=(attach_disconnected) {' '  file,' '  capability,' '  signal,' '  deny /etc/passwd r,' '}' \
    >/run/no-secrets && apparmor_parser -r /run/no-secrets"
  while read -r profile; do
    sleeper "$(cut -d' ' -f1 <<<"$profile")" | sed "s/^spec:/&\n  securityContext: {appArmorProfile: $(cut -d' ' -f2- <<<"$profile")}/" |
      node_manifest "$(cut -d' ' -f1 <<<"$profile")"
  done <<'PODS'
default {type: RuntimeDefault}
free {type: Unconfined}
local {type: Localhost, localhostProfile: no-secrets}
missing {type: Localhost, localhostProfile: nowhere}
PODS
  node_ready 120 default free local
  same "the profiles" "cri-containerd.apparmor.d (enforce)
unconfined
no-secrets (enforce)" "$(vm "for pod in default free local; do hostlet exec \$pod -- cat /proc/1/attr/current; done")"
  same "reading what the profile forbids" 1 "$(vm_code "hostlet exec local -- cat /etc/passwd")"
  same "reading it without the profile" 0 "$(vm_code "hostlet exec free -- cat /etc/passwd")"
  vm_until 30 "a profile that is not loaded is explained" "hostlet explain missing | grep -i apparmor"
  # Once it is loaded, its pod starts.
  vm "sed 's/no-secrets/nowhere/' /run/no-secrets | apparmor_parser -r"
  node_ready 120 missing
}

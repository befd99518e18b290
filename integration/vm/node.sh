# shellcheck shell=bash
# hostlet in the test VM: its installation, manifests, and what to look at. Sourced after machine.sh.

MANIFESTS=/etc/hostlet/manifests

# Collects what the VM gets on its second disk for every scenario: packages of two revisions, and an image. payload_NAME adds what the
# scenario NAME needs besides.
node_payload() {
  local dir=$1 revision
  build_images "$dir/images"
  rm -f "$dir"/images/*.digest "$dir/images/.lock" "$dir/images/pause.tar"
  for revision in 1 2; do
    mkdir "$dir/$revision"
    cp "$VM_PACKAGES_DIR/$revision"/*.deb "$dir/$revision/"
  done
}

# Adds a program of the tests, from the build that has hostlet. usage: payload_program DIRECTORY NAME
payload_program() {
  local program
  program=$(dirname "${HOSTLET_BIN:-$(target_directory)/debug/hostlet}")/$2
  [ -x "$program" ] || die "there is no $program: cargo build --workspace"
  strip -o "$1/$2" "$program"
}

# Installs hostlet as a user does, on a host without a network.
node_install() {
  vm "apt-get install -y -qq /payload/1/hostlet_*.deb"
  vm "hostlet doctor --fix"
  vm "cp /payload/images/busybox.tar /usr/share/hostlet/images/"
}

# Gives the VM its address in QEMU's user network and a default route, for programs that look for the address of the host.
node_network() {
  vm "ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 && ip route add default via 10.0.2.2" >/dev/null
}

# Has containerd use systemd's cgroups, as the Kubernetes documentation recommends.
# usage: node_systemd_cgroups [UNIT...]      the units to restart with it
node_systemd_cgroups() {
  vm "containerd config default | sed 's/SystemdCgroup = false/SystemdCgroup = true/; s,/opt/cni/bin,/usr/lib/cni,' \
    >/etc/containerd/config.toml && systemctl restart containerd.service $*"
}

# Adds lines to the KubeletConfiguration of the package.
# usage: node_configure LINE...
node_configure() {
  local line
  for line in "$@"; do vm "sed -i '/^kind: KubeletConfiguration/a $line' /etc/hostlet/config.yaml"; done
}

# Writes the manifest of a pod, which comes from stdin.
# usage: node_manifest NAME
node_manifest() {
  local file=$VM_DIR/manifest
  cat >"$file"
  vm_put "$file" "$MANIFESTS/$1.yaml"
}

# The beginning of a pod with one container, whose further fields follow.
# usage: one_container NAME
one_container() {
  cat <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
YAML
}

# A pod that does nothing.
# usage: sleeper NAME [REQUESTS_AND_LIMITS_AS_JSON]
sleeper() {
  one_container "$1"
  cat <<YAML
      command: [sleep, infinity]
      resources: ${2:-{\}}
YAML
}

# A pod with probes of each kind, by commands (exec) or over HTTP (httpGet), for files below /www. One wrong answer counts; only its time
# may be that of a slow machine.
# usage: probed NAME exec|httpGet
probed() {
  one_container "$1"
  cat <<YAML
      command: [sh, -c, "mkdir /www; for file in startup readiness liveness; do echo ok >/www/\$file; done; exec httpd -f -p 8080 -h /www"]
      startupProbe: {$(probe_for "$2" startup), failureThreshold: 100}
      readinessProbe: {$(probe_for "$2" readiness), failureThreshold: 1}
      livenessProbe: {$(probe_for "$2" liveness), failureThreshold: 1}
YAML
}

# usage: probe_for exec|httpGet FILE
probe_for() {
  case $1 in
    exec) printf "exec: {command: [wget, -q, -O, /dev/null, 'http://127.0.0.1:8080/%s']}" "$2" ;;
    httpGet) printf 'httpGet: {path: /%s, port: 8080}' "$2" ;;
  esac
  printf ', periodSeconds: 1, timeoutSeconds: 60'
}

# Waits until each of these pods is ready.
# usage: node_ready SECONDS NAME...
node_ready() {
  local limit=$1 name
  shift
  for name in "$@"; do
    vm_until "$limit" "the pod $name is ready" "hostlet pods -o json | jq -e --arg name $name-vm '.items[]
      | select(.metadata.name == \$name)
      | any(.status.conditions[]?; .type == \"Ready\" and .status == \"True\")' || { hostlet pods; false; }"
  done
}

# Waits until the daemon that runs now has found each of these pods ready.
# usage: node_probed SECONDS NAME...
node_probed() {
  local limit=$1 name
  shift
  for name in "$@"; do
    vm_until "$limit" "the pod $name is probed" "curl -fsS --unix-socket /run/hostlet/hostlet.sock http://hostlet/metrics/probes |
      grep 'prober_probe_total{probe_type=\"Readiness\",result=\"successful\".*pod=\"$name-vm\".* [1-9]'"
  done
}

# From now on records whatever anybody could see of the pods, a line for each whenever it changes: whether it is ready, whether its
# container has started, and its restarts.
node_observe() {
  vm "systemd-run --quiet --unit=observer bash -o pipefail -c 'while :; do seen=\$(hostlet pods -o json 2>/dev/null |
    jq -r \".items[] | select(.status.conditions) | [.metadata.name, (.status.conditions[] | select(.type == \\\"Ready\\\") | .status),
      (.status.containerStatuses[]? | .started, .restartCount)] | join(\\\" \\\")\") || continue;
    [ \"\$seen\" = \"\$last\" ] || echo \"\$seen\" >>/run/seen; last=\$seen; done'"
  vm_until 30 "the observer sees the pods" "grep -c True /run/seen"
}

# Fails if one of these pods, all there are, was seen in another state since node_observe. Then ends their readiness: that is seen.
# usage: node_stayed_ready NAME...
node_stayed_ready() {
  local name
  # While the daemon starts, it may not have read the manifests yet.
  same "what was seen of the pods" "$(printf '%s-vm True true 0\n' "$@")" "$(vm "sed '/^$/d' /run/seen | sort -u")"
  for name in "$@"; do
    vm "hostlet exec $name -- rm /www/readiness"
    vm_until 120 "the observer sees that $name is not ready" "grep -qx '$name-vm False true 0' /run/seen"
  done
}

# The running containers of the runtime by pod, each with its ID: one line per container.
node_containers() {
  vm "ctr -n k8s.io tasks ls -q | sort | while read -r id; do
      ctr -n k8s.io containers info \$id | jq -r '\"\(.Labels[\"io.kubernetes.pod.name\"]) \
\(.Labels[\"io.cri-containerd.kind\"]) \(.ID)\"'
    done | sort"
}

# Fails unless two values are equal.
same() { [ "$2" = "$3" ] || vm_fail "$1"$'\n'"expected: $2"$'\n'"found: $3"; }

# A property of the service.
node_property() { vm "systemctl show -P $1 hostlet.service"; }

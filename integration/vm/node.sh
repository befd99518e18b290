# shellcheck shell=bash
# hostlet in the test VM: its installation, manifests, and what to look at. Sourced after machine.sh.

MANIFESTS=/etc/hostlet/manifests

# Collects what the VM gets on its second disk.
node_payload() {
  local dir=$1
  build_images "$dir/images"
  rm -f "$dir"/images/*.digest "$dir/images/.lock"
  if [ -n "${HOSTLET_DEB:-}" ]; then
    cp "$HOSTLET_DEB" "$dir/hostlet.deb"
  else
    # Without what only a debugger reads: most of a development build.
    strip -o "$dir/hostlet" "$HOSTLET_BIN"
    cp "$TOP/systemd/hostlet.service" "$TOP/systemd/hostlet.slice" "$dir/"
  fi
  cat >"$dir/config.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $MANIFESTS
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: systemd
enableServer: false
healthzPort: 0
---
apiVersion: hostlet.dev/v1alpha1
kind: HostletConfiguration
imagePreloadDir: /var/lib/hostlet/images
YAML
}

node_install() {
  vm "mkdir -p /etc/hostlet $MANIFESTS /var/lib/hostlet/images && cp /payload/config.yaml /etc/hostlet/ &&
    cp /payload/images/*.tar /var/lib/hostlet/images/"
  if [ -n "${HOSTLET_DEB:-}" ]; then
    vm "dpkg -i --force-confold /payload/hostlet.deb && systemctl enable --now hostlet.service"
  else
    vm "install -m 755 /payload/hostlet /usr/bin/hostlet &&
      install -m 644 /payload/hostlet.service /payload/hostlet.slice /etc/systemd/system/ &&
      systemctl daemon-reload && systemctl enable --now hostlet.service 2>&1"
  fi
}

# Writes the manifest of a pod; its JSON comes from stdin.
# usage: node_manifest NAME
node_manifest() {
  local file=$VM_DIR/manifest
  cat >"$file"
  vm_put "$file" "$MANIFESTS/$1.yaml"
}

# A pod that does nothing, with one container.
# usage: sleeper NAME [REQUESTS_AND_LIMITS_AS_JSON]
sleeper() {
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
      command: [sleep, infinity]
      resources: ${2:-{\}}
YAML
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

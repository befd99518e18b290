# shellcheck shell=bash
# hostlet in the test VM: its installation, manifests, and what to look at. Sourced after machine.sh.

MANIFESTS=/etc/hostlet/manifests

# Collects what the VM gets on its second disk: packages of two revisions, an image, and what single scenarios need.
node_payload() {
  local dir=$1 revision
  build_images "$dir/images"
  rm -f "$dir"/images/*.digest "$dir/images/.lock" "$dir/images/pause.tar"
  ! kubernetes_program kubeadm >/dev/null || cp "$(kubernetes_program kubeadm)" "$dir/"
  ! [ -x "$(runc_dir)/runc" ] || cp -r "$(containerd2_dir)" "$(runc_dir)/runc" "$dir/"
  for revision in 1 2; do
    mkdir "$dir/$revision"
    cp "$VM_PACKAGES_DIR/$revision"/*.deb "$dir/$revision/"
  done
}

# Installs hostlet as a user does, on a host without a network.
node_install() {
  vm "apt-get install -y -qq /payload/1/hostlet_*.deb"
  vm "hostlet doctor --fix"
  vm "cp /payload/images/busybox.tar /usr/share/hostlet/images/"
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

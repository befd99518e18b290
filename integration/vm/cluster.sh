# shellcheck shell=bash
# A control plane outside of the VM, in a network namespace that the VM reaches through QEMU's user network. Sourced after node.sh,
# kubernetes.sh, pki.sh and control_plane.sh.

# Outside of QEMU's own network, 10.0.2.0/24.
CLUSTER_ADDRESS=10.77.0.1
CLUSTER_PIDS=()

# usage: in_cluster_network COMMAND [ARG...]
in_cluster_network() { nsenter "--net=/run/netns/$VM_NETNS" "$@"; }

# kubectl as the administrator. usage: cluster_kubectl ARG...
cluster_kubectl() { in_cluster_network "$(kubernetes_program kubectl)" --kubeconfig "$CLUSTER_DIR/admin.conf" "$@"; }

# usage: cluster_start PROGRAM [ARG...]
cluster_start() {
  local name=$1 args
  shift
  mapfile -t args < <(control_plane_args "$name" "$CLUSTER_DIR" "$CLUSTER_ADDRESS")
  # Not by the function above: that would put a shell between, and only the shell would be killed.
  nsenter "--net=/run/netns/$VM_NETNS" "$(kubernetes_program "$name")" "${args[@]}" "$@" >"$CLUSTER_DIR/$name.log" 2>&1 &
  CLUSTER_PIDS+=($!)
}

# Makes the network, and starts an API server in it.
cluster_begin() {
  CLUSTER_DIR=$(mktemp -d "${TMPDIR:-/tmp}/hostlet-vm-cluster.XXXXXX")
  VM_NETNS=hostlet-vm-$$
  ip netns add "$VM_NETNS"
  ip -n "$VM_NETNS" link set lo up
  ip -n "$VM_NETNS" link add api type bridge
  ip -n "$VM_NETNS" addr add "$CLUSTER_ADDRESS/24" dev api
  ip -n "$VM_NETNS" link set api up
  # A renewal within minutes is tested elsewhere; here the machine may be slow.
  export HOSTLET_TEST_CERTIFICATE_LIFETIME=1h
  prepare_control_plane "$CLUSTER_DIR" "$CLUSTER_ADDRESS"
  cluster_start etcd
  cluster_start kube-apiserver
  wait_until 120 "the API server is ready" cluster_kubectl get --raw /readyz
}

cluster_end() {
  local pid
  # Without etcd, the API server would take minutes to stop.
  for pid in "${CLUSTER_PIDS[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for pid in "${CLUSTER_PIDS[@]}"; do wait "$pid" 2>/dev/null || true; done
  [ -z "${VM_NETNS:-}" ] || ip netns del "$VM_NETNS"
  [ -z "${CLUSTER_DIR:-}" ] || rm -rf "$CLUSTER_DIR"
}

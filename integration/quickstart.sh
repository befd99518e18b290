#!/usr/bin/env bash
# From a fresh Debian or Ubuntu host to a running pod, without a registry: alone on the host, or in a cluster.
#
# usage: sudo integration/quickstart.sh             install what is missing, build, start, show a pod
#        sudo integration/quickstart.sh --cluster   the same, as the node of a cluster with its own control plane
#        sudo integration/quickstart.sh --down      remove everything that these created (installed packages stay)
#
# It runs its own containerd (root, state, socket, network, cgroup), so that the host's is neither needed nor touched.
# hostlet is built with the profile "quickstart" of Cargo.toml, which compiles fast, for trying it out. HOSTLET_BIN=PATH uses one that
# is already built, such as a release (cargo build --release). The control plane is built with Go (the first time takes about ten
# minutes) or taken from KUBEBUILDER_ASSETS; with HOSTLET_TEST_KUBELET=stock its node is a stock kubelet.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source=integration/lib/images.sh
. "$here/lib/images.sh"
# shellcheck source=integration/lib/containerd.sh
. "$here/lib/containerd.sh"
# shellcheck source=integration/lib/service.sh
. "$here/lib/service.sh"
# shellcheck source=integration/lib/cleanup.sh
. "$here/lib/cleanup.sh"
# shellcheck source=integration/lib/cgroup.sh
. "$here/lib/cgroup.sh"
# shellcheck source=integration/lib/containerd2.sh
. "$here/lib/containerd2.sh"
# shellcheck source=integration/lib/kubernetes.sh
. "$here/lib/kubernetes.sh"
# shellcheck source=integration/lib/pki.sh
. "$here/lib/pki.sh"
# shellcheck source=integration/lib/control_plane.sh
. "$here/lib/control_plane.sh"
# shellcheck source=integration/lib/quickstart_cluster.sh
. "$here/lib/quickstart_cluster.sh"
# shellcheck source=integration/lib/build_progress.sh
. "$here/lib/build_progress.sh"

# Of both ways: install, build, start, wait for the pod.
STAGES=4
NAME=hostlet-quickstart
STATE=/var/lib/$NAME
RUN=/run/$NAME
LOG=/var/log/$NAME
BRIDGE=hostletqs0
SUBNET=10.244.222.0/24
CGROUP=hostletquickstart # no dash: systemd would read it as a path of slices
CONTAINERD_CONFIG=$STATE/containerd.toml
CONTAINERD_SOCKET=$RUN/containerd/containerd.sock
HOSTLET_CONFIG=$STATE/config.yaml
HOSTLET_SOCKET=$RUN/hostlet.sock
MANIFESTS=$STATE/manifests
# The agent of the node: hostlet, or the stock kubelet for comparison.
AGENT=hostlet
# The command prefix that runs a program on the node's network; empty on the host's network.
ON_NODE=()
# The cluster of --cluster.
CONTROL_PLANE_DIR=$STATE/control-plane
CLUSTER_CABLE=hostlet-api
HOST_ADDRESS=10.244.223.1
CLUSTER_ADDRESS=10.244.223.2
# No host has this address: packets routed there are lost.
CLUSTER_NOBODY=10.244.223.6
CLUSTER_NODE=node1
CLUSTER_KUBECONFIG=$CONTROL_PLANE_DIR/admin.conf

# Whether a file has exactly this content.
holds() { [ -e "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# Writes a file atomically, so that no reader sees a part of it.
put() {
  printf '%s\n' "$2" >"$(dirname "$1")/.new"
  mv "$(dirname "$1")/.new" "$1"
}

# The driver of the pods' cgroups: systemd if it is init and the hierarchy is the unified one, else cgroupfs.
cgroup_driver() { if has_systemd && has_cgroup_v2; then echo systemd; else echo cgroupfs; fi; }

# Records what --down must restore. Only the first run knows that; an interrupted one left its record.
note_before() {
  [ -e "$STATE/before" ] && return
  mkdir -p "$STATE"
  {
    printf 'ip_forward=%s\n' "$(cat /proc/sys/net/ipv4/ip_forward)"
    for dir in /var/log/containers /var/lib/cni /run/containerd; do
      [ -e "$dir" ] || printf 'absent=%s\n' "$dir"
    done
  } >"$STATE/before.new"
  mv "$STATE/before.new" "$STATE/before"
}

build_hostlet() {
  if [ -n "${HOSTLET_BIN:-}" ]; then
    [[ -x $HOSTLET_BIN && ${HOSTLET_BIN##*/} = hostlet ]] || die "HOSTLET_BIN=$HOSTLET_BIN is no program named hostlet"
    note "hostlet: using $HOSTLET_BIN"
    return
  fi
  note "hostlet: cargo build --profile quickstart (some minutes the first time; not the optimized build of the packages)"
  build_with_progress hostlet quickstart || die "hostlet did not build"
  HOSTLET_BIN=$(cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)/quickstart/hostlet
}

start_containerd() {
  local systemd=false network config
  [ "$(cgroup_driver)" != systemd ] || systemd=true
  mkdir -p "$STATE/containerd" "$STATE/cni/net.d" "$STATE/cni/addresses" "$RUN/containerd"
  network=$(cni_config "$NAME" "$BRIDGE" "$SUBNET" "$STATE/cni/addresses")
  config=$(containerd_config "$STATE/containerd" "$RUN/containerd" "$STATE/cni/net.d" "$systemd")
  if holds "$CONTAINERD_CONFIG" "$config" && holds "$STATE/cni/net.d/10-$NAME.conflist" "$network" &&
    service_running containerd "$CONTAINERD_CONFIG" && containerd_answers "$CONTAINERD_SOCKET" >/dev/null; then
    note "containerd: already running, pid $(pids_of containerd "$CONTAINERD_CONFIG")"
    return
  fi
  # Stopped before its files change, so that a running containerd always has the configuration on disk.
  service_stop "$NAME-containerd" containerd "$CONTAINERD_CONFIG" 20
  put "$STATE/cni/net.d/10-$NAME.conflist" "$network"
  put "$CONTAINERD_CONFIG" "$config"
  service_start "$NAME-containerd" "$LOG/containerd.log" "${ON_NODE[@]}" "$(command -v containerd)" --config "$CONTAINERD_CONFIG"
  wait_until 30 "containerd responds (its log: $LOG/containerd.log)" containerd_answers "$CONTAINERD_SOCKET" || {
    tail -n 20 "$LOG/containerd.log" >&2
    exit 1
  }
  note "containerd: $(containerd_version) started, its own instance at $CONTAINERD_SOCKET"
}

hostlet_config() {
  local resolv=/etc/resolv.conf
  # The stub of systemd-resolved listens on the host's loopback, where no pod reaches it.
  [ -e /run/systemd/resolve/resolv.conf ] && resolv=/run/systemd/resolve/resolv.conf
  cat <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $MANIFESTS
containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
podLogsDir: $LOG/pods
cgroupDriver: $(cgroup_driver)
cgroupRoot: /$CGROUP
resolvConf: $resolv
healthzPort: 0
YAML
  if has_cluster; then
    cluster_config
  else
    printf '# Nothing listens on the network, so a kubelet on the same host is not in the way.\nenableServer: false\n'
  fi
  printf '# The rules of the host stay as they are.\nmakeIPTablesUtilChains: false\n'
  printf '# A host that is short of disk or memory shows its first pod nevertheless.\nevictionHard: {memory.available: 50Mi, nodefs.available: 50Mi, imagefs.available: 50Mi}\n'
  has_cgroup_v2 || printf '# This host still has cgroup version 1.\nfailCgroupV1: false\n'
  [ "$(wc -l </proc/swaps)" -le 1 ] || printf '# This host uses swap.\nfailSwapOn: false\n'
  [ "$AGENT" = hostlet ] || return 0
  cat <<YAML
---
apiVersion: hostlet.dev/v1alpha1
kind: HostletConfiguration
socket: $HOSTLET_SOCKET
YAML
}

hostlet_pods() { timeout 10 "$HOSTLET_BIN" pods --socket "$HOSTLET_SOCKET" "$@"; }

# Whether the daemon responds; if it has exited, prints the end of its log.
hostlet_up() {
  service_running hostlet "$HOSTLET_CONFIG" || {
    echo "hostlet has exited; its log ends with:"
    tail -n 20 "$LOG/hostlet.log"
    return 1
  }
  hostlet_pods
}

start_hostlet() {
  local config pid flags=()
  mkdir -p "$MANIFESTS" "$STATE/kubelet" "$LOG/pods"
  config=$(hostlet_config)
  [ "$(wc -l </proc/swaps)" -le 1 ] || note "this host uses swap: hostlet is configured to start nevertheless (failSwapOn: false)"
  pid=$(pids_of "$AGENT" "$HOSTLET_CONFIG")
  if [ -n "$pid" ]; then
    # If the program was rebuilt since, the kernel's link ends with "(deleted)".
    if holds "$HOSTLET_CONFIG" "$config" && [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$HOSTLET_BIN")" ]; then
      note "hostlet: already running, pid $pid"
      return
    fi
    note "hostlet: its program or configuration changed; restarting it (the pods continue)"
    service_stop "$NAME" "$AGENT" "$HOSTLET_CONFIG" 30
  fi
  put "$HOSTLET_CONFIG" "$config"
  if has_cluster; then
    flags=(--kubeconfig "$CONTROL_PLANE_DIR/node.conf" --hostname-override "$CLUSTER_NODE" --node-ip "$CLUSTER_ADDRESS")
  fi
  service_start "$NAME" "$LOG/$AGENT.log" "${ON_NODE[@]}" "$HOSTLET_BIN" --config "$HOSTLET_CONFIG" \
    --root-dir "$STATE/kubelet" "${flags[@]}"
  if [ "$AGENT" != hostlet ]; then
    note "$AGENT: started, configured by $HOSTLET_CONFIG"
    return
  fi
  wait_until 30 "hostlet responds" hostlet_up || exit 1
  note "hostlet: started, configured by $HOSTLET_CONFIG"
}

# Prints the sample pod's IP once it runs and is ready; otherwise prints the pods, for the error message, and fails.
web_ip() {
  local ip
  ip=$(hostlet_pods -o json | jq -er '.items[]
    | select(.metadata.namespace == "default" and (.metadata.name | startswith("web-")))
    | select(.status.phase == "Running")
    | select(any(.status.conditions[]?; .type == "Ready" and .status == "True"))
    | .status.podIP // empty') || {
    hostlet_pods -o wide
    return 1
  }
  printf '%s\n' "$ip"
}

ask_web() { curl --silent --show-error --fail --noproxy '*' --max-time 5 "http://$1:8080/"; }

show_web() {
  local ip log
  wait_until 60 "the pod web runs (hostlet's log: $LOG/hostlet.log)" web_ip || {
    tail -n 20 "$LOG/hostlet.log" >&2
    exit 1
  }
  ip=$(web_ip)
  say "the pods of this host:  hostlet pods"
  hostlet_pods -o wide
  say "its page:  curl http://$ip:8080/"
  wait_until 10 "the pod responds to HTTP" ask_web "$ip" || exit 1
  ask_web "$ip"
  log=$(find "$LOG/pods" -path '*/default_web-*/httpd/*.log' -printf '%T@ %p\n' | sort -rn | sed -n '1s/^[^ ]* //p')
  say "its log:  $log"
  tail -n 10 "$log"
}

show_next() {
  say "next commands"
  note "sudo $HOSTLET_BIN pods --socket $HOSTLET_SOCKET"
  note "sudo $HOSTLET_BIN logs web --socket $HOSTLET_SOCKET"
  note "sudo $HOSTLET_BIN explain web --socket $HOSTLET_SOCKET"
  note "sudo cp YOUR-POD.yaml $MANIFESTS/     (a pod starts; edit the file: it is replaced; remove it: it stops)"
  note "sudo tail -f $LOG/hostlet.log"
  local crictl="sudo crictl -r unix://$CONTAINERD_SOCKET pods"
  command -v crictl >/dev/null || crictl+="     (crictl comes with cri-tools, where the distribution has it)"
  note "$crictl"
  note "sudo $here/quickstart.sh --down"
}

# Like `up`, on a network with a control plane, and with a Deployment instead of a manifest.
up_cluster() {
  need_root "$@"
  ! [ -e "$STATE" ] || has_cluster || die "a quickstart without a cluster exists: $here/quickstart.sh --down removes it"
  stage "installing what is missing"
  install_packages
  stage "building"
  note_before
  build_kubernetes "${CONTROL_PLANE[@]}" kube-proxy kubectl
  if [ "${HOSTLET_TEST_KUBELET:-hostlet}" = stock ]; then
    AGENT=kubelet
    build_kubernetes kubelet
    HOSTLET_BIN=$(kubernetes_program kubelet)
  else
    [ -n "${HOSTLET_BIN:-}" ] || install_rust
    build_hostlet
  fi
  build_images "$STATE/images"
  stage "starting"
  ON_NODE=(nsenter --net="/run/netns/$NAME")
  make_cluster_network
  start_control_plane
  start_containerd
  import_images "$CONTAINERD_SOCKET" "$STATE/images"
  [ "$(cgroup_driver)" = systemd ] || make_cgroup "$CGROUP"
  start_hostlet
  stage "waiting for a deployment"
  show_deployment
  show_next_in_cluster
}

up() {
  need_root "$@"
  ! has_cluster || die "a quickstart with a cluster exists: $here/quickstart.sh --down removes it"
  stage "installing what is missing"
  install_packages
  [ -n "${HOSTLET_BIN:-}" ] || install_rust
  stage "building"
  note_before
  build_hostlet
  build_images "$STATE/images"
  note "images: $PAUSE_IMAGE and $BUSYBOX_IMAGE"
  stage "starting"
  start_containerd
  import_images "$CONTAINERD_SOCKET" "$STATE/images"
  start_hostlet
  if [ -e "$MANIFESTS/web.yaml" ]; then
    note "manifest: $MANIFESTS/web.yaml is already there"
  else
    put "$MANIFESTS/web.yaml" "$(cat "$here/samples/web.yaml")"
    note "manifest: wrote $MANIFESTS/web.yaml"
  fi
  stage "waiting for the pod"
  show_web
  show_next
}

# Whether no process of a pod is left. (Records of dead containers may be; they are removed with containerd's directory.)
nothing_runs() {
  local tasks
  tasks=$(timeout 10 ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks ls) || return 1
  printf '%s\n' "$tasks"
  [ "$(wc -l <<<"$tasks")" -le 1 ]
}

# Lets hostlet stop the pods gracefully, each within its grace period.
end_pods() {
  find "$MANIFESTS" -mindepth 1 -delete 2>/dev/null || true
  service_running containerd "$CONTAINERD_CONFIG" || return 0
  if has_cluster && [ -e "$CLUSTER_KUBECONFIG" ]; then
    cluster_kubectl delete deployments,daemonsets,statefulsets,jobs,pods --all --all-namespaces --timeout=50s \
      >/dev/null 2>&1 || true
  fi
  if service_running hostlet "$HOSTLET_CONFIG" || service_running kubelet "$HOSTLET_CONFIG"; then
    wait_until 60 "hostlet has stopped all pods" nothing_runs || warn "killing the remaining pods"
  fi
}

# Kills what hostlet did not stop.
end_leftovers() {
  local task
  if service_running containerd "$CONTAINERD_CONFIG"; then
    for task in $(timeout 10 ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks ls -q 2>/dev/null); do
      timeout 10 ctr -a "$CONTAINERD_SOCKET" -n k8s.io tasks rm -f "$task" >/dev/null 2>&1 || true
    done
  fi
  service_stop "$NAME-containerd" containerd "$CONTAINERD_CONFIG" 20
  end_shims "$CONTAINERD_SOCKET" "$RUN/containerd"
  ! has_systemd || systemctl stop "$CGROUP.slice" 2>/dev/null || true
  remove_cgroup "$CGROUP"
  remove_cgroup "$CGROUP.slice"
}

put_back() {
  local line
  while read -r line; do
    case $line in
      ip_forward=0)
        note "net.ipv4.ip_forward was off before; switching it off again"
        echo 0 >/proc/sys/net/ipv4/ip_forward
        ;;
      absent=*) find "${line#absent=}" -depth -type d -empty -delete 2>/dev/null || true ;;
    esac
  done <"$STATE/before"
}

down() {
  need_root "$@"
  if ! [ -e "$STATE" ] && ! [ -e "$RUN" ] && ! [ -e "$LOG" ]; then
    say "there is no quickstart to remove"
    return
  fi
  say "stopping the pods"
  end_pods
  say "stopping hostlet and containerd"
  service_stop "$NAME" hostlet "$HOSTLET_CONFIG" 30
  service_stop "$NAME" kubelet "$HOSTLET_CONFIG" 30
  stop_control_plane
  end_leftovers
  say "removing networks, files and cgroups"
  unmount_below "$RUN"
  unmount_below "$STATE"
  ! [ -e "/sys/class/net/$BRIDGE" ] || ip link delete "$BRIDGE"
  remove_cluster_network
  remove_nat_rules "$NAME"
  remove_cni_results "$NAME" "$STATE/containerd"
  remove_log_links "$LOG/pods"
  [ ! -e "$STATE/before" ] || put_back
  # The state last: while it exists, an interrupted --down can be run again.
  rm -rf --one-file-system "$RUN" "$LOG" "$STATE"
  say "all removed (the installed packages and the build stay)"
}

case ${1:-} in
  "") up "$@" ;;
  --cluster) up_cluster "$@" ;;
  --down) down "$@" ;;
  -h | --help) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" ;;
  *) die "unknown argument: $1 (try --help)" ;;
esac

# shellcheck shell=bash
# The scenarios in which the node runs out of disk, inodes or memory, because of a pod and because of others; with
# HOSTLET_TEST_KUBELET=stock, those of the stock kubelet, for comparison. Each fault says who was evicted and how soon there was enough
# again; whatever it was, the pods calm and modest stay as they are. Pods of manifests are never evicted, so the others come from an API
# server. Sourced after cluster.sh and e2e_node.sh.

# The file system of images, containers, volumes and logs.
SMALL_DISK=/srv/node
SMALL_DISK_SIZE=256M
SMALL_DISK_INODES=12000
# Images that nothing uses, of 12 MiB: twice that in containerd, packed and unpacked.
FILLERS=7
# The state of the pods that nothing may touch, by name.
declare -A BYSTANDERS

payload_pressure_disk() {
  local number rootfs
  payload_pressure_memory "$1"
  for number in $(seq "$FILLERS"); do
    rootfs=$(mktemp -d)
    head -c 12M /dev/urandom >"$rootfs/filler"
    make_image "$1/images/filler$number.tar" "hostlet.local/filler:$number" "$rootfs" '{}'
    rm -rf "$rootfs" "$1/images/filler$number.tar.digest"
  done
}

payload_pressure_memory() {
  local programs=(etcd kube-apiserver kubectl)
  ! runs_stock_kubelet || programs+=(kubelet)
  build_kubernetes "${programs[@]}"
  ! runs_stock_kubelet || cp "$(kubernetes_program kubelet)" "$1/"
}

before_pressure_disk() { cluster_begin; }
before_pressure_memory() { cluster_begin; }
after_pressure_disk() { cluster_end; }
after_pressure_memory() { cluster_end; }

# Moves what the runtime and the kubelet write to a small disk, also after a reboot.
node_small_disk() {
  vm "systemctl stop hostlet.service containerd.service && fallocate -l $SMALL_DISK_SIZE /small-disk &&
    mkfs.ext4 -q -m 0 -N $SMALL_DISK_INODES /small-disk && mkdir -p $SMALL_DISK && echo '/small-disk $SMALL_DISK ext4 loop 0 0' >>/etc/fstab &&
    mount $SMALL_DISK && for dir in /var/lib/containerd /var/lib/kubelet /var/log/pods; do
      mkdir -p \$dir && cp -a \$dir $SMALL_DISK/ && own=$SMALL_DISK/\${dir##*/} && echo \"\$own \$dir none bind 0 0\" >>/etc/fstab &&
      mount \$dir || exit 1
    done && systemctl daemon-reload && systemctl start containerd.service && sync"
}

# Imports unused images. usage: node_fillers NUMBER...
node_fillers() {
  local number
  for number in "$@"; do vm "ctr -n k8s.io images import /payload/images/filler$number.tar" >/dev/null; done
}

# How many of them the runtime has.
count_fillers() { vm "ctr -n k8s.io images ls -q | grep -c '^hostlet.local/filler:' || true"; }

# Has the kubelet under test join the control plane. usage: pressure_node LINE...      of the KubeletConfiguration
pressure_node() {
  make_node_certificates "$CLUSTER_DIR/pki" vm 10.0.2.15
  kubeconfig "$CLUSTER_DIR/pki" vm "https://$CLUSTER_ADDRESS:6443" >"$CLUSTER_DIR/vm.conf"
  vm_put "$CLUSTER_DIR/vm.conf" /etc/hostlet/node.conf
  # The saved VM's clock stood still, and certificates have times.
  vm "chmod 600 /etc/hostlet/node.conf && date -s @$(date +%s)" >/dev/null
  node_network
  node_configure "$@" 'evictionPressureTransitionPeriod: 15s' 'imageMinimumGCAge: 1s' 'nodeStatusUpdateFrequency: 4s' 'imageGCHighThresholdPercent: 100'
  vm "ctr -n k8s.io images import /payload/images/busybox.tar" >/dev/null
  if runs_stock_kubelet; then
    vm "systemctl disable -q --now hostlet.service && sed '/^---/,\$d' /etc/hostlet/config.yaml >/etc/stock.yaml &&
      echo 'cgroupDriver: cgroupfs' >>/etc/stock.yaml && systemd-run --quiet --unit=stock -p KillMode=process -p Delegate=yes \
      /payload/kubelet --config=/etc/stock.yaml --kubeconfig=/etc/hostlet/node.conf --hostname-override=vm"
  else
    vm "echo HOSTLET_FLAGS=--kubeconfig=/etc/hostlet/node.conf >/etc/default/hostlet && systemctl restart hostlet.service"
  fi
  cluster_until 180 "the node is ready" cluster_kubectl wait --for=condition=Ready node/vm --timeout=2s
  # That of the controllers, which are not here.
  cluster_kubectl create serviceaccount default >/dev/null
  bystanders
}

# Two pods that use next to nothing, of a manifest and of the API server.
bystanders() {
  sleeper calm | node_manifest calm
  bound modest '[sleep, infinity]' | pressure_pod
  # What the API server has of them may be older than the boot.
  vm_until 180 "the pods run" "[ \$(ctr -n k8s.io tasks ls -q | wc -l) -eq 4 ]"
  cluster_ready calm-vm modest
  watch_bystanders
}

# From now on nothing may touch them.
watch_bystanders() {
  BYSTANDERS=([calm-vm]=$(pod_state calm-vm) [modest]=$(pod_state modest))
}

# Waits on the side of the control plane; a failure ends the scenario. usage: cluster_until SECONDS WHAT COMMAND [ARG...]
cluster_until() {
  local what=$2
  wait_until "$@" || {
    cluster_kubectl get pods,events -A -o wide >&2 || true
    vm_fail "not seen: $what"
  }
}

# usage: cluster_ready POD...
cluster_ready() {
  local pod
  for pod in "$@"; do
    cluster_until 180 "the pod $pod is ready" cluster_kubectl wait --for=condition=Ready "pod/$pod" --timeout=2s
  done
}

# A pod of this node that an API server has. usage: bound NAME COMMAND
bound() {
  one_container "$1" | sed 's/^spec:/&\n  nodeName: vm\n  automountServiceAccountToken: false\n  volumes: [{name: data, emptyDir: {}}]/'
  printf '      command: %s\n      volumeMounts: [{name: data, mountPath: /data}]\n' "$2"
}

# Creates the pod of stdin.
pressure_pod() {
  cat >"$CLUSTER_DIR/pod.yaml"
  cluster_kubectl apply -f "$CLUSTER_DIR/pod.yaml" >/dev/null || vm_fail "the pod was not created"
}

# The names of the pods that were evicted.
evicted() {
  cluster_kubectl get pods -o json | jq -r '[.items[] | select(.status.reason == "Evicted") | .metadata.name] | sort | join(" ")'
}

# Whether these pods, and no others, were evicted. usage: evicted_are NAMES
evicted_are() { [ "$(evicted | tee /dev/stderr)" = "$1" ]; }

# Whether a condition of the node has this status. usage: condition_is TYPE STATUS
condition_is() {
  cluster_kubectl get node vm -o json | jq -e --arg type "$1" --arg status "$2" \
    '.status.conditions[] | select(.type == $type) | .status == $status'
}

# What must stay the same of a pod: containers, restarts, phase. usage: pod_state POD
pod_state() {
  node_containers | grep "^$1 "
  cluster_kubectl get pod "$1" -o json | jq -r '[.metadata.uid, .status.phase, (.status.containerStatuses[] | .ready, .restartCount)] | join(" ")'
}

is_undisturbed() { [ "${BYSTANDERS[$1]}" = "$(pod_state "$1")" ]; }

# One fault, after what caused it: waits for the condition, for the evictions, and until there is enough again. fault_is_over is next.
# usage: fault SINCE WHAT CONDITION EVICTED RELIEVED      EVICTED: the names of pods; RELIEVED: a script that succeeds once there is enough
fault() {
  local since=$1 what=$2 condition=$3 names=$4 relieved=$5 seen
  cluster_until 120 "$condition because of $what" condition_is "$condition" True
  seen=$((SECONDS - since))
  cluster_until 180 "evicted because of $what: ${names:-nobody}" evicted_are "$names"
  vm_until 180 "enough again after $what" "$relieved"
  note "$what: $condition after $seen s, enough again after $((SECONDS - since)) s, evicted: ${names:-nobody}"
}

# Waits until the condition is false. Fails if anybody else was evicted or touched meanwhile, and forgets the evicted pods.
# usage: fault_is_over WHAT CONDITION EVICTED
fault_is_over() {
  local pod
  cluster_until 300 "$2 is over after $1" condition_is "$2" False
  same "evicted because of $1" "$3" "$(evicted)"
  for pod in calm-vm modest; do
    # On a busy machine a look may fail; what was touched never is the same again.
    [ "$3" = "$pod" ] || is_undisturbed "$pod" || is_undisturbed "$pod" ||
      same "the pod $pod after $1" "${BYSTANDERS[$pod]}" "$(pod_state "$pod")"
  done
  # shellcheck disable=SC2086  # words
  [ -z "$3" ] || cluster_kubectl delete pod $3 --timeout=60s >/dev/null || vm_fail "an evicted pod was not deleted"
}

# Fails unless the node reported such an event. usage: node_reported REASON
node_reported() {
  cluster_until 60 "the node's event $1" eval "cluster_kubectl get events -A -o json | jq -e --arg reason $1 '[.items[] |
    select(.involvedObject.kind == \"Node\" and .reason == \$reason)] | length > 0'"
}

disk_has() { printf '[ "$(df --output=avail -B1M %s | tail -1)" -ge %s ] || { df %s; false; }' "$SMALL_DISK" "$1" "$SMALL_DISK"; }

scenario_pressure_disk() {
  local since
  node_small_disk
  # Seen by the first look of the kubelet.
  node_fillers 1 2 3 4
  pressure_node 'evictionHard: {memory.available: 100Mi, nodefs.available: 80Mi, imagefs.available: 80Mi, nodefs.inodesFree: "5000", imagefs.inodesFree: "5000"}' \
    'containerLogMaxSize: 1Gi'

  # Images that nobody uses go, and nobody else.
  since=$SECONDS
  node_fillers 5 6 7
  fault "$since" "unused images" DiskPressure "" "$(disk_has 80)"
  fault_is_over "unused images" DiskPressure ""
  [ "$(count_fillers)" -lt "$FILLERS" ] || vm_fail "no image was removed"
  node_reported EvictionThresholdMet
  vm "ctr -n k8s.io images ls -q | sed -n '/filler/p' | xargs -r ctr -n k8s.io images rm --sync" >/dev/null
  # The stock kubelet removes the image of sandboxes from a runtime that does not pin it.
  ! runs_stock_kubelet || vm "ctr -n k8s.io images import /usr/share/hostlet/images/pause.tar && ctr -n k8s.io images tag --force \
    hostlet.local/pause:1 registry.k8s.io/pause:3.6" >/dev/null

  since=$SECONDS
  bound logger '[sh, -c, "yes $(printf %08000d 0) | head -c 170000000; exec sleep infinity"]' | pressure_pod
  fault "$since" "the log of a pod" DiskPressure logger "$(disk_has 80)"
  fault_is_over "the log of a pod" DiskPressure logger

  since=$SECONDS
  bound filler '[sh, -c, "dd if=/dev/zero of=/data/file bs=1M count=170; exec sleep infinity"]' | pressure_pod
  fault "$since" "an emptyDir" DiskPressure filler "$(disk_has 80)"
  fault_is_over "an emptyDir" DiskPressure filler

  since=$SECONDS
  bound scatterer '[sh, -c, "cd /data && seq 8000 | xargs touch; exec sleep infinity"]' | pressure_pod
  fault "$since" "inodes" DiskPressure scatterer "[ \"\$(df --output=iavail $SMALL_DISK | tail -1)\" -ge 5000 ]"
  fault_is_over "inodes" DiskPressure scatterer

  # What no pod has: the end of none would help. The stock kubelet evicts them all the same.
  since=$SECONDS
  vm "fallocate -l \$((\$(df --output=avail -B1M $SMALL_DISK | tail -1) - 5))M $SMALL_DISK/foreign"
  cluster_until 120 "DiskPressure because of somebody else" condition_is DiskPressure True
  if runs_stock_kubelet; then
    cluster_until 120 "somebody is evicted" evicted_are modest
    note "somebody else's file: evicted: modest"
    vm "rm $SMALL_DISK/foreign"
    fault_is_over "somebody else's file" DiskPressure modest
    return
  fi
  node_reported NoPodToEvict
  # Two more looks.
  sleep 25
  note "somebody else's file: DiskPressure, evicted: $(evicted)"
  vm "rm $SMALL_DISK/foreign"
  fault_is_over "somebody else's file" DiskPressure ""
  same "restarts of the daemon" 0 "$(node_property NRestarts)"
}

# A process outside of pods that holds memory. usage: outsider MIB [PROPERTY=VALUE]
outsider() {
  vm "systemd-run --quiet --collect --unit=outsider -p OOMScoreAdjust=-900 ${2:+-p $2} sh -c 'dd if=/dev/zero bs=$1M count=1 | sleep infinity'"
}

# A pod that holds memory. usage: hog NAME MIB
hog() { bound "$1" "[sh, -c, \"dd if=/dev/zero bs=$2M count=1 | sleep infinity\"]" | pressure_pod; }

memory_has() { printf '[ "$(awk '"'"'/^MemAvailable/ {print int($2 / 1024)}'"'"' /proc/meminfo)" -ge %s ]' "$1"; }

scenario_pressure_memory() {
  local since pid
  # An eviction because of stalls is hostlet's own.
  runs_stock_kubelet || vm "sed -i '/^kind: HostletConfiguration/a evictionStallSome: 30%' /etc/hostlet/config.yaml"
  pressure_node 'evictionHard: {memory.available: 600Mi}' 'logging: {verbosity: 4}'
  runs_stock_kubelet || pid=$(node_property MainPID)

  since=$SECONDS
  hog hog 800
  fault "$since" "the memory of a pod" MemoryPressure hog "$(memory_has 600)"
  fault_is_over "the memory of a pod" MemoryPressure hog

  if ! runs_stock_kubelet; then
    # Enough is available, but tasks wait for memory: here those of a process outside of pods beyond its memory.high. The pod that uses
    # the most is evicted, and no pod that uses next to nothing, however long it lasts.
    hog waster 150
    cluster_ready waster
    since=$SECONDS
    outsider 200 MemoryHigh=20M
    fault "$since" "stalls" MemoryPressure waster true
    node_reported NoPodToEvict
    vm "systemctl stop outsider.service"
    fault_is_over "stalls" MemoryPressure waster
    vm "journalctl -b -u hostlet.service --no-pager | grep 'tasks of the node waited for memory for more than 30% of the time'" >/dev/null
  fi

  # Everything that may be evicted is, if the end of it frees something. It takes the next pod with it only where that helps.
  since=$SECONDS
  outsider 800
  cluster_until 120 "MemoryPressure because of a process outside" condition_is MemoryPressure True
  cluster_until 120 "somebody is evicted" evicted_are modest
  note "the memory of a process outside: evicted after $((SECONDS - since)) s: modest"
  sleep 25
  vm "systemctl stop outsider.service"
  fault_is_over "the memory of a process outside" MemoryPressure modest
  runs_stock_kubelet || same "the daemon" "$pid 0" "$(node_property MainPID) $(node_property NRestarts)"
}

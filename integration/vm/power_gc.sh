# shellcheck shell=bash
# The scenario of power cuts while the node frees its disk: images are removed and a pod is evicted. Sourced after pressure.sh.

payload_power_gc() { payload_pressure_disk "$1"; }
before_power_gc() { cluster_begin; }
after_power_gc() { cluster_end; }

# Fills the disk: unused images, then a pod that writes, once it may. Returns when the daemon begins to free it.
# usage: power_gc_fill POD
power_gc_fill() {
  local data
  node_fillers 1 2 3
  # Seen as unused before they have to go, and safe from the cut.
  vm "hostlet images --unused && sync" >/dev/null
  bound "$1" '[sh, -c, "until [ -e /data/go ]; do sleep 0.1; done; dd if=/dev/zero of=/data/file bs=1M count=145; sync; exec sleep infinity"]' |
    pressure_pod
  cluster_ready "$1"
  data=/var/lib/kubelet/pods/$(cluster_kubectl get pod "$1" -o 'jsonpath={.metadata.uid}')/volumes/kubernetes.io~empty-dir/data
  vm "journalctl -f -n 0 -u hostlet.service -o cat >/run/reclaiming & reader=\$!
    touch $data/go
    timeout 100 bash -c 'until grep -q \"attempting to reclaim\" /run/reclaiming; do sleep 0.05; done'; code=\$?; kill \$reader; exit \$code"
}

# Waits until the pod was evicted, and nobody else, and removes it. usage: power_gc_settle POD WHEN
power_gc_settle() {
  cluster_until 240 "the pod is evicted $2" evicted_are "$1"
  vm_until 120 "enough again $2" "$(disk_has 90)"
  vm_until 180 "the other pods run $2" "[ \$(ctr -n k8s.io tasks ls -q | wc -l) -eq 4 ]"
  cluster_ready calm-vm modest
  watch_bystanders
  fault_is_over "a full disk $2" DiskPressure "$1"
  vm_until 120 "nothing of the evicted pod is left $2" "[ \$(ls /var/lib/kubelet/pods | wc -l) -eq 2 ] &&
    [ \$(ls /var/log/pods | wc -l) -eq 2 ] && [ \$(grep -c kubelet/pods /proc/self/mountinfo) -eq 0 ] || { ls /var/lib/kubelet/pods /var/log/pods; ctr -n k8s.io tasks ls; false; }"
}

# What the runtime has once the unused images are gone: its content, the snapshots that are no container's.
power_gc_belongings() {
  vm "hostlet images prune >/dev/null; ctr -n k8s.io content ls -q | sort
    comm -23 <(ctr -n k8s.io snapshots ls | awk 'NR > 1 {print \$1}' | sort) <(ctr -n k8s.io containers ls -q | sort)"
}

scenario_power_gc() {
  local seed=${HOSTLET_VM_SEED:-$RANDOM} cut pause longest begin before uid removed
  note "the moments of the power cuts: HOSTLET_VM_SEED=$seed"
  RANDOM=$seed
  node_small_disk
  pressure_node 'evictionHard: {memory.available: 100Mi, nodefs.available: 90Mi, imagefs.available: 90Mi}'
  uid=$(cluster_kubectl get pod modest -o 'jsonpath={.metadata.uid}')
  before=$(power_gc_belongings)
  # Without a cut, for comparison: how long it takes.
  power_gc_fill filler0
  begin=$(date +%s%N)
  cluster_until 120 "the pod is evicted" evicted_are filler0
  longest=$((($(date +%s%N) - begin) / 1000000))
  power_gc_settle filler0 "without a cut"
  for cut in $(seq "${HOSTLET_VM_POWER_CUTS:-10}"); do
    power_gc_fill "filler$cut"
    # The images go within the first part of it: every second cut is there.
    pause=$((longest * RANDOM / 32768 / (cut % 2 == 1 ? 6 : 1)))
    sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
    vm_power_cut
    vm_boot
    node_network
    power_gc_settle "filler$cut" "after power cut $cut"
    vm "! journalctl -b -u hostlet.service --no-pager | grep -iE 'panicked|corrupt'"
    same "every image in the runtime is whole after power cut $cut" "" \
      "$(vm "ctr -n k8s.io images check | awk 'NR > 1 && !/complete/ || /false\$/'")"
    removed=$(vm "journalctl -b -u hostlet.service -o cat --no-pager | grep -c '^removed an unused image' || true")
    note "power cut $cut after $pause of $longest ms: filler$cut was evicted, nobody else; $removed of 3 unused images were removed after it"
    same "what the runtime has after power cut $cut" "$before" "$(power_gc_belongings)"
  done
  same "the pod that was never to be touched" "$uid Running" "$(cluster_kubectl get pod modest -o 'jsonpath={.metadata.uid} {.status.phase}')"
}

# shellcheck shell=bash
# The scenario of power cuts while volumes of a CSI driver are staged, published, written to and taken back. Sourced after node.sh.

CSI_ROOT=/var/lib/kubelet/plugins/kubernetes.io/csi

payload_power_csi() { payload_program "$1" csi_driver; }

# Installs the driver as a service. Its volumes are on the disk; what it knows of this boot, and its calls, are in memory.
csi_install() {
  cat >"$VM_DIR/unit" <<'UNIT'
[Unit]
Description=CSI driver of the tests
[Service]
ExecStartPre=/bin/sh -c "mkdir -p /run/csi/nodes /var/lib/csi/volumes /run/acks; ln -sfn /run/csi/nodes /var/lib/csi/nodes"
ExecStart=/usr/local/bin/csi_driver --endpoint /var/lib/kubelet/plugins/csi.hostlet.test/csi.sock --volumes /var/lib/csi \
  --registration /var/lib/kubelet/plugins_registry/csi.hostlet.test-reg.sock --node-id vm --journal /run/csi/calls --image --no-attach
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
  vm_put "$VM_DIR/unit" /etc/systemd/system/csi-driver.service
  vm "install -m 755 /payload/csi_driver /usr/local/bin/csi_driver && systemctl daemon-reload && systemctl enable --now -q csi-driver.service"
}

# The objects of a volume, as an administrator writes them.
# usage: csi_volume NAME
csi_volume() {
  cat <<YAML
apiVersion: v1
kind: PersistentVolume
metadata: {name: $1}
spec:
  capacity: {storage: 64Mi}
  accessModes: [ReadWriteOnce]
  claimRef: {namespace: default, name: $1}
  csi: {driver: csi.hostlet.test, volumeHandle: $1, fsType: ext4, volumeAttributes: {create: "true"}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1, namespace: default}
spec: {accessModes: [ReadWriteOnce], volumeName: $1, resources: {requests: {storage: 64Mi}}}
YAML
}

# A pod that counts in a file of its own in each volume. What is safe on the disk is in /run/acks, which a power cut forgets.
# usage: csi_writer NAME VOLUME...
csi_writer() {
  local name=$1 volume
  shift
  one_container "$name"
  cat <<YAML
      command:
        - sh
        - -c
        - |
          while :; do
            for dir in /data/*; do
              n=\$(tail -n 1 \$dir/$name 2>/dev/null)
              echo \$((n + 1)) >>\$dir/$name
            done
            sync
            for dir in /data/*; do tail -n 1 \$dir/$name >/acks/$name.\${dir##*/}; done
            sleep 0.1
          done
      volumeMounts:
        - {name: acks, mountPath: /acks}
YAML
  for volume in "$@"; do echo "        - {name: $volume, mountPath: /data/$volume}"; done
  echo "  volumes:"
  echo "    - {name: acks, hostPath: {path: /run/acks, type: Directory}}"
  for volume in "$@"; do echo "    - {name: $volume, persistentVolumeClaim: {claimName: $volume}}"; done
}

# The last numbers that are safe, one a line: POD.VOLUME NUMBER.
csi_safe() { vm "cd /run/acks && grep . * | tr : ' ' || true"; }

# Fails unless the file of a pod in a volume has all numbers up to the given one, in order. usage: csi_has POD VOLUME NUMBER
csi_has() {
  vm "mount=\$(findmnt -rn -o TARGET | grep '/kubernetes.io~csi/$2/mount\$' | head -n 1) && [ -n \"\$mount\" ] &&
    awk -v safe=$3 '\$1 != NR {print \"line \" NR \" is \" \$1; bad = 1} END {print NR \" lines, \" safe \" safe\"; exit bad || NR < safe}' \"\$mount/$1\""
}

# Fails if the driver was called otherwise than it should be since the host booted: a volume staged twice, or something that breaks the
# specification.
csi_calls_are_right() {
  vm "jq -es 'map(select(.violation)) == []' /run/csi/calls >/dev/null || { grep violation /run/csi/calls; exit 1; }
    jq -es '[.[] | select(.code == \"OK\" and (.call == \"NodeStageVolume\" or .call == \"NodeUnstageVolume\"))] | group_by(.volume) |
      all(.[]; [.[].call] | . as \$calls | all(range(1; length); \$calls[.] != \"NodeStageVolume\" or \$calls[. - 1] != \"NodeStageVolume\"))' \
      /run/csi/calls >/dev/null || { grep Stage /run/csi/calls; exit 1; }"
}

# The numbers that were safe before a power cut, by POD.VOLUME.
declare -A CSI_SAFE

# Fails unless every file of a pod that runs has all its numbers. usage: csi_lost_nothing POD...
csi_lost_nothing() {
  local pod file
  for pod in "$@"; do
    for file in "${!CSI_SAFE[@]}"; do
      [ "${file%%.*}" != "$pod" ] || csi_has "$pod" "${file#*.}" "${CSI_SAFE[$file]}" >/dev/null
    done
  done
}

scenario_power_csi() {
  local seed=${HOSTLET_VM_SEED:-$RANDOM} cut pause volume file number
  note "the moments of the power cuts: HOSTLET_VM_SEED=$seed"
  RANDOM=$seed
  csi_install
  {
    printf 'apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {name: csi.hostlet.test}\nspec: {attachRequired: false}\n'
    for volume in one both some; do echo --- && csi_volume "$volume"; done
  } | node_manifest volumes
  csi_writer first one both | node_manifest first
  csi_writer second both | node_manifest second
  csi_writer third some | node_manifest third
  node_ready 180 first second third
  vm "sync"
  for cut in $(seq "${HOSTLET_VM_POWER_CUTS:-10}"); do
    # The pod with a volume of its own goes or comes when the power is cut: the volume is unpublished, unstaged, staged or published.
    if [ $((cut % 2)) -eq 1 ]; then
      vm "rm $MANIFESTS/third.yaml && sync $MANIFESTS"
    else
      csi_writer third some | node_manifest third
      vm "sync $MANIFESTS/* $MANIFESTS"
    fi
    pause=$((RANDOM % 4)).$((RANDOM % 10))
    sleep "$pause"
    while read -r file number; do CSI_SAFE[$file]=$number; done < <(csi_safe)
    vm_power_cut
    vm_boot
    node_ready 180 first second
    csi_lost_nothing first second
    if [ $((cut % 2)) -eq 1 ]; then
      vm_until 120 "nothing of the volume of the removed pod is left after power cut $cut" "hostlet volumes -o json |
        jq -e 'all(.[]; .name != \"some\")' && [ \$(ls $CSI_ROOT/csi.hostlet.test | wc -l) -eq 2 ] &&
        [ \$(ls /var/lib/kubelet/pods | wc -l) -eq 2 ] || { hostlet volumes; ls $CSI_ROOT/csi.hostlet.test; false; }"
    else
      node_ready 180 third
      csi_lost_nothing third
    fi
    csi_calls_are_right
    vm "journalctl -b -u hostlet.service --no-pager | grep -iE 'panicked|corrupt' && exit 1 || true"
    note "power cut $cut after $pause s: nothing is lost, nothing was staged twice; before it ${CSI_SAFE[first.one]} numbers were safe"
  done
  vm "rm -f $MANIFESTS/{first,second,third}.yaml"
  vm_until 120 "all volumes are taken back" "[ \"\$(hostlet volumes -o json | jq length)\" = 0 ] && [ -z \"\$(ls /var/lib/kubelet/pods)\" ] &&
    ! grep -q kubelet/plugins/kubernetes.io /proc/self/mountinfo && [ -z \"\$(losetup -n -O NAME)\" ] || { hostlet volumes; losetup; false; }"
  csi_calls_are_right
}

# shellcheck shell=bash
# The scenario of a machine with four NUMA nodes of a CPU each: what the kernel says about the CPUs, the memory and the devices of pods, also
# after a reboot and power cuts. Sourced after node.sh.

payload_numa() { payload_program "$1" device_plugin; }

# Starts the VM again as such a machine.
numa_boot() {
  local number
  vm "sync"
  vm_power_cut
  # Four emulated CPUs may have few of the host's.
  # shellcheck disable=SC2034  # read at the next boot, as the others
  VM_BOOT_LIMIT=600
  # shellcheck disable=SC2034
  VM_CPUS=4,sockets=4,cores=1,threads=1
  # shellcheck disable=SC2034
  VM_MEMORY=2048
  for number in 0 1 2 3; do
    VM_HARDWARE+=(-object "memory-backend-ram,size=512M,id=memory$number"
      -numa "node,nodeid=$number,cpus=$number,memdev=memory$number")
  done
  vm_boot
}

# Installs a plugin with a device at each NUMA node but the first. After a boot it comes late.
numa_install() {
  cat >"$VM_DIR/unit" <<'UNIT'
[Unit]
Description=Device plugin of the tests
[Service]
ExecStartPre=/bin/sh -c "[ -e /run/slow ] || sleep 20; touch /run/slow"
ExecStart=/usr/local/bin/device_plugin --dir /var/lib/kubelet/device-plugins --resource example.com/gpu --script /etc/devices.json
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
  vm_put "$VM_DIR/unit" /etc/systemd/system/device-plugin.service
  vm "echo '{\"devices\": {\"gpu-1\": [1], \"gpu-2\": [2], \"gpu-3\": [3]}}' >/etc/devices.json &&
    install -m 755 /payload/device_plugin /usr/local/bin/device_plugin && systemctl daemon-reload && systemctl enable -q device-plugin.service"
}

# What the first process of a pod may use, as the kernel says, and its device: CPUS MEMORY_NODES [DEVICE]. usage: numa_of POD
numa_of() {
  # shellcheck disable=SC2016  # for the container
  vm "hostlet exec $1 -- sh -c 'echo \$(sed -n \"s/^\\(Cpus\\|Mems\\)_allowed_list://p\" /proc/1/status) \$GPU_DEVICES'"
}

# Fails unless each pod with a device has the CPU of its device's NUMA node, and memory of it alone, and the others what is left.
numa_is_right() {
  local pod cpus memory device seen=''
  for pod in first second third; do
    read -r cpus memory device < <(numa_of "$pod")
    note "$1: $pod has the CPU $cpus, memory of the node $memory and $device"
    [ "$device" = "gpu-$memory" ] || vm_fail "$1: $pod has memory of the node $memory, but $device"
    same "$1: the CPU of $pod, which is that of its node" "$(vm "cat /sys/devices/system/node/node$memory/cpulist")" "$cpus"
    [[ $seen != *"$device"* ]] || vm_fail "$1: two pods have $device"
    seen+=" $device"
  done
  # The first CPU is reserved: nobody has it for itself.
  same "$1: the pod that shares" "0 0-3" "$(numa_of rest)"
}

scenario_numa() {
  local cut before pods=(first second third rest)
  numa_boot
  numa_install
  node_configure 'reservedSystemCPUs: "0"' 'cpuManagerPolicy: static' 'memoryManagerPolicy: Static' 'topologyManagerPolicy: single-numa-node' \
    'kubeReserved: {memory: 100Mi}' 'reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]'
  # The files of a kubelet without these policies are no obstacle.
  vm "systemctl restart hostlet.service"
  local own='{cpu: 1, memory: 64Mi, example.com/gpu: 1}'
  for pod in first second third; do sleeper "$pod" "{limits: $own, requests: $own}" | node_manifest "$pod"; done
  vm_until 60 "a pod waits for the plugin" "hostlet explain first | grep example.com/gpu || { hostlet explain first; false; }"
  vm "systemctl start device-plugin.service"
  node_ready 300 first second third
  sleeper rest | node_manifest rest
  node_ready 300 rest
  vm_until 60 "the shared CPUs are what is left" "hostlet exec rest -- grep -x Cpus_allowed_list:.0 /proc/1/status"
  numa_is_right "at first"
  before=$(for pod in "${pods[@]}"; do numa_of "$pod"; done)
  vm "sync"
  vm_reboot
  for cut in $(seq 0 "${HOSTLET_VM_POWER_CUTS:-3}"); do
    node_ready 600 "${pods[@]}"
    vm_until 60 "the shared CPUs are what is left" "hostlet exec rest -- grep -x Cpus_allowed_list:.0 /proc/1/status"
    numa_is_right "after $([ "$cut" -gt 0 ] && echo "power cut $cut" || echo "a reboot")"
    same "each pod has what it had" "$before" "$(for pod in "${pods[@]}"; do numa_of "$pod"; done)"
    same "each pod once" 8 "$(node_containers | wc -l)"
    vm "journalctl -b -u hostlet.service --no-pager | grep -iE 'panicked|corrupt|UnexpectedAdmissionError' && exit 1 || true"
    [ "$cut" -lt "${HOSTLET_VM_POWER_CUTS:-3}" ] || break
    vm_power_cut
    vm_boot
  done
  vm "rm $MANIFESTS/{first,second,third}.yaml"
  vm_until 120 "all CPUs are shared again" "hostlet exec rest -- grep -x Cpus_allowed_list:.0-3 /proc/1/status"
  vm_until 60 "all devices are free" "hostlet devices -o json | jq -e '[.resources[].devices[].holders[]] == []' ||
    { hostlet devices; false; }"
}

# shellcheck shell=bash
# The test VM as functions: boot, run, copy in, reboot, power-cut, save, wait. Commands go through a virtio port, so it needs no
# network; VM_NETNS names the network namespace whose addresses it can reach. VM_KERNEL names the kernel of the next boot, oldest
# (the default) or newest, VM_APPEND what it is started with besides, VM_CPUS and VM_MEMORY its CPUs and MiB, VM_HARDWARE further options of
# QEMU. Sourced after common.sh and image.sh. One VM per process; its files are below VM_DIR.

VM_DIR=
VM_PID=
VM_HARDWARE=()
VM_REQUEST=0
VM_BOOT_LIMIT=180
# Room for software emulation on a busy machine.
VM_RUN_LIMIT=120

# KVM where it works: the device may be there and creating a VM fail.
vm_accel() {
  if [ -w /dev/kvm ] && timeout 10 qemu-system-x86_64 -accel kvm -machine q35 -display none -nodefaults -monitor stdio \
    <<<quit >/dev/null 2>&1 && grep -qE '^flags.* (vmx|svm)( |$)' /proc/cpuinfo; then
    echo "-accel kvm -cpu host"
  else
    echo "-accel tcg,thread=multi -cpu max"
  fi
}

# Makes the VM's disks: the root over the base image, and the payload from a directory, mounted at /payload.
# usage: vm_create PAYLOAD_DIRECTORY
vm_create() {
  [ -n "$VM_IMAGE" ] || die "vm_build_image first"
  VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/hostlet-vm.XXXXXX")
  qemu-img create -q -f qcow2 -F raw -b "$VM_IMAGE/root.img" "$VM_DIR/root.qcow2"
  mke2fs -q -t ext4 -d "$1" "$VM_DIR/payload.img" "$(($(du -sm "$1" | cut -f1) * 11 / 10 + 64))M" >/dev/null
  vm_open_pipes
}

# Both ends stay open here: neither QEMU nor this script waits for the other to open them.
vm_open_pipes() {
  mkfifo "$VM_DIR/port.in" "$VM_DIR/port.out" "$VM_DIR/monitor.in" "$VM_DIR/monitor.out"
  exec {VM_IN}<>"$VM_DIR/port.in" {VM_OUT}<>"$VM_DIR/port.out"
  # shellcheck disable=SC2034  # one end is only kept open
  exec {VM_MONITOR_IN}<>"$VM_DIR/monitor.in" {VM_MONITOR_OUT}<>"$VM_DIR/monitor.out"
}

# Switches the VM on and waits until its agent answers.
vm_boot() {
  vm_power_on
  vm_wait_for_boot ""
}

# Saves the running VM with its memory to a directory, and ends it.
# usage: vm_save DIRECTORY
vm_save() {
  vm "sync"
  printf 'savevm saved\nquit\n' >&"$VM_MONITOR_IN"
  wait "$VM_PID" || die "the VM was not saved: $(tail -n 5 "$VM_DIR/qemu.log")"
  VM_PID=
  cp "$VM_DIR/root.qcow2" "$VM_DIR/payload.img" "$1/"
}

# Goes on with a copy of a saved VM.
# usage: vm_resume DIRECTORY
vm_resume() {
  VM_DIR=$(mktemp -d "${TMPDIR:-/tmp}/hostlet-vm.XXXXXX")
  cp --reflink=auto "$1/root.qcow2" "$1/payload.img" "$VM_DIR/"
  vm_open_pipes
  vm_power_on -loadvm saved
  vm_wait_for_boot ""
}

# usage: vm_power_on [OPTION_OF_QEMU...]
vm_power_on() {
  local accel run=() kernel=$VM_IMAGE/${VM_KERNEL:-oldest}
  read -ra accel <<<"$(vm_accel)"
  # Only the network: other namespaces are those of this script.
  [ -z "${VM_NETNS:-}" ] || run=(nsenter "--net=/run/netns/$VM_NETNS")
  vm_drain
  "${run[@]}" qemu-system-x86_64 -machine q35 "${accel[@]}" -smp "${VM_CPUS:-2}" -m "${VM_MEMORY:-1536}" "${VM_HARDWARE[@]}" \
    -display none -nodefaults -no-user-config \
    -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd.img" -append "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet panic=1 ${VM_APPEND:-}" \
    -drive "file=$VM_DIR/root.qcow2,if=virtio,format=qcow2" \
    -drive "file=$VM_DIR/payload.img,if=virtio,format=raw,readonly=on" \
    -chardev "file,id=console,path=$VM_DIR/console.log,append=on" -serial chardev:console \
    -device virtio-serial -chardev "pipe,id=port,path=$VM_DIR/port" -device virtserialport,chardev=port,name=hostlet \
    -chardev "pipe,id=monitor,path=$VM_DIR/monitor" -mon chardev=monitor,mode=readline \
    -netdev user,id=net,restrict="$([ -n "${VM_NETNS:-}" ] && echo off || echo on)" -device virtio-net-pci,netdev=net \
    -device virtio-rng-pci "$@" </dev/null >>"$VM_DIR/qemu.log" 2>&1 &
  VM_PID=$!
}

# Forgets what an earlier boot left in the port.
vm_drain() {
  local rest
  while IFS= read -r -t 0.1 -u "$VM_IN" rest; do :; done
  while IFS= read -r -t 0.1 -u "$VM_OUT" rest; do :; done
}

# Runs a script in the VM, prints its output and returns its exit code; 255 if the VM does not answer.
# usage: vm_try SECONDS SCRIPT
vm_try() {
  local limit=$1 script=$2 line='' part output id code end
  # A subshell counts for itself; the nanoseconds keep its answers apart.
  VM_REQUEST=$(date +%s%N)
  printf '%s %s %s\n' "$VM_REQUEST" "$limit" "$(base64 -w 0 <<<"$script")" >&"$VM_IN"
  end=$((SECONDS + limit + 3))
  while [ "$SECONDS" -lt "$end" ]; do
    kill -0 "$VM_PID" 2>/dev/null || break
    # A line of a busy VM may take longer than this to arrive: what has arrived is kept.
    IFS= read -r -t 1 -u "$VM_OUT" part || { line+=$part && continue; }
    IFS=' ' read -r output id code <<<"$line$part"
    line=''
    [ "$id" = "$VM_REQUEST" ] || continue
    [ "$output" = - ] || base64 -d <<<"$output"
    return "$code"
  done
  return 255
}

# The same; a failure ends the scenario and shows the output.
# usage: vm SCRIPT
vm() {
  local output code=0
  output=$(vm_try "$VM_RUN_LIMIT" "$1") || code=$?
  [ "$code" -eq 0 ] || vm_fail "in the VM, exit code $code: $1"$'\n'"$output"
  [ -z "$output" ] || printf '%s\n' "$output"
}

# Waits until a script succeeds in the VM.
# usage: vm_until SECONDS WHAT SCRIPT
vm_until() {
  local limit=$1 what=$2 script=$3 last code end
  end=$((SECONDS + limit))
  while :; do
    code=0
    last=$(vm_try 30 "$script") || code=$?
    [ "$code" -ne 0 ] || return 0
    [ "$SECONDS" -lt "$end" ] || vm_fail "not within $limit s: $what"$'\n'"last seen ($code): $last"
    sleep 0.5
  done
}

# Copies a small file into the VM.
# usage: vm_put FILE PATH
vm_put() {
  local new
  # Readers of the directory ignore a name with a dot.
  new=$(dirname "$2")/.$(basename "$2")
  vm "mkdir -p '$(dirname "$2")' && base64 -d >'$new' <<<'$(base64 -w 0 "$1")' && mv '$new' '$2'"
}

# Copies a file out of the VM.
# usage: vm_get PATH FILE
vm_get() { vm "gzip -c '$1' | base64 -w 0" | base64 -d | gzip -d >"$2"; }

# The identity of the present boot.
vm_boot_id() { vm_try 2 "cat /proc/sys/kernel/random/boot_id"; }

# Waits for a boot other than the given one.
vm_wait_for_boot() {
  local before=$1 id end
  end=$((SECONDS + VM_BOOT_LIMIT))
  until id=$(vm_boot_id) && [ -n "$id" ] && [ "$id" != "$before" ]; do
    [ "$SECONDS" -lt "$end" ] || vm_fail "the VM did not boot within $VM_BOOT_LIMIT s"
    kill -0 "$VM_PID" 2>/dev/null || vm_fail "QEMU has ended: $(tail -n 5 "$VM_DIR/qemu.log")"
  done
}

# Restarts the VM in good order.
vm_reboot() {
  local before
  before=$(vm_boot_id)
  vm_try 30 "systemctl reboot" >/dev/null || true
  vm_wait_for_boot "$before"
}

# Takes the power away: nothing in the VM learns of it.
vm_power_cut() {
  kill -KILL "$VM_PID"
  wait "$VM_PID" 2>/dev/null || true
  VM_PID=
}

# Ends the VM and removes its files. Fine without one.
vm_destroy() {
  [ -z "$VM_PID" ] || { kill -KILL "$VM_PID" && wait "$VM_PID"; } 2>/dev/null || true
  VM_PID=
  [ -z "$VM_DIR" ] || rm -rf "$VM_DIR"
  VM_DIR=
}

# Shows what the VM last did, and ends the scenario.
vm_fail() {
  printf 'error: %s\n' "$1" >&2
  {
    echo "--- hostlet's journal:"
    vm_try 30 "journalctl -b -u hostlet.service -n 40 --no-pager -o short-monotonic" || tail -n 15 "$VM_DIR/console.log"
    echo "--- containerd's journal:"
    vm_try 30 "journalctl -b -u containerd.service -p warning -n 10 --no-pager -o short-monotonic" || true
  } >&2
  exit 1
}

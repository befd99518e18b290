# shellcheck shell=bash
# The base image of the test VM: a plain Debian with systemd, containerd as its package configures it, and the agent, built
# once per set of its inputs into the cache of the tests. Its disk is made without mounting anything. Sourced after common.sh.

VM_PACKAGES=(systemd-sysv dbus udev kmod iproute2 iptables conntrack procps curl jq ca-certificates apparmor containerd runc
  containernetworking-plugins initramfs-tools)
VM_DISK_SIZE=3G

# What the host needs to make and run VMs, one package a line.
vm_missing_packages() {
  command -v mmdebstrap >/dev/null || echo mmdebstrap
  command -v qemu-system-x86_64 >/dev/null || echo qemu-system-x86
  command -v qemu-img >/dev/null || echo qemu-utils
  command -v mke2fs >/dev/null || echo e2fsprogs
  runc_missing_packages
}

vm_install_packages() {
  local missing
  mapfile -t missing < <(vm_missing_packages)
  [ "${#missing[@]}" -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "missing: ${missing[*]}; install them and run this again"
  note "packages: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || warn "apt-get update failed; trying with the lists there are"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || die "apt-get could not install: ${missing[*]}"
}

# The Debian release in the VM: HOSTLET_VM_SUITE, or the oldest one whose C library runs what this host builds.
vm_suite() {
  local glibc
  [ -z "${HOSTLET_VM_SUITE:-}" ] || {
    printf '%s\n' "$HOSTLET_VM_SUITE"
    return
  }
  glibc=$(ldd --version | awk 'NR == 1 {print $NF}')
  if at_least 2.36 "$glibc"; then
    echo bookworm
  elif at_least 2.41 "$glibc"; then
    echo trixie
  else
    die "this host's glibc $glibc is newer than that of Debian 13: what it builds cannot run in the VM"
  fi
}

# The kernels in the VM of a Debian release, one a line: the release's own, and one that maps the IDs of a tmpfs (Linux 6.3).
vm_kernels() {
  echo linux-image-cloud-amd64
  [ "$1" != bookworm ] || echo linux-image-6.12-cloud-amd64
}

# The directory of the base image, by a key of all of its inputs: root.img, and oldest/ and newest/ with vmlinuz and initrd.img.
vm_image_dir() {
  local key
  key=$({
    printf '%s\n' "$1" "${VM_PACKAGES[@]}" "$VM_DISK_SIZE"
    cat "$TOP/integration/vm/image.sh" "$TOP/integration/vm/agent.sh"
  } | sha256sum | cut -c1-16)
  printf '%s/.cache/hostlet-tests/vm/%s-%s\n' "$(builder_home)" "$1" "$key"
}

# Builds the base image unless it is cached. Sets VM_IMAGE to its directory.
vm_build_image() {
  local suite cache
  suite=$(vm_suite)
  VM_IMAGE=$(vm_image_dir "$suite")
  cache=$(dirname "$VM_IMAGE")
  mkdir -p "$cache"
  if ! [ -e "$VM_IMAGE/root.img" ]; then
    (
      flock 9 # several test processes may build at once
      [ -e "$VM_IMAGE/root.img" ] || vm_make_image "$suite" "$VM_IMAGE"
    ) 9>"$cache/.lock"
  fi
  [ -e "$VM_IMAGE/root.img" ] || die "the image of the VM was not built"
}

vm_make_image() {
  local suite=$1 dir=$2 work packages kernels versions
  note "VM: making an image of Debian $suite (about a minute)"
  mapfile -t kernels < <(vm_kernels "$suite")
  packages=$(IFS=, && echo "${VM_PACKAGES[*]},${kernels[*]}")
  work=$(mktemp -d "$(dirname "$dir")/.new.XXXXXX")
  mkdir "$work/image"
  if ! mmdebstrap --quiet --variant=minbase --include="$packages" "$suite" "$work/root" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    rm -rf "$work"
    die "mmdebstrap failed"
  fi
  vm_configure_root "$work/root"
  mapfile -t versions < <(cd "$work/root/boot" && printf '%s\n' vmlinuz-* | sed 's/^vmlinuz-//' | sort -V)
  mkdir "$work/image/oldest" "$work/image/newest"
  cp "$work/root/boot/vmlinuz-${versions[0]}" "$work/image/oldest/vmlinuz"
  cp "$work/root/boot/initrd.img-${versions[0]}" "$work/image/oldest/initrd.img"
  cp "$work/root/boot/vmlinuz-${versions[-1]}" "$work/image/newest/vmlinuz"
  cp "$work/root/boot/initrd.img-${versions[-1]}" "$work/image/newest/initrd.img"
  mke2fs -q -t ext4 -d "$work/root" "$work/image/root.img" "$VM_DISK_SIZE" >/dev/null
  mv "$work/image" "$dir"
  rm -rf "$work"
}

# What makes the plain Debian in a directory the test VM.
vm_configure_root() {
  local root=$1
  echo vm >"$root/etc/hostname"
  printf '127.0.0.1 localhost vm\n::1 localhost\n' >"$root/etc/hosts"
  : >"$root/etc/resolv.conf"
  # The same every time, so that the journal of earlier boots is found.
  printf '%032d\n' 0 | tr 0 a >"$root/etc/machine-id"
  install -m 755 "$TOP/integration/vm/agent.sh" "$root/usr/local/sbin/vm-agent"
  cat >"$root/etc/systemd/system/vm-agent.service" <<'UNIT'
[Unit]
Description=Agent of the tests
[Service]
ExecStart=/usr/local/sbin/vm-agent
Restart=always
OOMScoreAdjust=-1000
MemoryMin=64M
[Install]
WantedBy=multi-user.target
UNIT
  mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/var/log/journal" "$root/payload"
  ln -sf ../vm-agent.service "$root/etc/systemd/system/multi-user.target.wants/"
  # Nobody logs in, and nothing is to run at its own times.
  local unit
  for unit in getty@tty1.service serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
  done
  printf '/dev/vdb /payload ext4 ro,nofail 0 0\n' >"$root/etc/fstab"
}

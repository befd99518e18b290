#!/usr/bin/env bash
# Tests hostlet as a systemd service in a virtual machine: restarts, reboots, power cuts, the watchdog, cgroup v2 with the
# systemd driver. Uses QEMU, with KVM where that works. Each scenario has a VM of its own, without a network.
#
# usage: sudo integration/vm.sh [SCENARIO...]     all scenarios, or these
#        sudo integration/vm.sh --quick           the first few, within a few minutes
#        integration/vm.sh --list                 their names and what they show
#
# HOSTLET_BIN=PATH takes a hostlet that is built already; HOSTLET_DEB=PATH installs it from a package. HOSTLET_VM_SUITE names the
# Debian release in the VM (default: that of this host's C library). HOSTLET_VM_POWER_CUTS is the number of power cuts (3).
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
# shellcheck source=integration/vm/image.sh
. "$here/vm/image.sh"
# shellcheck source=integration/vm/machine.sh
. "$here/vm/machine.sh"
# shellcheck source=integration/vm/node.sh
. "$here/vm/node.sh"
# shellcheck source=integration/vm/scenarios.sh
. "$here/vm/scenarios.sh"

QUICK=(install restart reboot)

find_hostlet() {
  [ -z "${HOSTLET_DEB:-}" ] || return 0
  if [ -z "${HOSTLET_BIN:-}" ]; then
    note "hostlet: cargo build"
    (cd "$TOP" && as_builder cargo build --locked --quiet --bin hostlet) || die "hostlet did not build"
    HOSTLET_BIN=$(cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)/debug/hostlet
  fi
  [ -x "$HOSTLET_BIN" ] || die "no program $HOSTLET_BIN"
  export HOSTLET_BIN
}

# Runs one scenario in a VM of its own; a process of its own, so that any failure ends it.
run_one() {
  local name=$1 payload
  payload=$(mktemp -d "${TMPDIR:-/tmp}/hostlet-vm.XXXXXX")
  trap 'vm_destroy; rm -rf "$payload"' EXIT
  # A signal ends the scenario through the trap above.
  trap 'exit 130' INT TERM
  vm_build_image
  node_payload "$payload"
  vm_create "$payload"
  vm_boot
  node_install
  "scenario_$name"
}

case ${1:-} in
  --list)
    scenario_list
    exit 0
    ;;
  --run)
    run_one "$2"
    exit 0
    ;;
  --quick) scenarios=("${QUICK[@]}") ;;
  -*) die "unknown option $1; see the head of $0" ;;
  '') mapfile -t scenarios < <(scenario_list | awk '{print $1}') ;;
  *) scenarios=("$@") ;;
esac
for name in "${scenarios[@]}"; do
  declare -F "scenario_$name" >/dev/null || die "no scenario $name; $0 --list shows them"
done
need_root "$@"
[ "$(uname -m)" = x86_64 ] || die "there is no VM for $(uname -m) yet"
install_packages
vm_install_packages
find_hostlet
vm_build_image
failed=()
for name in "${scenarios[@]}"; do
  begin=$SECONDS
  if "${BASH_SOURCE[0]}" --run "$name"; then
    say "$name: passed in $((SECONDS - begin)) s"
  else
    say "$name: FAILED after $((SECONDS - begin)) s"
    failed+=("$name")
  fi
done
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"

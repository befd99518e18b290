#!/usr/bin/env bash
# Tests the deb and hostlet as a systemd service in virtual machines: installation, restarts, upgrades, reboots, power cuts, the
# watchdog, cgroup v2, a shutdown, removal, kubeadm join, the place of a stock kubelet, a lack of disk and memory, Kubernetes' own tests.
# Uses QEMU, with KVM where that works. One VM is made and hostlet is installed in it; each scenario goes on with a copy of that. They have
# no network, except that of the cluster to join.
#
# usage: sudo integration/vm.sh [SCENARIO...]     all scenarios, or these
#        sudo integration/vm.sh --quick           some of them, within a few minutes
#        integration/vm.sh --list                 their names and what they show
#
# HOSTLET_BIN=PATH takes a hostlet that is built already, HOSTLET_PACKAGES=DIR debs: those of revision 1 in DIR/1, of 2 in DIR/2.
# HOSTLET_VM_SUITE names the Debian release in the VM (default: that of this host's C library). HOSTLET_VM_POWER_CUTS is the
# number of power cuts (10), HOSTLET_VM_SEED repeats the moments of those of power_gc and power_csi. HOSTLET_TEST_KUBELET=stock runs
# e2e_node, pressure_disk and pressure_memory with the stock kubelet, for comparison; HOSTLET_VM_FOCUS is a regular expression that
# selects other specs for e2e_node.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source=integration/lib/images.sh
. "$here/lib/images.sh"
# shellcheck source=integration/lib/e2e_images.sh
. "$here/lib/e2e_images.sh"
# shellcheck source=integration/lib/containerd.sh
. "$here/lib/containerd.sh"
# shellcheck source=integration/lib/containerd2.sh
. "$here/lib/containerd2.sh"
# shellcheck source=integration/lib/runc.sh
. "$here/lib/runc.sh"
# shellcheck source=integration/lib/kubernetes.sh
. "$here/lib/kubernetes.sh"
# shellcheck source=integration/lib/pki.sh
. "$here/lib/pki.sh"
# shellcheck source=integration/lib/control_plane.sh
. "$here/lib/control_plane.sh"
# shellcheck source=packaging/lib/program.sh
. "$here/../packaging/lib/program.sh"
# shellcheck source=integration/vm/image.sh
. "$here/vm/image.sh"
# shellcheck source=integration/vm/machine.sh
. "$here/vm/machine.sh"
# shellcheck source=integration/vm/node.sh
. "$here/vm/node.sh"
# shellcheck source=integration/vm/cluster.sh
. "$here/vm/cluster.sh"
# shellcheck source=integration/vm/kubeadm.sh
. "$here/vm/kubeadm.sh"
# shellcheck source=integration/vm/takeover.sh
. "$here/vm/takeover.sh"
# shellcheck source=integration/vm/confinement.sh
. "$here/vm/confinement.sh"
# shellcheck source=integration/vm/e2e_node.sh
. "$here/vm/e2e_node.sh"
# shellcheck source=integration/vm/pressure.sh
. "$here/vm/pressure.sh"
# shellcheck source=integration/vm/power_gc.sh
. "$here/vm/power_gc.sh"
# shellcheck source=integration/vm/power_csi.sh
. "$here/vm/power_csi.sh"
# shellcheck source=integration/vm/numa.sh
. "$here/vm/numa.sh"
# shellcheck source=integration/vm/scenarios.sh
. "$here/vm/scenarios.sh"

QUICK=(install watchdog cgroups purge)

# Builds all of the workspace at once, like the tests: another selection of packages would need another build.
build_workspace() {
  note "hostlet: cargo build"
  (cd "$TOP" && as_builder cargo build --workspace --all-targets --locked --quiet) || die "hostlet did not build"
}

# Makes packages of two revisions, unless HOSTLET_PACKAGES has them.
find_packages() {
  local revision
  if [ -n "${HOSTLET_PACKAGES:-}" ]; then
    VM_PACKAGES_DIR=$HOSTLET_PACKAGES
  else
    VM_PACKAGES_DIR=$VM_SAVED/packages
    mkdir "$VM_PACKAGES_DIR"
    if [ -z "${HOSTLET_BIN:-}" ] || [ -z "${HOSTLET_MANUAL_BIN:-}" ]; then
      build_workspace
      export HOSTLET_BIN=${HOSTLET_BIN:-$(target_directory)/debug/hostlet}
      export HOSTLET_MANUAL_BIN=${HOSTLET_MANUAL_BIN:-$(target_directory)/debug/hostlet-manual}
    fi
    # Without what only a debugger reads: most of a development build.
    strip -o "$VM_PACKAGES_DIR/hostlet" "$HOSTLET_BIN"
    for revision in 1 2; do
      HOSTLET_BIN=$VM_PACKAGES_DIR/hostlet "$TOP/packaging/build.sh" --fast --no-sbom --revision "$revision" \
        --out "$VM_PACKAGES_DIR/$revision" >"$VM_PACKAGES_DIR/log" 2>&1 || {
        cat "$VM_PACKAGES_DIR/log" >&2
        die "the packages did not build"
      }
    done
  fi
  compgen -G "$VM_PACKAGES_DIR/2/hostlet_*.deb" >/dev/null || die "no packages in $VM_PACKAGES_DIR/1 and $VM_PACKAGES_DIR/2"
}

# Makes the VM that scenarios begin with, in a directory of its own: Debian with hostlet installed and the host ready.
prepare() {
  local begin payload=$VM_SAVED/payload name
  mkdir "$payload"
  node_payload "$payload"
  for name in "${scenarios[@]}"; do
    ! declare -F "payload_$name" >/dev/null || "payload_$name" "$payload"
  done
  begin=$SECONDS
  vm_create "$payload"
  vm_boot
  note "the VM booted after $((SECONDS - begin)) s"
  node_install
  vm_save "$VM_SAVED"
  vm_destroy
  rm -rf "$payload"
}

# Runs one scenario in a VM of its own; a process of its own, so that any failure ends it.
run_one() {
  # shellcheck disable=SC2064  # this scenario
  trap "vm_destroy; ! declare -F after_$1 >/dev/null || after_$1" EXIT
  # A signal ends the scenario through the trap above.
  trap 'exit 130' INT TERM
  vm_build_image
  ! declare -F "before_$1" >/dev/null || "before_$1"
  vm_resume "$VM_SAVED"
  "scenario_$1"
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
VM_SAVED=$(mktemp -d "${TMPDIR:-/tmp}/hostlet-vm-saved.XXXXXX")
export VM_SAVED
trap 'vm_destroy; rm -rf "$VM_SAVED"' EXIT
trap 'exit 130' INT TERM
find_packages
vm_build_image
say "installing hostlet in a VM"
prepare
passed=0
failed=()
for name in "${scenarios[@]}"; do
  begin=$SECONDS
  if "${BASH_SOURCE[0]}" --run "$name"; then
    say "$name: passed in $((SECONDS - begin)) s"
    passed=$((passed + 1))
  else
    say "$name: FAILED after $((SECONDS - begin)) s"
    failed+=("$name")
  fi
done
printf '%d passed, %d failed\n' "$passed" "${#failed[@]}"
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"

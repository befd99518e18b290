#!/usr/bin/env bash
# Installs what the tests need and runs them all: style, lints, documentation, then every test of the workspace, those
# on a real containerd included (they need root, and start instances of their own): on the containerd that is installed
# and, where there is Go to build them, on containerd 2 and in clusters of Kubernetes.
#
# usage: sudo integration/test.sh
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source=integration/lib/containerd2.sh
. "$here/lib/containerd2.sh"
# shellcheck source=integration/lib/kubernetes.sh
. "$here/lib/kubernetes.sh"
# shellcheck source=integration/lib/control_plane.sh
. "$here/lib/control_plane.sh"

[ $# -eq 0 ] || die "no arguments are known: $*"
need_root "$@"

say "installing what is missing"
install_packages
install_rust
cd "$TOP"
# A failed test says what it saw; backtraces of the test harness would bury that.
export RUST_BACKTRACE=0

say "style, lints, documentation"
as_builder cargo fmt --all --check
as_builder cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
as_builder env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked --quiet
if as_builder cargo deny --version >/dev/null 2>&1; then
  as_builder cargo deny check
else
  note "cargo-deny is not installed: licences and advisories are not checked"
fi
if command -v shellcheck >/dev/null; then
  shellcheck -x "$here"/*.sh "$here"/lib/*.sh
else
  note "shellcheck is not installed: the scripts are not checked"
fi

say "tests without root's help"
as_builder cargo test --workspace --exclude hostlet-integration --locked --no-fail-fast

# Built by whoever called, run by root: so a person's build directory never gets files of root's.
say "tests on fakes and on a real containerd"
as_builder cargo build --locked --quiet --bin hostlet
built=$(as_builder cargo test --package hostlet-integration --locked --no-run --message-format=json)
mapfile -t programs < <(jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable) | .executable' \
  <<<"$built")
[ "${#programs[@]}" -gt 0 ] || die "no test program was built"
HOSTLET_BIN=$(as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)/debug/hostlet
export HOSTLET_BIN
failed=()
# Tests run in the directory of their package, as cargo has it.
run_program() {
  local program=$1 label=$2
  shift 2
  (cd "$here" && "$program" "$@") || failed+=("$(basename "$program")$label")
}
cluster_programs=("${CONTROL_PLANE[@]}" kube-proxy kubectl)
can_have_cluster() {
  local name
  ! go_program >/dev/null || return 0
  for name in "${cluster_programs[@]}"; do kubernetes_program "$name" >/dev/null || return 1; done
}
for program in "${programs[@]}"; do
  if [[ "$(basename "$program")" = cluster-* ]]; then
    if ! can_have_cluster; then
      warn "NOT TESTED in a cluster: there is no Go to build a control plane with (https://go.dev/dl/)"
      continue
    fi
    # Not from within a test, which would seem to hang.
    if ! (build_kubernetes "${cluster_programs[@]}"); then
      failed+=("$(basename "$program"), whose control plane does not build")
      continue
    fi
  fi
  note "$(basename "$program")"
  run_program "$program" ""
done

# The tests find containerd, its shim and ctr on the path: another containerd is another path.
if go=$(go_program); then
  say "tests on containerd $CONTAINERD2_VERSION"
  build_containerd2 "$go"
  PATH=$(containerd2_dir):$PATH
  for program in "${programs[@]}"; do
    [[ "$(basename "$program")" != containerd-* ]] ||
      run_program "$program" " on containerd $CONTAINERD2_VERSION"
  done
else
  warn "NOT TESTED on containerd $CONTAINERD2_VERSION: there is no Go to build it with (https://go.dev/dl/); the tests ran on" \
    "$(containerd --version | awk '{print $3}') alone"
fi
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"

#!/usr/bin/env bash
# Installs what the tests need and runs all of them: style, lints, documentation, then every test of the workspace,
# including those on a real containerd (they need root, and start their own instances): on the installed containerd and,
# if Go is available to build them, in Kubernetes clusters and, as a smoke test, on containerd 2. The packages are tested in root
# file systems and in a virtual machine.
#
# usage: sudo integration/test.sh
#
# What this machine cannot test is skipped with a warning; with HOSTLET_TEST_ALL=1, as in continuous integration, it is a failure.
# HOSTLET_SUITE_SECONDS limits each suite (2400).
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/suites.sh
. "$here/lib/suites.sh"
# shellcheck source=integration/lib/style.sh
. "$here/lib/style.sh"

[ $# -eq 0 ] || die "unknown arguments: $*"
need_root "$@"

say "installing what is missing"
install_packages shellcheck
install_rust
cd "$TOP"
# A failed test prints what it observed; backtraces of the test harness would hide that.
export RUST_BACKTRACE=0

say "style, lints, documentation"
as_builder cargo fmt --all --check
as_builder cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
as_builder env RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked --quiet
check_dependencies
check_scripts
if go_program >/dev/null; then
  check_monitoring
else
  not_tested "the Prometheus rules and the dashboard" "their checker is built with Go (https://go.dev/dl/)"
fi

say "tests that do not need root"
# The whole workspace at once, here and in build_suites: another selection of packages would need another build.
steps=HOSTLET_SIMULATION_STEPS=${HOSTLET_SIMULATION_STEPS:-100000}
build_suites
tests=(--workspace --locked --lib --bins --test program --test tidy --test fuzz --test managers)
if as_builder cargo nextest --version >/dev/null 2>&1; then
  as_builder env "$steps" timeout "$SUITE_SECONDS" cargo nextest run "${tests[@]}"
else
  as_builder env "$steps" timeout "$SUITE_SECONDS" cargo test --no-fail-fast "${tests[@]}"
fi

as_builder "$here/release.sh" || failed+=("the release")

say "tests on fakes and on a real containerd"
# The daemon on fakes, then on the containerd that is installed.
for suite in fake_cri containerd; do run_suite "$suite" ""; done
if ! can_have_cluster; then
  not_tested "the cluster tests" "building a control plane needs Go (https://go.dev/dl/)"
# Not within a test, which would appear to hang.
elif ! build_cluster_programs; then
  failed+=("cluster, whose control plane does not build")
else
  run_suite cluster ""
fi

say "sanity tests of the CSI driver of the tests"
if go_program >/dev/null; then
  limited "$here/csi_sanity.sh" "$(dirname "$HOSTLET_BIN")/csi_driver" || failed+=("the CSI driver of the tests")
else
  not_tested "the CSI driver of the tests" "its sanity tests are built with Go (https://go.dev/dl/)"
fi

say "tests of the packages"
limited "$here/packages.sh" || failed+=("packages")

say "tests in a virtual machine"
if [ "$(uname -m)" = x86_64 ]; then
  limited "$here/vm.sh" --quick || failed+=("virtual machine")
else
  not_tested "the virtual machine" "there is none for $(uname -m) yet"
fi

# The tests find containerd, its shim and ctr in PATH, so another PATH selects another containerd. matrix.sh runs all
# tests on both, and clusters with both.
if go=$(go_program); then
  say "a smoke test on containerd $CONTAINERD2_VERSION"
  build_containerd2 "$go"
  PATH=$(containerd2_dir):$PATH
  run_suite containerd " on containerd $CONTAINERD2_VERSION" \
    adoption:: explain:: large:: late:: manifests:: pods:: restarts:: volumes::
else
  not_tested "containerd $CONTAINERD2_VERSION" "building it needs Go (https://go.dev/dl/); the tests ran only on $(containerd_version)"
fi
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"

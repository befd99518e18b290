#!/usr/bin/env bash
# Runs the tests on a real containerd and in a real cluster in every supported combination: on the installed containerd
# and on containerd 2, and in clusters with hostlet and with the stock kubelet. Takes about an hour on two cores. Builds
# missing programs with Go first.
#
# usage: sudo integration/matrix.sh
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/suites.sh
. "$here/lib/suites.sh"

[ $# -eq 0 ] || die "unknown arguments: $*"
need_root "$@"
say "installing and building what is missing"
install_packages
install_rust
cd "$TOP"
export RUST_BACKTRACE=0
go=$(go_program) || die "the matrix needs Go to build missing programs (https://go.dev/dl/)"
build_containerd2 "$go"
build_kubernetes "${CLUSTER_PROGRAMS[@]}" kubelet
build_suites

installed=$PATH
for path in "$installed" "$(containerd2_dir):$installed"; do
  PATH=$path
  label=" on containerd $(containerd_version)"
  say "tests$label"
  run_suite containerd "$label"
  HOSTLET_TEST_KUBELET=hostlet run_suite cluster "$label, hostlet"
  HOSTLET_TEST_KUBELET=stock run_suite cluster "$label, stock kubelet"
done
[ "${#failed[@]}" -eq 0 ] || die "failed: ${failed[*]}"

# shellcheck shell=bash
# Builds what runs a suite of Kubernetes' own tests. Sourced after common.sh; sources everything else that it needs.

lib=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/suites.sh
. "$lib/suites.sh"
# shellcheck source=integration/lib/images.sh
. "$lib/images.sh"
# shellcheck source=integration/lib/e2e_images.sh
. "$lib/e2e_images.sh"

# Installs and builds what is missing: containerd 2, which comes first in PATH from then on, the PROGRAMs of the suite, the stock kubelet
# if it is tested, hostlet and the runners. Sets `target`, the directory of the build, and exports HOSTLET_BIN unless it is set. Changes to
# the top of the source tree.
# usage: build_kubernetes_tests PROGRAM...
build_kubernetes_tests() {
  local go
  say "installing and building what is missing"
  install_packages
  cd "$TOP" || return
  # A failed run prints what failed; backtraces would hide that.
  export RUST_BACKTRACE=0
  go=$(go_program) || die "the tests are built with Go (https://go.dev/dl/)"
  # The specs use features that older containerds lack.
  build_containerd2 "$go"
  PATH=$(containerd2_dir):$PATH
  # The tests first: they take longest.
  build_kubernetes "$@" "${E2E_IMAGE_PROGRAMS[@]}"
  [ "${HOSTLET_TEST_KUBELET:-hostlet}" = hostlet ] || build_kubernetes kubelet
  install_rust
  as_builder cargo build --workspace --locked --quiet
  target=$(as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
  export HOSTLET_BIN=${HOSTLET_BIN:-$target/debug/hostlet}
}

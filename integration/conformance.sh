#!/usr/bin/env bash
# Runs Kubernetes' own tests of nodes on a node with hostlet: the specs of sig-node that are labelled Conformance or NodeConformance,
# except for those that need a node of their own. With HOSTLET_TEST_KUBELET=stock the node has the stock kubelet, for comparison. Builds
# the tests with Go (the first time takes half an hour) and their images from local parts. Takes about half an hour on two cores.
#
# usage: sudo integration/conformance.sh [--focus REGULAR_EXPRESSION] [--skip REGULAR_EXPRESSION] [--report DIRECTORY]
#
# The specs that fail with the stock kubelet too are in conformance_failures.txt, with their reasons; any other failure fails the run.
# The reports are JUnit's and ginkgo's. HOSTLET_BIN=PATH tests a hostlet that is already built.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/suites.sh
. "$here/lib/suites.sh"
# shellcheck source=integration/lib/images.sh
. "$here/lib/images.sh"
# shellcheck source=integration/lib/e2e_images.sh
. "$here/lib/e2e_images.sh"

need_root "$@"
caller_dir=$PWD
say "installing and building what is missing"
install_packages
cd "$TOP"
# A failed run prints what failed; backtraces would hide that.
export RUST_BACKTRACE=0
# The specs use features that older containerds lack.
build_containerd2 "$(go_program)"
PATH=$(containerd2_dir):$PATH
# The tests first: they take longest.
build_kubernetes ginkgo "${E2E_IMAGE_PROGRAMS[@]}" e2e.test "${CLUSTER_PROGRAMS[@]}"
[ "${HOSTLET_TEST_KUBELET:-hostlet}" = hostlet ] || build_kubernetes kubelet
install_rust
as_builder cargo build --workspace --locked --quiet
target=$(as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
export HOSTLET_BIN=${HOSTLET_BIN:-$target/debug/hostlet}
# DIRECTORY and PATH are relative to it.
cd "$caller_dir"
exec "$target/debug/conformance" --known "$TOP/integration/conformance_failures.txt" "$@"

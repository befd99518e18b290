#!/usr/bin/env bash
# Runs Kubernetes' own tests of nodes on a node with hostlet: the specs of sig-node and sig-storage that are labelled Conformance or
# NodeConformance, except for those that need a node of their own. With HOSTLET_TEST_KUBELET=stock the node has the stock kubelet, for
# comparison. Builds the tests with Go (the first time takes half an hour) and their images from local parts. Takes about half an hour on
# two cores. --focus selects from all specs of both, of features that are on by default.
#
# usage: sudo integration/conformance.sh [--focus REGULAR_EXPRESSION] [--skip REGULAR_EXPRESSION] [--report DIRECTORY]
#
# The specs that fail with the stock kubelet too are in conformance_failures.txt, with their reasons; any other failure fails the run.
# The reports are JUnit's and ginkgo's. HOSTLET_BIN=PATH tests a hostlet that is already built.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/kubernetes_tests.sh
. "$here/lib/kubernetes_tests.sh"

need_root "$@"
caller_dir=$PWD
build_kubernetes_tests ginkgo e2e.test "${CLUSTER_PROGRAMS[@]}"
# DIRECTORY and PATH are relative to it.
cd "$caller_dir"
exec "$target/debug/conformance" --known "$TOP/integration/conformance_failures.txt" "$@"

#!/usr/bin/env bash
# Runs Kubernetes' own tests of a kubelet (test/e2e_node in its repository) with hostlet over containerd 2: the suite starts and restarts
# the kubelet under test itself. With HOSTLET_TEST_KUBELET=stock this is the stock kubelet, for comparison. By default the specs labelled
# NodeConformance that are neither serial nor slow; --focus selects from all specs of features that are on by default. Builds the tests
# with Go (the first time takes half an hour) and their images from local parts. The default takes about 40 minutes on two cores.
#
# usage: sudo integration/kubelet_tests.sh [--focus REGULAR_EXPRESSION] [--skip REGULAR_EXPRESSION] [--report DIRECTORY] [--procs NUMBER]
#
# The specs that fail are in kubelet_tests_failures.txt, each with its reason. Any other failure fails the run, and so does a spec that
# passes although hostlet does on purpose what it forbids. It runs on this host, without systemd, in a cgroup, a network and a view of the
# file system of its own; specs that restart the runtime, or need systemd otherwise, cannot pass here: see vm/e2e_node.sh. HOSTLET_BIN=PATH
# tests a hostlet that is already built.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/kubernetes_tests.sh
. "$here/lib/kubernetes_tests.sh"
# shellcheck source=integration/lib/registry.sh
. "$here/lib/registry.sh"
# shellcheck source=integration/lib/cgroup.sh
. "$here/lib/cgroup.sh"
# shellcheck source=integration/lib/cleanup.sh
. "$here/lib/cleanup.sh"
# shellcheck source=integration/lib/isolation.sh
. "$here/lib/isolation.sh"

need_root "$@"
caller_dir=$PWD
build_kubernetes_tests e2e_node.test ginkgo
registry_program >/dev/null

# Specs of runtime classes name it.
export HOSTLET_TEST_HANDLER=test-handler

# The suite has fixed places for the kubelet's files. Those of the host are hidden from it, and made where there are none.
name=hostlet-kubelet-tests-$$
work=$(mktemp -d "/var/tmp/$name.XXXXXX")
made=()
# Some specs set the huge pages of the host, and take them back only at their end.
huge_pages=$(tail -n +1 -q /sys/kernel/mm/hugepages/*/nr_hugepages 2>/dev/null | paste -sd ' ')
restore_huge_pages() {
  local file amounts
  read -ra amounts <<<"$huge_pages"
  for file in /sys/kernel/mm/hugepages/*/nr_hugepages; do
    [ "${#amounts[@]}" -gt 0 ] || return 0
    echo "${amounts[0]}" >"$file"
    amounts=("${amounts[@]:1}")
  done
}
clean_up() {
  # Everything that runs is in it; mounts and networks go with the last process.
  remove_cgroup "$name"
  restore_huge_pages
  rm -rf --one-file-system "$work" "/var/tmp/hl-${pid:-none}-0"
  [ "${#made[@]}" -eq 0 ] || rmdir --ignore-fail-on-non-empty "${made[@]}"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
for dir in "${ISOLATED_DIRS[@]}"; do
  [ -d "$dir" ] || { mkdir -p "$dir" && made+=("$dir"); }
done
# DIRECTORY is relative to it.
cd "$caller_dir"
run_isolated "$name" "$work" "$target/debug/kubelet_tests" --known "$TOP/integration/kubelet_tests_failures.txt" "$@" &
pid=$!
wait "$pid"

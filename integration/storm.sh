#!/usr/bin/env bash
# Storms of faults on a real containerd and in a real cluster, in slices. hostlet and containerd are killed and frozen at random instants,
# and hostlet before, during and after each runtime call; disks are filled, frozen and broken; the API server is killed, frozen and cut
# off; pods are evicted; all while pods come and go. After each slice everything must be as it should, and nothing left behind.
# Prints the seed of each slice before it begins, and the number of its faults after it. 2,000 faults take over two hours on two idle cores.
#
# usage: sudo integration/storm.sh [FAULTS]
#
# As many slices as FAULTS need, 2,000 by default. HOSTLET_STORM_SEED is the seed of the first slice, the time without it; each following
# slice has the next number. FAULTS of 1 replay one slice, as far as the machine's timing allows.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/suites.sh
. "$here/lib/suites.sh"

wanted=${1:-2000}
[[ $# -le 1 && $wanted =~ ^[0-9]+$ ]] || die "usage: $0 [FAULTS]"
need_root "$@"
say "installing and building what is missing"
# shellcheck disable=SC2119  # needs no others
install_packages
install_rust
cd "$TOP"
export RUST_BACKTRACE=0
build_suites
can_have_cluster || die "building a control plane needs Go (https://go.dev/dl/)"
(build_kubernetes "${CLUSTER_PROGRAMS[@]}")

seed=${HOSTLET_STORM_SEED:-$(date +%s)}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Runs the storms of a suite, with their output in $log. usage: storms SUITE ROUNDS
storms() {
  HOSTLET_STORM_ROUNDS=$2 run_suite "$1" ", storms of seed $seed" storm:: --nocapture >>"$log" 2>&1
}

# Random instants of kills in a slice, besides those of each call.
export HOSTLET_STORM_KILLS=25
survived=0
while [ "$survived" -lt "$wanted" ]; do
  export HOSTLET_STORM_SEED=$seed
  say "$survived of $wanted faults; now a slice with HOSTLET_STORM_SEED=$seed"
  : >"$log"
  storms containerd 200
  # Each fault of the API server takes seconds.
  storms cluster 50
  if [ "${#failed[@]}" -gt 0 ]; then
    cat "$log"
    die "failed: ${failed[*]}"
  fi
  faults=$(sed -n 's/.*HOSTLET_STORM_FAULTS=\([0-9]*\).*/\1/p' "$log" | awk '{sum += $1} END {print sum + 0}')
  [ "$faults" -gt 0 ] || die "no test of the storm says how many faults it had"
  note "survived $faults faults of seed $seed"
  survived=$((survived + faults))
  seed=$((seed + 1))
done
say "survived $survived faults"

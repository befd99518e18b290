#!/usr/bin/env bash
# Compares hostlet with bare CRI calls, and in a real cluster with the stock kubelet in the same run, and prints one
# table: time to start, stop and restart pods, memory, CPU, requests to the API server. Installs nothing; builds the
# release, and for a cluster the programs of integration/lib/kubernetes.sh. Takes about twenty minutes on two idle
# cores.
#
# usage: sudo integration/bench.sh [--json FILE] [SCENARIO...]    (--help lists the scenarios; default: all)
#
# HOSTLET_BIN=PATH measures a hostlet that is already built.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"

need_root "$@"
target=$(cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
# The harness only waits, so it is not optimized: a second release build would take minutes.
(cd "$TOP" && as_builder cargo build --locked --quiet --package hostlet-integration --bin bench --bin csi_driver \
  --bin device_plugin)
if [ -z "${HOSTLET_BIN:-}" ]; then
  (cd "$TOP" && as_builder cargo build --release --locked --quiet --bin hostlet)
  export HOSTLET_BIN=$target/release/hostlet
fi
printf '%s cores, %s, Linux %s, containerd %s, %s\n' "$(nproc)" \
  "$(awk -F': ' '/^model name/ {print $2; exit}' /proc/cpuinfo)" "$(uname -r)" \
  "$(containerd --version | awk '{print $3}')" "$(runc --version | head -n 1)"
exec "$target/debug/bench" "$@"

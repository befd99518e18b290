#!/usr/bin/env bash
# Runs the sanity tests of CSI drivers (kubernetes-csi/csi-test) against the driver of the tests, in each of its shapes: only a driver that
# is right shows what a kubelet does wrong. Needs root, as the driver mounts; what it mounts is seen by nobody else. Takes a minute.
#
# usage: sudo integration/csi_sanity.sh PROGRAM [OPTION...]
#
# PROGRAM is the driver: target/debug/csi_driver. It gets the options, too.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/suites.sh
. "$here/lib/suites.sh"

[ $# -ge 1 ] || die "usage: $0 PROGRAM [OPTION...]"
need_root "$@"
program=$(realpath "$1")
if [ -z "${HOSTLET_CSI_SANITY:-}" ]; then
  HOSTLET_CSI_SANITY=$(csi_sanity)
  export HOSTLET_CSI_SANITY
  exec unshare --mount --propagation private "$0" "$@"
fi
shift
more=("$@")

work=$(mktemp -d /var/tmp/hostlet-csi-sanity.XXXXXX)
driver=
clean() {
  [ -z "$driver" ] || kill "$driver" 2>/dev/null || true
  awk -v dir="$work/" 'index($5, dir) == 1 {print $5}' /proc/self/mountinfo | tac | xargs -r -n 1 umount
  losetup --noheadings --output NAME,BACK-FILE | awk -v dir="$work/" 'index($2, dir) == 1 {print $1}' |
    xargs -r -n 1 losetup --detach
  rm -rf --one-file-system "$work"
}
trap clean EXIT

# Starts the driver in a shape, runs the tests, and ends it.
# usage: sanity SHAPE "TEST-OPTIONS" [DRIVER-OPTION...]
sanity() {
  local shape=$1 options=$2 dir=$work/$1
  shift 2
  note "a driver with $shape"
  mkdir "$dir"
  "$program" --endpoint "$dir/csi.sock" --volumes "$dir/volumes" --journal "$dir/calls" "${more[@]}" "$@" >"$dir/log" 2>&1 &
  driver=$!
  wait_until 30 "the driver listens" test -S "$dir/csi.sock"
  # shellcheck disable=SC2086  # several words
  "$HOSTLET_CSI_SANITY" --csi.endpoint "unix://$dir/csi.sock" --csi.mountdir "$dir/mount" --csi.stagingdir "$dir/staging" \
    --csi.testvolumesize $((64 << 20)) --csi.testvolumeexpandsize $((128 << 20)) --ginkgo.no-color $options \
    >"$dir/report" 2>&1 || {
    grep -v '^STEP' "$dir/report" | tail -n 80 >&2
    cat "$dir/log" >&2
    die "the driver of the tests with $shape is wrong"
  }
  grep -E '^Ran [1-9]' "$dir/report" || die "no test ran"
  kill "$driver"
  wait "$driver" || die "the driver did not end as it should"
  driver=
}

sanity directories "" --topology zone=a
sanity images "" --image --topology zone=a
sanity devices "--csi.testvolumeaccesstype block" --image
sanity neither-stage-nor-attach "" --no-attach --without STAGE_UNSTAGE_VOLUME
sanity a-limit "--csi.testnodevolumeattachlimit" --max-volumes 3

#!/usr/bin/env bash
# Tests the packages: what is in them, that they are reproducible, what lintian and rpmlint say, and how they are installed,
# upgraded, downgraded, removed and purged in the root file systems of Debian 12 and 13. There a systemctl that only notes what
# it is told takes systemd's place, so that nothing starts.
#
# usage: sudo integration/packages.sh [TEST...]      a TEST is a name or its beginning
#
# HOSTLET_BIN=PATH packages a program that is built already, HOSTLET_MANUAL_BIN=PATH takes a generator of man pages that is built
# already. The root file systems are made once, below ~/.cache/hostlet-tests.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/shell_test.sh
. "$here/lib/shell_test.sh"
# shellcheck source=integration/lib/packages.sh
. "$here/lib/packages.sh"
# shellcheck source=integration/lib/roots.sh
. "$here/lib/roots.sh"
# shellcheck source=integration/lib/package_contents.sh
. "$here/lib/package_contents.sh"
# shellcheck source=integration/lib/package_debs.sh
. "$here/lib/package_debs.sh"
# shellcheck source=integration/lib/package_rpms.sh
. "$here/lib/package_rpms.sh"

need_root "$@"
# Mounts of this script are seen by nobody else and end with it.
if [ -z "${HOSTLET_PACKAGES_UNSHARED:-}" ]; then
  HOSTLET_PACKAGES_UNSHARED=1 exec unshare --mount --propagation private "${BASH_SOURCE[0]}" "$@"
fi

say "installing what is missing"
install_test_tools
WORK=$(mktemp -d)
trap 'umount -R "$WORK"/root.* 2>/dev/null || true; rm -rf --one-file-system "$WORK"' EXIT

say "building two revisions of the packages"
if [ -z "${HOSTLET_BIN:-}" ]; then
  # All of the workspace at once, like the tests: another selection of packages would need another build.
  (cd "$TOP" && as_builder cargo build --workspace --all-targets --locked --quiet)
  HOSTLET_BIN=$(target_dir)/debug/hostlet
fi
if [ -z "${HOSTLET_MANUAL_BIN:-}" ]; then
  (cd "$TOP" && as_builder cargo build --workspace --all-targets --locked --quiet)
  HOSTLET_MANUAL_BIN=$(target_dir)/debug/hostlet-manual
fi
# Debugging symbols would only cost time.
strip -o "$WORK/hostlet" "$HOSTLET_BIN"
export HOSTLET_BIN=$WORK/hostlet
export HOSTLET_MANUAL_BIN
build() { "$TOP/packaging/build.sh" --fast --no-sbom "$@"; }
for revision in 1 2; do build --revision "$revision" --out "$WORK/$revision" >"$WORK/build.log" 2>&1 || {
  cat "$WORK/build.log" >&2
  die "the packages did not build"
}; done
make_roots

# Runs a test, if it is wanted.
# usage: run NAME COMMAND [ARG...]
run() {
  wanted "$1" || return 0
  shell_test "$@"
  drop_roots
}

filters=("$@")
wanted() {
  local filter
  [ "${#filters[@]}" -gt 0 ] || return 0
  for filter in "${filters[@]}"; do [[ $1 != "$filter"* ]] || return 0; done
  return 1
}

say "tests"
for name in $(declare -F | sed -n 's/^declare -f \(contents_.*\)/\1/p'); do run "$name" "$name"; done
for suite in "${SUITES[@]}"; do
  for name in $(declare -F | sed -n 's/^declare -f \(deb_.*\)/\1/p'); do run "${name}_on_$suite" "$name" "$suite"; done
done
for name in $(declare -F | sed -n 's/^declare -f \(rpm_.*\)/\1/p'); do run "$name" "$name"; done
printf '%d passed, %d failed\n' "$passed" "${#failures[@]}"
[ "${#failures[@]}" -eq 0 ]

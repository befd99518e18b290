#!/usr/bin/env bash
# Builds the packages of hostlet, deb and rpm, with checksums and an SBOM. The same source and tools give the same bytes,
# whoever builds, where and when.
#
# usage: packaging/build.sh [--target amd64|arm64] [--out DIR] [--revision N]
#
#   --target      the architecture, by default this machine's; another one is cross-compiled
#   --out         where the packages go, by default target/packages
#   --revision    the packages' revision, for packages of one version that are built again; 1 by default
#   --fast        compress little, for tests
#   --no-sbom     without an SBOM, which needs cargo-cyclonedx
#
# Installs what is missing (as root, else it says what). HOSTLET_BIN=PATH packages a program that is built already, and
# HOSTLET_MANUAL_BIN=PATH takes a generator of man pages that is. SOURCE_DATE_EPOCH sets the time in the packages, which is
# otherwise that of the last commit.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/../integration/lib/common.sh"
# shellcheck source=integration/lib/packages.sh
. "$TOP/integration/lib/packages.sh"
# shellcheck source=integration/lib/images.sh
. "$TOP/integration/lib/images.sh"
# shellcheck source=packaging/lib/target.sh
. "$here/lib/target.sh"
# shellcheck source=packaging/lib/tools.sh
. "$here/lib/tools.sh"
# shellcheck source=packaging/lib/program.sh
. "$here/lib/program.sh"
# shellcheck source=packaging/lib/origin.sh
. "$here/lib/origin.sh"
# shellcheck source=packaging/lib/tree.sh
. "$here/lib/tree.sh"
# shellcheck source=packaging/lib/deb.sh
. "$here/lib/deb.sh"
# shellcheck source=packaging/lib/rpm.sh
. "$here/lib/rpm.sh"

out=""
revision=1
compression=best
with_sbom=yes
set_target "$(host_target)"
while [ $# -gt 0 ]; do
  case $1 in
    --target) set_target "${2:?--target needs an architecture}" && shift 2 ;;
    --out) out=${2:?--out needs a directory} && shift 2 ;;
    --revision) revision=${2:?--revision needs a number} && shift 2 ;;
    --fast) compression=fast && shift ;;
    --no-sbom) with_sbom="" && shift ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit
      ;;
    *) die "unknown argument: $1 (try --help)" ;;
  esac
done
[[ $revision =~ ^[1-9][0-9]*$ ]] || die "--revision $revision is not a number from 1"

# Modes and texts do not depend on who builds.
umask 022
export LC_ALL=C TZ=UTC

say "installing what is missing"
install_tools
out=${out:-$(target_directory)/packages}
mkdir -p "$out"
out=$(cd "$out" && pwd)
SOURCE_DATE_EPOCH=$(source_date)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "building for $DEB_ARCHITECTURE"
build_program "$work/hostlet"
check_program "$work/hostlet"
generate_manual "$work/manual"
make_pause "$work/pause.tar" "$DEB_ARCHITECTURE" "$C_COMPILER"
write_notices >"$work/notices"

say "packaging version $(package_version), revision $revision"
stage_tree "$work"
build_debs "$work" "$out"
build_rpms "$work" "$out"
[ -z "$with_sbom" ] || write_sbom "$out/hostlet_$(package_version)-${revision}_$DEB_ARCHITECTURE.cdx.json"
(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum) >"$work/sums"
put 644 "$work/sums" "$out/SHA256SUMS"
! called_by_sudo || chown -R "$SUDO_USER:" "$out"
say "done: $out"
sed 's/^/    /' "$out/SHA256SUMS"

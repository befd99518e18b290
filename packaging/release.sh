#!/usr/bin/env bash
# Makes a release of the commit that is checked out: checks that it is ready, builds everything that is published, and tags it.
# Publishes nothing: it ends with the commands that do.
#
# usage: packaging/release.sh [--dry-run] [--out DIR] VERSION
#
#   --dry-run     only the checks; prints the notes of the release
#   --out         where the files go, by default target/release-VERSION
#
# It releases the packages for amd64 and arm64, each with an SBOM, the source as an archive, the notes from CHANGELOG.md, and checksums
# of all. CONTRIBUTING.md has what comes before. Whether the commit passes its tests is for continuous integration to say.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/../integration/lib/common.sh"
# shellcheck source=packaging/lib/program.sh
. "$here/lib/program.sh"
# shellcheck source=packaging/lib/origin.sh
. "$here/lib/origin.sh"
# shellcheck source=packaging/lib/release.sh
. "$here/lib/release.sh"

version=""
out=""
dry_run=""
while [ $# -gt 0 ]; do
  case $1 in
    --dry-run) dry_run=yes && shift ;;
    --out) out=${2:?--out needs a directory} && shift 2 ;;
    -h | --help)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit
      ;;
    -*) die "unknown argument: $1 (try --help)" ;;
    *)
      [ -z "$version" ] || die "two versions: $version and $1"
      version=$1 && shift
      ;;
  esac
done
[ -n "$version" ] || die "which version? (try --help)"

# Dies if a check has complained. usage: stop_if_complained CONSEQUENCE
stop_if_complained() { [ "$complaints" -eq 0 ] || die "$1 (errors above: $complaints)"; }

say "checking"
commit=$(cd "$TOP" && as_builder git rev-parse HEAD) || die "this is no git checkout"
check_versions "$version"
check_changelog "$version"
check_repository "$version"
check_recorded_store "$version"
stop_if_complained "$commit cannot be released as $version"

if [ -n "$dry_run" ]; then
  say "$commit can be released as $version, with these notes"
  release_notes "$version"
  exit
fi

out=${out:-$(target_directory)/release-$version}
mkdir -p "$out"
out=$(cd "$out" && pwd)
[ -z "$(ls -A "$out")" ] || die "$out is not empty"
release_notes "$version" >"$out/RELEASE-NOTES.md"
(cd "$TOP" && as_builder git archive --format=tar --prefix="hostlet-$version/" "$commit") | gzip -9 -n >"$out/hostlet-$version.tar.gz"
for target in amd64 arm64; do
  say "packages for $target"
  "$here/build.sh" --target "$target" --out "$out"
done

say "checking what was built"
check_files "$out" "$version"
[ -z "$(uncommitted)" ] || complain "the working tree was changed meanwhile"
[ "$(cd "$TOP" && as_builder git rev-parse HEAD)" = "$commit" ] || complain "another commit was checked out meanwhile"
stop_if_complained "$out is no release, and nothing is tagged"

# Verbatim: the headings of the notes begin with the sign of a comment. Signed where tag.gpgSign says so.
as_builder git -C "$TOP" tag --annotate --cleanup=verbatim --message "hostlet $version

$(release_notes "$version")" "v$version" "$commit"
say "v$version is tagged; its files are in $out"
note "git push origin v$version"
note "then publish the files with RELEASE-NOTES.md as the text"

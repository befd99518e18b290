#!/usr/bin/env bash
# Builds the packages of the last commit twice, in full, and compares them byte by byte: at two paths, by two users, with two
# home directories for cargo, at two times. Takes as long as two release builds.
#
# usage: sudo packaging/reproduce.sh [--target amd64|arm64]
#
# HOSTLET_REPRODUCE_USER=NAME builds one of them, by default nobody. It needs a Rust toolchain that this user may read; without
# one, rustup is told to use that of the caller.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/../integration/lib/common.sh"

need_root "$@"
other=${HOSTLET_REPRODUCE_USER:-nobody}
id "$other" >/dev/null || die "there is no user $other"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
epoch=$(cd "$TOP" && as_builder git log -1 --format=%ct) || die "the last commit gives the packages their time; this is no git checkout"

# usage: copy_source DIRECTORY
copy_source() {
  mkdir -p "$1"
  (cd "$TOP" && as_builder git archive HEAD) | tar -C "$1" -xf -
}

say "first build: by root, in $work/a"
copy_source "$work/a"
(cd / && SOURCE_DATE_EPOCH=$epoch TZ=UTC SUDO_USER='' "$work/a/packaging/build.sh" "$@" --out "$work/out-a")

say "second build: by $other, in $work/b/another/path"
copy_source "$work/b/another/path"
toolchain=$(cd "$TOP" && as_builder rustc --print sysroot)
# A copy, because a home directory is closed to others; its path is another one, too.
mkdir -p "$work/toolchain" "$work/home/.cargo" "$work/out-b"
cp -a "$toolchain/." "$work/toolchain/"
cp -a "$(builder_home)/.cache/hostlet-packaging" "$work/home/.cache-packaging" 2>/dev/null || true
mkdir -p "$work/home/.cache"
! [ -d "$work/home/.cache-packaging" ] || mv "$work/home/.cache-packaging" "$work/home/.cache/hostlet-packaging"
chown -R "$other" "$work/home" "$work/b" "$work/out-b"
(
  cd / && umask 077
  runuser -u "$other" -- env -i HOME="$work/home" PATH="$work/toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    SOURCE_DATE_EPOCH="$epoch" TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$work/b/another/path/packaging/build.sh" "$@" --out "$work/out-b"
)

say "comparing"
code=0
for file in "$work"/out-a/*; do
  if cmp "$file" "$work/out-b/${file##*/}"; then note "equal: ${file##*/}"; else code=1; fi
done
if [ "$code" -ne 0 ]; then
  trap - EXIT
  die "the builds differ; they are kept in $work"
fi
say "both builds are equal"

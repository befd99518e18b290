# shellcheck shell=bash
# A current runc, with user namespaces and recursive read-only mounts, which those of the tested distributions lack: built from its
# Go module and the distribution's libseccomp, once per version. Sourced after common.sh.

RUNC_VERSION=1.5.2

# Its directory, which is kept between runs, next to the calling user's other caches.
runc_dir() {
  printf '%s/hostlet-tests/runc-%s\n' "${XDG_CACHE_HOME:-$(builder_home)/.cache}" "$RUNC_VERSION"
}

# What building it requires besides Go and a C compiler, one package a line. Every sandbox has a seccomp profile.
runc_missing_packages() {
  command -v pkg-config >/dev/null || echo pkgconf
  [ -e /usr/include/seccomp.h ] || echo libseccomp-dev
}

# Builds it into runc_dir, if missing. It is static, so it runs in a distribution with an older C library.
# usage: build_runc GO
build_runc() {
  local dir
  dir=$(runc_dir)
  [ ! -x "$dir/runc" ] || return 0
  as_builder bash -euo pipefail -s "$1" "$dir" "$RUNC_VERSION" <<'BUILD'
go=$1 dir=$2 version=$3 module=github.com/opencontainers/runc
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
[ ! -x "$dir/runc" ] || exit 0
work=$(mktemp -d "$dir/.building.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
# Its start of a process in namespaces is in C.
export CGO_ENABLED=1 GOFLAGS=-mod=mod
{
  "$go" mod init hostlet.dev/tests
  "$go" get "$module@v$version"
  "$go" build -trimpath -tags "netgo osusergo seccomp" -ldflags "-s -w -extldflags -static" -o built "$module"
} >log 2>&1 || { cat log >&2; exit 1; }
mv built "$dir/runc" # An incomplete program never has this name.
BUILD
}

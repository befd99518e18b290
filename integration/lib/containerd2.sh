# shellcheck shell=bash
# A containerd 2, which no distribution of today's tests has: built from its Go module, once per version. Sourced after
# common.sh.

CONTAINERD2_VERSION=2.4.2

# Where it is kept between runs, beside what cargo keeps for a person.
containerd2_dir() {
  printf '%s/hostlet-tests/containerd-%s\n' "${XDG_CACHE_HOME:-$(builder_home)/.cache}" "$CONTAINERD2_VERSION"
}

# Prints the Go that the builder has: on the path, or where Go's own installation puts it; fails if there is none.
go_program() {
  local go
  for go in go /usr/local/go/bin/go; do
    if as_builder "$go" version >/dev/null 2>&1; then
      printf '%s\n' "$go"
      return
    fi
  done
  return 1
}

# Builds containerd, its shim and ctr into containerd2_dir, if they are not there. Half a build is never taken for one:
# the directory gets its name when all is in it.
# usage: build_containerd2 GO
build_containerd2() {
  local dir
  dir=$(containerd2_dir)
  [ ! -d "$dir" ] || return 0
  as_builder bash -euo pipefail -s "$1" "$dir" "$CONTAINERD2_VERSION" <<'BUILD'
go=$1 dir=$2 version=$3 module=github.com/containerd/containerd/v2
mkdir -p "$(dirname "$dir")"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/module" "$work/bin"
cd "$work/module"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
# A module of our own that needs containerd's: `go install MODULE@VERSION` refuses one that excludes versions of others.
"$go" mod init hostlet.dev/tests 2>/dev/null
"$go" get "$module@v$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
for command in containerd containerd-shim-runc-v2 ctr; do
  "$go" build -tags "no_btrfs no_devmapper no_zfs" -trimpath \
    -ldflags "-s -w -X $module/version.Version=$version" -o "$work/bin/$command" "$module/cmd/$command"
done
mv "$work/bin" "$dir"
BUILD
}

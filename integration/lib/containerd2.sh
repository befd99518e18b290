# shellcheck shell=bash
# containerd 2, which none of the tested distributions has: built from its Go module, once per version. Sourced after
# common.sh.

CONTAINERD2_VERSION=2.4.2

# Its directory, which is kept between runs, next to the calling user's other caches.
containerd2_dir() {
  printf '%s/hostlet-tests/containerd-%s\n' "${XDG_CACHE_HOME:-$(builder_home)/.cache}" "$CONTAINERD2_VERSION"
}

# Prints the calling user's Go: from PATH, or from Go's default directory. Fails if there is none.
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

# Builds containerd, its shim and ctr into containerd2_dir, if missing. An incomplete build is never used: the directory
# gets its name when it is complete.
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
# A module that requires containerd's: `go install MODULE@VERSION` refuses one that excludes versions of others.
"$go" mod init hostlet.dev/tests 2>/dev/null
"$go" get "$module@v$version" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
for command in containerd containerd-shim-runc-v2 ctr; do
  "$go" build -tags "no_btrfs no_devmapper no_zfs" -trimpath \
    -ldflags "-s -w -X $module/version.Version=$version" -o "$work/bin/$command" "$module/cmd/$command"
done
mv "$work/bin" "$dir"
BUILD
}

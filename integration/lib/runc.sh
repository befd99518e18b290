# shellcheck shell=bash
# A current runc, with user namespaces and recursive read-only mounts, which those of the tested distributions lack: built from its
# Go module and the distribution's libseccomp, once per version. Sourced after common.sh and kubernetes.sh.

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

# Builds it into runc_dir, if missing. Its start of a process in namespaces is in C.
# usage: build_runc GO
build_runc() {
  build_go_program "$1" "$(runc_dir)" runc github.com/opencontainers/runc "$RUNC_VERSION" "" "netgo osusergo seccomp"
}

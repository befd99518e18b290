# shellcheck shell=bash
# The architecture that is built for, in everybody's words. Sourced after common.sh.

host_target() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) die "packages are built for amd64 and arm64, not for $(uname -m)" ;;
  esac
}

is_cross() { [ "$DEB_ARCHITECTURE" != "$(host_target)" ]; }

# usage: set_target amd64|arm64
# shellcheck disable=SC2034  # read by those who source this
set_target() {
  DEB_ARCHITECTURE=$1
  case $1 in
    amd64)
      RPM_ARCHITECTURE=x86_64
      GNU_TRIPLE=x86_64-linux-gnu
      ;;
    arm64)
      RPM_ARCHITECTURE=aarch64
      GNU_TRIPLE=aarch64-linux-gnu
      ;;
    *) die "unknown target: $1 (amd64 or arm64)" ;;
  esac
  RUST_TARGET=$RPM_ARCHITECTURE-unknown-linux-gnu
  C_COMPILER=cc
  ! is_cross || C_COMPILER=$GNU_TRIPLE-gcc
}

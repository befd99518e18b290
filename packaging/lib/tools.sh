# shellcheck shell=bash
# The tools that packages are built with. Installs only what is missing. Sourced after packages.sh and target.sh.

CARGO_AUDITABLE_VERSION=0.7.0
CARGO_CYCLONEDX_VERSION=0.5.7

# Prints the missing packages of this distribution, one a line.
missing_tools() {
  command -v dpkg-deb >/dev/null || echo dpkg
  command -v rpmbuild >/dev/null || echo rpm
  command -v readelf >/dev/null || echo binutils
  command -v jq >/dev/null || echo jq
  command -v protoc >/dev/null || echo protobuf-compiler
  [ -e /usr/include/google/protobuf/empty.proto ] || [ -e /usr/local/include/google/protobuf/empty.proto ] ||
    echo libprotobuf-dev
  command -v cc >/dev/null || echo gcc
  has_libc_headers || echo libc6-dev
  command -v curl >/dev/null || echo curl
  if is_cross; then
    command -v "$C_COMPILER" >/dev/null || echo "gcc-$GNU_TRIPLE"
    [ -e "/usr/$GNU_TRIPLE/include/stdlib.h" ] || echo "libc6-dev-$DEB_ARCHITECTURE-cross"
    command -v "qemu-$RPM_ARCHITECTURE-static" >/dev/null || command -v "qemu-$RPM_ARCHITECTURE" >/dev/null ||
      echo qemu-user-static
  fi
}

install_tools() {
  local missing
  mapfile -t missing < <(missing_tools)
  if [ "${#missing[@]}" -gt 0 ]; then
    command -v apt-get >/dev/null || die "missing: ${missing[*]} (names of Debian packages); install them and run this again"
    need_root
    note "packages: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || warn "apt-get update failed; trying with the lists there are"
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
      die "apt-get could not install: ${missing[*]}"
  fi
  install_rust
  if [ -z "${HOSTLET_BIN:-}" ]; then
    install_rust_target
    install_cargo_tool cargo-auditable "$CARGO_AUDITABLE_VERSION"
  fi
  [ -z "$with_sbom" ] || install_cargo_tool cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION"
}

# The standard library for another architecture.
install_rust_target() {
  local libraries
  libraries=$(cd "$TOP" && as_builder rustc --print target-libdir --target "$RUST_TARGET")
  ! compgen -G "$libraries/libstd-*" >/dev/null || return 0
  as_builder rustup --version >/dev/null 2>&1 ||
    die "Rust's standard library for $RUST_TARGET is missing from $libraries: install it, or rustup (https://rustup.rs)"
  note "Rust: rustup fetches the standard library for $RUST_TARGET"
  (cd "$TOP" && as_builder rustup target add "$RUST_TARGET")
}

# Where tools of cargo are kept, so that a build has this version and no one's own tools change.
tool_directory() { printf '%s/.cache/hostlet-packaging/%s-%s\n' "$(builder_home)" "$1" "$2"; }

# usage: install_cargo_tool NAME VERSION
install_cargo_tool() {
  local directory
  directory=$(tool_directory "$1" "$2")
  [ ! -x "$directory/bin/$1" ] || return 0
  note "$1: cargo installs version $2 (once)"
  as_builder cargo install --quiet --locked --root "$directory" --version "$2" "$1"
}

# Runs a cargo subcommand of install_cargo_tool as the builder.
# usage: with_cargo_tool NAME VERSION COMMAND [ARG...]
with_cargo_tool() {
  local directory
  directory=$(tool_directory "$1" "$2")
  shift 2
  (cd "$TOP" && as_builder env PATH="$directory/bin:$(builder_home)/.cargo/bin:$PATH" "$@")
}

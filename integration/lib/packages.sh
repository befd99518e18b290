# shellcheck shell=bash
# The packages that building and running hostlet requires on Debian 12 or 13, or Ubuntu. Installs only missing ones.
# Sourced after common.sh.

# Whether busybox is a static program, as an image needs it: ldd fails on a program without a loader.
has_static_busybox() { command -v busybox >/dev/null && ! ldd "$(command -v busybox)" >/dev/null 2>&1; }

has_libc_headers() { as_builder cc -E -x c - </dev/null >/dev/null 2>&1 && [ -e /usr/include/stdlib.h ]; }

# The directory of the CNI plugins: the distribution's, or the one most installers use.
cni_plugin_dir() {
  local dir
  for dir in /usr/lib/cni /opt/cni/bin; do
    if [ -x "$dir/bridge" ] && [ -x "$dir/host-local" ] && [ -x "$dir/portmap" ]; then
      printf '%s\n' "$dir"
      return
    fi
  done
  return 1
}

# Prints the missing packages, one per line; also of these, which are named like the command in them.
# usage: missing_packages [COMMAND...]
missing_packages() {
  local command
  for command in "$@"; do command -v "$command" >/dev/null || echo "$command"; done
  command -v containerd >/dev/null || echo containerd
  command -v runc >/dev/null || echo runc
  cni_plugin_dir >/dev/null || echo containernetworking-plugins
  command -v protoc >/dev/null || echo protobuf-compiler
  # protoc alone lacks google/protobuf/*.proto.
  [ -e /usr/include/google/protobuf/empty.proto ] || [ -e /usr/local/include/google/protobuf/empty.proto ] ||
    echo libprotobuf-dev
  command -v cc >/dev/null || echo gcc
  has_libc_headers || echo libc6-dev
  has_static_busybox || echo busybox-static
  command -v ip >/dev/null || echo iproute2
  command -v iptables >/dev/null || echo iptables
  command -v jq >/dev/null || echo jq
  # A private bus for the tests of shutdowns.
  command -v dbus-daemon >/dev/null || echo dbus
  command -v zstd >/dev/null || echo zstd
  command -v curl >/dev/null || echo curl
  command -v openssl >/dev/null || echo openssl
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
}

# usage: install_packages [COMMAND...]
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if [ "${#missing[@]}" -eq 0 ]; then
    note "packages: all installed"
    return
  fi
  command -v apt-get >/dev/null ||
    die "missing: ${missing[*]}; this script can install them only on Debian and Ubuntu: install them and run it again"
  need_root
  note "packages: installing ${missing[*]}"
  if [[ " ${missing[*]} " == *" busybox-static "* ]] && command -v busybox >/dev/null; then
    note "(busybox-static replaces the package busybox: the same program, without shared libraries)"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || warn "apt-get update failed; continuing with the existing package lists"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
}

# The version of Rust that the project is built with.
wanted_rust() { sed -n 's/^channel = "\(.*\)"$/\1/p' "$TOP/rust-toolchain.toml"; }

# The version of the Rust compiler the builder would use; fails if there is none.
present_rust() { (cd "$TOP" && as_builder rustc --version 2>/dev/null) | awk '{print $2}' | grep .; }

# Whether version $1 is $2 or newer.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

has_wanted_rust() {
  local present
  as_builder cargo --version >/dev/null 2>&1 && present=$(present_rust) && at_least "${present%%-*}" "$(wanted_rust)"
}

# Makes a sufficiently new Rust available: the installed one, else the distribution's if it is new enough (so far none
# is), else that of rust-toolchain.toml from rustup, for the calling user, in addition to existing toolchains.
install_rust() {
  if has_wanted_rust; then
    note "Rust: $(present_rust) is installed"
    return
  fi
  note "Rust: $(wanted_rust) or newer is needed; there is $(present_rust || echo none)"
  local packaged
  packaged=$(apt-cache policy cargo 2>/dev/null | awk '/Candidate:/ {print $2}')
  if [ -n "$packaged" ] && at_least "${packaged%%[+~-]*}" "$(wanted_rust)"; then
    note "Rust: installing the distribution's packages"
    need_root
    apt-get install -y -qq --no-install-recommends cargo rustc >/dev/null
    has_wanted_rust && return
  fi
  if ! as_builder rustup --version >/dev/null 2>&1 && [ "$(id -u)" -eq 0 ] &&
    apt-get install -y -qq --no-install-recommends rustup >/dev/null 2>&1; then
    note "Rust: installed the distribution's rustup"
  fi
  if as_builder rustup --version >/dev/null 2>&1; then
    note "Rust: rustup fetches $(wanted_rust)"
    as_builder rustup toolchain install "$(wanted_rust)" --profile minimal --component clippy,rustfmt
  else
    note "Rust: fetching rustup from https://sh.rustup.rs (it installs into ~/.cargo and ~/.rustup)"
    curl --proto '=https' --tlsv1.2 -fsS https://sh.rustup.rs |
      as_builder sh -s -- -y --no-modify-path --default-toolchain "$(wanted_rust)" --profile minimal --component clippy,rustfmt ||
      die "rustup could not be fetched: install Rust $(wanted_rust) or newer (https://rustup.rs) and run this again"
  fi
  has_wanted_rust || die "Rust $(wanted_rust) or newer is needed; there is $(present_rust || echo none)"
}

# shellcheck shell=bash
# The program and what is generated from it. Sourced after tools.sh.

target_directory() { (cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1) | jq -r .target_directory; }

# shellcheck disable=SC2016  # the builder's variables
cargo_home() { as_builder sh -c 'printf "%s\n" "${CARGO_HOME:-$HOME/.cargo}"'; }

# Paths of this machine, and what the program shows in their place.
path_options() {
  local option=$1 separator=$2
  printf '%s' "$option$(cargo_home)=/cargo$separator"
  printf '%s' "$option$(cd "$TOP" && as_builder rustc --print sysroot)=/rust$separator"
  printf '%s' "$option$(target_directory)=/hostlet/target$separator"
  printf '%s' "$option$TOP=/hostlet"
}

# Writes, into a directory, the cargo and rustc that keep paths of this machine out of the program.
# - Cargo's own setting for options of rustc does not apply to procedural macros, which are built for the host. But the hash of
#   each one, and so its paths, are in all crates that use it, down to the order of functions in the program.
# - cargo auditable makes itself RUSTC_WORKSPACE_WRAPPER, whose path cargo puts into the names of the workspace's symbols.
# usage: write_compiler DIRECTORY
write_compiler() {
  local options
  mapfile -t options < <(path_options --remap-path-prefix= $'\n' && echo)
  cat >"$1/cargo" <<'SH'
#!/bin/sh
AUDITABLE=$RUSTC_WORKSPACE_WRAPPER RUSTC_WRAPPER=${0%/*}/rustc
export AUDITABLE RUSTC_WRAPPER
unset RUSTC_WORKSPACE_WRAPPER
exec cargo "$@"
SH
  printf '#!/bin/sh\nexec "$AUDITABLE" "$@"%s\n' "$(printf ' %q' "${options[@]}")" >"$1/rustc"
  chmod 755 "$1/cargo" "$1/rustc"
}

# Builds the program, or takes HOSTLET_BIN.
# usage: build_program FILE
build_program() {
  local environment=() variable compiler
  if [ -n "${HOSTLET_BIN:-}" ]; then
    [ -x "$HOSTLET_BIN" ] || die "HOSTLET_BIN=$HOSTLET_BIN is no program"
    note "hostlet: using $HOSTLET_BIN"
    install -m 755 "$HOSTLET_BIN" "$1"
    return
  fi
  note "hostlet: cargo auditable build --release for $RUST_TARGET (10 to 20 minutes)"
  variable=${RUST_TARGET//-/_}
  compiler=$(as_builder mktemp -d)
  write_compiler "$compiler"
  environment=(
    "CARGO=$compiler/cargo"
    "CFLAGS_$variable=$(path_options -ffile-prefix-map= ' ')"
    "CC_$variable=$C_COMPILER"
    "CARGO_TARGET_${variable^^}_LINKER=$C_COMPILER"
    CARGO_INCREMENTAL=0
  )
  with_cargo_tool cargo-auditable "$CARGO_AUDITABLE_VERSION" env "${environment[@]}" \
    cargo-auditable auditable build --release --locked --quiet --bin hostlet --target "$RUST_TARGET" ||
    die "hostlet did not build"
  rm -r "$compiler"
  install -m 755 "$(target_directory)/$RUST_TARGET/release/hostlet" "$1"
}

# The program runs, as far as a configuration of the packages goes; that of another architecture in qemu.
check_program() {
  local run=() said
  if is_cross; then
    run=("$(command -v "qemu-$RPM_ARCHITECTURE-static" || command -v "qemu-$RPM_ARCHITECTURE")" -L "/usr/$GNU_TRIPLE")
  fi
  said=$("${run[@]}" "$1" config check "$TOP/packaging/files/config.yaml") ||
    die "the program does not accept packaging/files/config.yaml"
  note "hostlet config check: $said"
  [ "$("${run[@]}" "$1" --version)" = "hostlet $(package_version)" ] ||
    die "the program is not version $(package_version)"
}

# The lowest version of the C library that has all symbols of a program, from their versions.
# usage: glibc_needed FILE
glibc_needed() { readelf --wide --dyn-syms "$1" | sed -n 's/.*@GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1; }

# Man pages, below man, and completions, below completions.
# usage: generate_manual DIRECTORY
generate_manual() {
  mkdir -p "$1"
  if [ -n "${HOSTLET_MANUAL_BIN:-}" ]; then
    "$HOSTLET_MANUAL_BIN" "$TOP" "$1"
    return
  fi
  note "man pages and completions: cargo build -p hostlet-manual"
  (cd "$TOP" && as_builder cargo build --locked --quiet -p hostlet-manual) || die "hostlet-manual did not build"
  "$(target_directory)/debug/hostlet-manual" "$TOP" "$1"
}

# shellcheck shell=bash
# The program and what is generated from it. Sourced after tools.sh.

target_directory() { (cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1) | jq -r .target_directory; }

# shellcheck disable=SC2016  # the builder's variables
cargo_home() { as_builder sh -c 'printf "%s\n" "${CARGO_HOME:-$HOME/.cargo}"'; }

# Paths of this machine, and what the program shows in their place. Cargo leaves these options out of the names it gives symbols.
path_options() {
  local option=$1 separator=$2
  printf '%s' "$option$(cargo_home)=/cargo$separator"
  printf '%s' "$option$(cd "$TOP" && as_builder rustc --print sysroot)=/rust$separator"
  printf '%s' "$option$(target_directory)=/hostlet/target$separator"
  printf '%s' "$option$TOP=/hostlet"
}

# Builds the program, or takes HOSTLET_BIN.
# usage: build_program FILE
build_program() {
  local environment=() variable
  if [ -n "${HOSTLET_BIN:-}" ]; then
    [ -x "$HOSTLET_BIN" ] || die "HOSTLET_BIN=$HOSTLET_BIN is no program"
    note "hostlet: using $HOSTLET_BIN"
    install -m 755 "$HOSTLET_BIN" "$1"
    return
  fi
  note "hostlet: cargo auditable build --release for $RUST_TARGET (10 to 20 minutes)"
  variable=${RUST_TARGET//-/_}
  environment=(
    "CARGO_ENCODED_RUSTFLAGS=$(path_options --remap-path-prefix= $'\x1f')"
    "CFLAGS_$variable=$(path_options -ffile-prefix-map= ' ')"
    "CC_$variable=$C_COMPILER"
    "CARGO_TARGET_${variable^^}_LINKER=$C_COMPILER"
    CARGO_INCREMENTAL=0
  )
  with_cargo_tool cargo-auditable "$CARGO_AUDITABLE_VERSION" env "${environment[@]}" \
    cargo auditable build --release --locked --quiet --bin hostlet --target "$RUST_TARGET" || die "hostlet did not build"
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

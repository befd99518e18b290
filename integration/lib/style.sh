# shellcheck shell=bash
# Checks of what hostlet is built from, of its scripts, and of what it gives to monitoring. Sourced after common.sh; check_monitoring needs
# kubernetes.sh.

# shellcheck source=packaging/lib/tree.sh
. "$TOP/packaging/lib/tree.sh"

CARGO_DENY_VERSION=0.20.2

# Licenses, bans and sources of the crates. A database of advisories, which is fetched, changes without a change here: what it says of
# the crates is a failure, but not that it cannot be reached.
check_dependencies() {
  local directory deny
  directory=$(builder_home)/.cache/hostlet-tests/cargo-deny-$CARGO_DENY_VERSION
  deny=$directory/bin/cargo-deny
  if ! [ -x "$deny" ]; then
    note "cargo-deny: cargo installs version $CARGO_DENY_VERSION (once, some minutes)"
    # Its code runs for a second, which optimization would cost minutes.
    as_builder cargo install --quiet --locked --debug --root "$directory" --version "$CARGO_DENY_VERSION" cargo-deny
  fi
  as_builder "$deny" check bans licenses sources
  if as_builder timeout 120 "$deny" fetch db >/dev/null 2>&1; then
    as_builder "$deny" --offline check advisories
  else
    warn "NOT TESTED: advisories: their database cannot be fetched"
  fi
}

# All scripts, those included that maintainer scripts and scriptlets are made of, which run as root on users' hosts.
check_scripts() {
  local script
  shellcheck -x -S warning "$TOP"/.ci/run "$TOP"/integration/{,lib/,vm/}*.sh "$TOP"/integration/kubelet_tests/* "$TOP"/packaging/{,lib/}*.sh
  for script in "$TOP"/packaging/debian/*/{postinst,postrm,prerm}; do
    expand_script "$script" | shellcheck -s sh -S warning - || die "shellcheck complains of $script"
  done
  for script in "$TOP"/packaging/rpm/*.spec; do
    scriptlets "$script" | shellcheck -s sh -S warning - || die "shellcheck complains of $script"
  done
}

# The scripts in a spec, each as a function: they are independent of each other.
# usage: scriptlets FILE
scriptlets() {
  expand_script "$1" | awk '
    /^%/ { if (inside) print "}"; inside = /^%(pre|post|preun|postun|pretrans|posttrans)$/; if (inside) print substr($0, 2) "() {"; next }
    inside'
}

# The rules and the dashboard that users take, with Prometheus' own parsers. Also that these find a mistake.
check_monitoring() {
  local check files=("$TOP"/packaging/monitoring/hostlet-{rules.yaml,dashboard.json})
  check=$(promql_check)
  "$check" "${files[@]}" >/dev/null || die "packaging/monitoring has the mistakes above"
  ! sed 's/ by (instance)/ by instance/' "${files[0]}" | "$check" /dev/stdin >/dev/null 2>&1 || die "the checker finds no mistake"
}

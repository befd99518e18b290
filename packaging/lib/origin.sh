# shellcheck shell=bash
# Where the packages come from: version, time, crates and their licenses. Sourced after tools.sh.

# shellcheck disable=SC2034  # read by those who source this
MAINTAINER="The hostlet authors <hostlet@users.noreply.github.com>"

workspace_field() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$TOP/Cargo.toml" | head -n 1; }
package_version() { workspace_field version; }
homepage() { workspace_field repository; }
kubernetes_version() { sed -n 's/.*KUBERNETES_VERSION.*"v\(.*\)".*/\1/p' "$TOP/crates/base/src/platform.rs"; }

# The time in the packages: given, or the last commit's, or of a source tree without its history the changelog's.
source_date() {
  if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    printf '%s\n' "$SOURCE_DATE_EPOCH"
  else
    (cd "$TOP" && as_builder git log -1 --format=%ct 2>/dev/null) | grep . || stat -c %Y "$TOP/CHANGELOG.md"
  fi
}

# The crates in the program, those of this workspace included, as lines "NAME VERSION". The features are those of hostlet alone;
# cargo metadata knows only those of the whole workspace, tests included.
built_crates() {
  (cd "$TOP" && as_builder cargo tree --locked --package hostlet --edges normal --target "$RUST_TARGET" --prefix none) |
    awk '{ print $1, substr($2, 2) }' | sort -u
}

# The crates of others in the program, as cargo metadata describes them.
used_crates() {
  local built
  built=$(built_crates)
  (cd "$TOP" && as_builder cargo metadata --locked --format-version 1 --filter-platform "$RUST_TARGET") |
    jq -c --arg built "$built" '($built | split("\n")) as $built
      | .packages[] | select(.source != null and IN("\(.name) \(.version)"; $built[]))'
}

# The crates in the program with their licenses and the notices that these require to be passed on.
write_notices() {
  local crates name version license directory file
  printf 'hostlet contains these crates. Each line has the name, version and license of one.\n\n'
  crates=$(used_crates | jq -r '[.name, .version, (.license // "see its notice"), (.manifest_path | rtrimstr("/Cargo.toml"))] | @tsv' | sort)
  [ "$(wc -l <<<"$crates")" -gt 50 ] || die "cargo metadata names too few crates"
  cut -f 1-3 <<<"$crates"
  while IFS=$'\t' read -r name version license directory; do
    for file in "$directory"/{LICEN[CS]E,COPYING,NOTICE,COPYRIGHT}*; do
      [ -f "$file" ] || continue
      # The Apache License is on every host, and in this package once.
      ! grep -q 'Apache License' "$file" || continue
      printf '\n---- %s %s (%s): %s\n\n' "$name" "$version" "$license" "${file##*/}"
      tr -d '\r' <"$file"
    done
  done <<<"$crates"
  printf '\n---- The Apache License, version 2.0\n\n'
  cat "$TOP/LICENSE"
}

# The bill of materials, in CycloneDX. Paths, times and serial numbers would differ from build to build, and crates that only tests use
# are not in the program.
# usage: write_sbom FILE
write_sbom() {
  local made=hostlet-sbom built
  note "SBOM: cargo cyclonedx"
  with_cargo_tool cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION" \
    cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$RUST_TARGET" --no-build-deps --override-filename "$made"
  built=$(built_crates)
  jq --arg top "path+file://$TOP" --argjson time "$SOURCE_DATE_EPOCH" --arg built "$built" '($built | split("\n")) as $built
    | [.metadata.component, .components[] | select(IN("\(.name) \(.version)"; $built[])) | ."bom-ref"] as $refs
    | .components |= map(select(IN(."bom-ref"; $refs[])))
    | .dependencies |= map(select(IN(.ref; $refs[])) | if .dependsOn then .dependsOn |= map(select(IN($refs[]))) else . end)
    | del(.serialNumber) | .metadata.timestamp = ($time | todate)
    | walk(if type == "string" and startswith($top) then "path+file:///hostlet" + .[($top | length):] else . end)' \
    "$TOP/crates/hostlet/$made.json" >"$1"
  # It writes one for each member of the workspace.
  find "$TOP" -name "$made.json" -not -path "$TOP/target/*" -delete
}

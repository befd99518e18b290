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

# The crates in the program, as cargo metadata describes them.
used_crates() {
  (cd "$TOP" && as_builder cargo metadata --locked --format-version 1 --filter-platform "$RUST_TARGET") | jq -c '
    . as $all
    | [.resolve.nodes[] | {key: .id, value: [.deps[] | select(any(.dep_kinds[]; .kind == null)) | .pkg]}] | from_entries as $deps
    | ($all.packages[] | select(.name == "hostlet" and .source == null) | .id) as $root
    | {seen: {}, next: [$root]}
    | until(.next == []; .seen as $seen
        | ([.next[] | select($seen[.] | not)] | unique) as $new
        | {seen: (reduce $new[] as $id ($seen; .[$id] = true)), next: [$new[] | $deps[.][]]})
    | .seen as $seen | $all.packages[] | select($seen[.id] and .source != null)'
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

# The bill of materials, in CycloneDX. Paths, times and serial numbers would differ from build to build.
# usage: write_sbom FILE
write_sbom() {
  local made=hostlet-sbom
  note "SBOM: cargo cyclonedx"
  with_cargo_tool cargo-cyclonedx "$CARGO_CYCLONEDX_VERSION" \
    cargo cyclonedx --quiet --format json --spec-version 1.5 --target "$RUST_TARGET" --no-build-deps --override-filename "$made"
  jq --arg top "path+file://$TOP" --argjson time "$SOURCE_DATE_EPOCH" 'del(.serialNumber) | .metadata.timestamp = ($time | todate)
    | walk(if type == "string" and startswith($top) then "path+file:///hostlet" + .[($top | length):] else . end)' \
    "$TOP/crates/hostlet/$made.json" >"$1"
  # It writes one for each member of the workspace.
  find "$TOP" -name "$made.json" -not -path "$TOP/target/*" -delete
}

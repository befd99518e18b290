# shellcheck shell=bash
# What makes a commit a release: the checks, and its notes. Each check complains of everything that it finds. Sourced after origin.sh.

complaints=0
complain() {
  printf 'error: %s\n' "$*" >&2
  complaints=$((complaints + 1))
}

# What a section of the changelog says, without its heading and the blank lines around. usage: release_notes VERSION
release_notes() {
  local text
  text=$(awk -v heading="## [$1]" '/^## / { inside = index($0, heading) == 1; next } inside' "$TOP/CHANGELOG.md" | sed '/./,$!d')
  [ -z "$text" ] || printf '%s\n' "$text"
}

# The members of the workspace in Cargo.lock, which are those without a source: name, version.
locked_members() {
  awk -F ' = ' '
    function print_member() { if (name != "" && !source) print name, version; name = ""; source = 0 }
    /^\[\[package\]\]/ { print_member() }
    $1 == "name" { name = $2 }
    $1 == "version" { version = $2 }
    $1 == "source" { source = 1 }
    END { print_member() }' "$TOP/Cargo.lock" | tr -d '"'
}

# usage: check_versions VERSION
check_versions() {
  local version=$1 name locked file line
  [[ $version =~ ^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}$ ]] || complain "$version is no version like 1.2.3 (https://semver.org)"
  [ "$(package_version)" = "$version" ] ||
    complain "Cargo.toml: version of [workspace.package] is $(package_version), not $version"
  # A member with a version of its own would have it here.
  while read -r name locked; do
    [ "$locked" = "$version" ] ||
      complain "Cargo.lock: $name is $locked, not $version: give it version.workspace = true, and run cargo update --workspace"
  done < <(locked_members)
  while IFS=: read -r file line; do
    complain "${file#"$TOP/"} names $line, not the packages of $version"
  done < <(grep -oE 'hostlet[_-][0-9]+\.[0-9]+\.[0-9]+-[0-9]+' "$TOP/README.md" "$TOP"/docs/*.md |
    grep -vE "[_-]${version//./\\.}-[0-9]+$" | sort -u)
}

# usage: check_changelog VERSION
check_changelog() {
  local version=$1 heading date
  heading=$(grep -F "## [$version]" "$TOP/CHANGELOG.md" | head -n 1) || true
  if [ -z "$heading" ]; then
    complain "CHANGELOG.md has no section \"## [$version] - $(date -u +%F)\""
  else
    date=${heading#"## [$version] - "}
    if ! [[ $date =~ ^[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] || ! date -u -d "$date" >/dev/null 2>&1; then
      complain "CHANGELOG.md: \"$heading\" does not end with the day of the release, as in \"## [$version] - $(date -u +%F)\""
    elif [[ $date > $(date -u +%F) ]]; then
      complain "CHANGELOG.md: \"$heading\" is in the future"
    fi
    [ -n "$(release_notes "$version")" ] || complain "CHANGELOG.md: the section of $version is empty"
  fi
  [ -z "$(release_notes Unreleased)" ] || complain "CHANGELOG.md: entries are left under [Unreleased]; they belong to $version or go"
}

# What the working tree has that the commit has not.
uncommitted() { (cd "$TOP" && as_builder git status --porcelain); }

# usage: check_repository VERSION
check_repository() {
  local version=$1 changes last
  changes=$(uncommitted)
  [ -z "$changes" ] || complain "there are changes that are not committed:
$(head -n 10 <<<"$changes")"
  if (cd "$TOP" && as_builder git rev-parse --quiet --verify "refs/tags/v$version" >/dev/null); then
    complain "the tag v$version exists: a version is released once"
  fi
  last=$(cd "$TOP" && as_builder git tag --list 'v[0-9]*' --merged HEAD --sort=-version:refname | head -n 1)
  last=${last#v}
  if [ -n "$last" ] && [ "$last" != "$version" ] &&
    [ "$(printf '%s\n%s\n' "$last" "$version" | sort -V | tail -n 1)" = "$last" ]; then
    complain "$version is not after $last, the last release before this commit"
  fi
}

# Later versions are tested with what this one writes.
# usage: check_recorded_store VERSION
check_recorded_store() {
  [ -e "$TOP/integration/golden/stores/$1.redb.gz" ] ||
    complain "integration/golden/stores/$1.redb.gz, a store as $1 writes it, is missing: docs/upgrades.md says how to record it"
}

# The files of a release, by name. usage: release_files VERSION
release_files() {
  printf '%s\n' "RELEASE-NOTES.md" "SHA256SUMS" "hostlet-$1.tar.gz" \
    "hostlet-kubelet-$1-1.noarch.rpm" "hostlet-$1-1.aarch64.rpm" "hostlet-$1-1.x86_64.rpm" \
    "hostlet-kubelet_$1-1_all.deb" "hostlet_$1-1_amd64.deb" "hostlet_$1-1_arm64.deb" \
    "hostlet_$1-1_amd64.cdx.json" "hostlet_$1-1_arm64.cdx.json"
}

# usage: check_files DIRECTORY VERSION
check_files() {
  local out=$1 version=$2 name described
  while read -r name; do
    [ -s "$out/$name" ] || complain "$name was not built"
  done < <(release_files "$version")
  [ "$complaints" -eq 0 ] || return 0
  for name in "$out"/*.cdx.json; do
    described=$(jq -r '"\(.metadata.component.name) \(.metadata.component.version)"' "$name") || described=nothing
    [ "$described" = "hostlet $version" ] || complain "${name##*/} describes $described"
  done
  (cd "$out" && sha256sum --quiet --check --strict SHA256SUMS) || complain "SHA256SUMS does not hold"
  while read -r name; do
    [ "$name" = SHA256SUMS ] || grep -qF "  $name" "$out/SHA256SUMS" || complain "SHA256SUMS lacks $name"
  done < <(release_files "$version")
}

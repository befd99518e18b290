#!/usr/bin/env bash
# Tests packaging/release.sh: that a tree which is ready passes, that each check fails when it should, and what is tagged. Works on
# copies of this tree's papers with a history of their own; nothing is built there.
#
# usage: integration/release.sh
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/shell_test.sh
. "$here/lib/shell_test.sh"
# shellcheck source=packaging/lib/origin.sh
. "$here/../packaging/lib/origin.sh"

[ $# -eq 0 ] || die "unknown arguments: $*"
# The copy is released as the version of this tree, whatever its changelog says by now.
VERSION=$(package_version)
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@localhost GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@localhost
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null

in_copy() { git -C "$COPY" "$@"; }
commit() { in_copy add --all && in_copy commit --quiet --message "$1"; }
# usage: edit FILE SED
edit() { sed -i -e "$2" "$COPY/$1"; }

# Makes a small tree that is ready to be released, with the papers and scripts of this one.
make_ready_tree() {
  COPY=$WORK/ready
  mkdir "$COPY"
  (cd "$TOP" && git ls-files -z --cached --others --exclude-standard Cargo.\* ./\*.md .gitignore docs packaging integration/lib |
    xargs -0 tar -cf - --ignore-failed-read) | tar -C "$COPY" -xf -
  printf '# Changelog\n\n## [Unreleased]\n\n## [%s] - 2026-01-02\n\nSmall.\n\n### Fixed\n\n- It works.\n\n## [0.0.1] - 2026-01-01\n\n- First.\n' \
    "$VERSION" >"$COPY/CHANGELOG.md"
  mkdir -p "$COPY/integration/golden/stores"
  echo recorded >"$COPY/integration/golden/stores/$VERSION.redb.gz"
  in_copy init --quiet --initial-branch=main
  commit "Ready"
}

# Makes the copy that a test works on.
fresh_copy() {
  COPY=$WORK/copy
  rm -rf "$COPY"
  git clone --quiet --local "$WORK/ready" "$COPY"
}

fail() {
  printf 'failed: %s\n' "$*" >&2
  exit 1
}

# usage: equal ACTUAL EXPECTED WHAT
equal() { [ "$1" = "$2" ] || fail "$3: $(printf '\n%s' "--- expected" "$2" "--- actual" "$1")"; }

# usage: release [ARG...]      Its output, and that of its errors, is in SAID.
release() { SAID=$("$COPY/packaging/release.sh" "$@" 2>&1); }

# Expects that the copy, with its changes committed, cannot be released, for this reason and no other.
# usage: refused REASON
refused() {
  commit "Not ready" >/dev/null || true
  refused_as_it_is "$1"
}

refused_as_it_is() {
  ! release --dry-run "$VERSION" || fail "it passed, in spite of: $1"
  grep -qF -- "$1" <<<"$SAID" || fail "it does not say \"$1\" but: $SAID"
  grep -qF "(errors above: 1)" <<<"$SAID" || fail "not the only reason: $SAID"
}

# Replaces the builds, which take an hour, by files of the same names.
stub_builds() {
  cat >"$COPY/packaging/build.sh" <<'SH'
#!/usr/bin/env bash
set -euo pipefail
. "$(dirname "$0")/lib/origin.sh"
TOP=$(dirname "$0")/..
target=$2 out=$4
version=$(package_version)
case $target in amd64) rpm=x86_64 ;; arm64) rpm=aarch64 ;; esac
for name in "hostlet_$version-1_$target.deb" "hostlet-kubelet_$version-1_all.deb" "hostlet-$version-1.$rpm.rpm" \
  "hostlet-kubelet-$version-1.noarch.rpm"; do echo "$name" >"$out/$name"; done
printf '{"metadata": {"component": {"name": "hostlet", "version": "%s"}}}' "$version" >"$out/hostlet_$version-1_$target.cdx.json"
(cd "$out" && rm -f SHA256SUMS && sums=$(sha256sum -- *) && echo "$sums" >SHA256SUMS)
SH
  [ $# -eq 0 ] || printf '%s\n' "$@" >>"$COPY/packaging/build.sh"
  commit "Stubs of the builds"
}

# Expects that a release is given up after the builds, for this reason, and tags nothing. usage: untagged REASON
untagged() {
  ! release --out "$WORK/out" "$VERSION" || fail "it passed, in spite of: $1"
  grep -qF -- "$1" <<<"$SAID" || fail "it does not say \"$1\" but: $SAID"
  equal "$(in_copy tag)" "" "tags"
}

test_a_tree_that_is_ready_passes_and_stays_as_it_is() {
  release --dry-run "$VERSION" || fail "$SAID"
  equal "$(sed '1,2d' <<<"$SAID")" "Small.

### Fixed

- It works." "the notes"
  equal "$(in_copy status --porcelain --ignored)$(in_copy tag)" "" "changes"
}

test_another_version_than_that_of_the_workspace() {
  edit Cargo.toml 's/^version = .*/version = "7.8.9"/'
  refused "Cargo.toml: version of [workspace.package] is 7.8.9, not $VERSION"
}

test_what_is_no_version() {
  local version
  for version in 1 1.2 v1.2.3 1.2.3-rc.1 01.2.3; do
    ! release --dry-run "$version" || fail "it passed: $version"
    grep -qF "$version is no version like 1.2.3" <<<"$SAID" || fail "$version: $SAID"
  done
  ! release || fail "it passed without a version"
  ! release --dry-run "$VERSION" "$VERSION" || fail "it passed with two versions"
}

test_a_member_with_a_version_of_its_own() {
  awk '/^name = "hostlet-proto"/ {print; getline; print "version = \"7.8.9\""; next} {print}' "$COPY/Cargo.lock" >"$WORK/lock"
  mv "$WORK/lock" "$COPY/Cargo.lock"
  refused "Cargo.lock: hostlet-proto is 7.8.9, not $VERSION"
}

test_a_document_that_names_other_packages() {
  echo "apt install ./hostlet_0.0.9-1_amd64.deb" >>"$COPY/docs/packages.md"
  refused "docs/packages.md names hostlet_0.0.9-1, not the packages of $VERSION"
}

test_no_section_in_the_changelog() {
  edit CHANGELOG.md "s/^## \[${VERSION//./\\.}\].*/## [7.8.9] - 2026-01-02/"
  refused "CHANGELOG.md has no section \"## [$VERSION] - "
}

test_an_empty_section_in_the_changelog() {
  printf '# Changelog\n\n## [%s] - 2026-01-02\n\n## [0.0.1] - 2026-01-01\n\n- First.\n' "$VERSION" >"$COPY/CHANGELOG.md"
  refused "CHANGELOG.md: the section of $VERSION is empty"
}

test_entries_that_are_not_released() {
  edit CHANGELOG.md 's/^## \[Unreleased\]/&\n\n- A feature./'
  refused "CHANGELOG.md: entries are left under [Unreleased]"
}

test_the_day_of_a_release() {
  edit CHANGELOG.md "s/2026-01-02/2026-13-02/"
  refused "does not end with the day of the release"
  edit CHANGELOG.md "s/ - 2026-13-02//"
  refused "does not end with the day of the release"
  edit CHANGELOG.md "s/^## \[${VERSION//./\\.}\]/& - 2999-01-01/"
  refused "is in the future"
}

test_changes_that_are_not_committed() {
  echo >>"$COPY/README.md"
  refused_as_it_is "M README.md"
  in_copy checkout --quiet README.md
  echo >"$COPY/docs/new.md"
  refused_as_it_is "?? docs/new.md"
}

test_a_version_that_is_released() {
  in_copy tag "v$VERSION"
  refused "the tag v$VERSION exists"
}

test_a_version_before_the_last_one() {
  in_copy tag v999.0.0
  refused "$VERSION is not after 999.0.0"
  # A release of an older line is only compared with those before it.
  in_copy tag --delete v999.0.0 >/dev/null
  in_copy tag v999.0.0 "$(in_copy commit-tree -m "Another line" "HEAD^{tree}")"
  release --dry-run "$VERSION" || fail "$SAID"
}

test_no_recorded_store() {
  rm "$COPY/integration/golden/stores/$VERSION.redb.gz"
  refused "integration/golden/stores/$VERSION.redb.gz"
}

test_everything_is_said_at_once() {
  rm "$COPY/integration/golden/stores/$VERSION.redb.gz"
  edit CHANGELOG.md 's/^## \[Unreleased\]/&\n\n- A feature./'
  ! release --dry-run "$VERSION" || fail "it passed"
  grep -qF "(errors above: 3)" <<<"$SAID" || fail "$SAID"
}

test_a_release_is_tagged() {
  stub_builds
  release --out "$WORK/out" "$VERSION" || fail "$SAID"
  equal "$(in_copy rev-parse "v$VERSION^{commit}")" "$(in_copy rev-parse HEAD)" "the commit that is tagged"
  equal "$(in_copy tag --list --format='%(contents)' "v$VERSION")" "hostlet $VERSION

Small.

### Fixed

- It works." "the tag's message"
  equal "$(cat "$WORK/out/RELEASE-NOTES.md")" "$(in_copy tag --list --format='%(contents:body)' "v$VERSION")" "the notes"
  grep -q "  hostlet-$VERSION.tar.gz$" "$WORK/out/SHA256SUMS" || fail "the source has no checksum"
  tar -xzOf "$WORK/out/hostlet-$VERSION.tar.gz" "hostlet-$VERSION/Cargo.toml" | cmp - "$COPY/Cargo.toml" || fail "the source differs"
  ! release --out "$WORK/again" "$VERSION" || fail "it was released twice"
}

test_a_directory_with_other_files() {
  stub_builds
  mkdir "$WORK/out"
  touch "$WORK/out/old.deb"
  untagged "is not empty"
}

test_a_package_that_was_not_built() {
  # shellcheck disable=SC2016  # the stub's variables
  stub_builds 'rm "$out"/hostlet-*.aarch64.rpm 2>/dev/null || true'
  untagged "hostlet-$VERSION-1.aarch64.rpm was not built"
}

test_an_sbom_of_something_else() {
  # shellcheck disable=SC2016  # the stub's variables
  stub_builds 'sed -i "s/hostlet/pause/" "$out"/*_arm64.cdx.json 2>/dev/null || true' \
    '(cd "$out" && rm SHA256SUMS && sums=$(sha256sum -- *) && echo "$sums" >SHA256SUMS)'
  untagged "hostlet_$VERSION-1_arm64.cdx.json describes pause $VERSION"
}

test_checksums_that_do_not_hold() {
  # shellcheck disable=SC2016  # the stub's variables
  stub_builds 'echo >>"$out/RELEASE-NOTES.md"'
  untagged "SHA256SUMS does not hold"
}

test_a_tree_that_changes_during_the_builds() {
  # shellcheck disable=SC2016  # the stub's variables
  stub_builds 'echo >>"$TOP/Cargo.lock"'
  untagged "the working tree was changed meanwhile"
}

test_a_commit_during_the_builds() {
  # shellcheck disable=SC2016  # the stub's variables
  stub_builds 'git -C "$TOP" commit --quiet --allow-empty --message "Meanwhile"'
  untagged "another commit was checked out meanwhile"
}

make_ready_tree
for name in $(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p'); do
  rm -rf "$WORK/out" "$WORK/again"
  fresh_copy
  shell_test "${name#test_}" "$name"
done
[ "${#failures[@]}" -eq 0 ] || die "tests of a release failed: ${failures[*]}"

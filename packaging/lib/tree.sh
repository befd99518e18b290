# shellcheck shell=bash
# The files of the packages, as trees that deb and rpm share but for the places where the distributions differ. Sourced after
# origin.sh.

# usage: put MODE SOURCE TARGET      Makes the directories, too.
put() { install -D -m "$1" "$2" "$3"; }

# Compressed so that equal files give equal bytes.
# usage: put_compressed SOURCE TARGET
put_compressed() {
  install -d -m 755 "$(dirname "$2")"
  gzip -9 -n <"$1" >"$2"
  chmod 644 "$2"
}

# A maintainer script with the parts that it includes: a line @NAME@ stands for the file packaging/files/NAME, edited by SED.
# usage: expand_script FILE [SED]
expand_script() {
  local line
  while IFS= read -r line; do
    if [[ $line =~ ^@([a-z.-]+)@$ ]]; then
      sed -e "${2:-}" "$TOP/packaging/files/${BASH_REMATCH[1]}"
    else
      printf '%s\n' "$line"
    fi
  done <"$1"
}

# What both formats have. usage: stage_common WORK TREE
stage_common() {
  local work=$1 tree=$2 doc=$2/usr/share/doc/hostlet page example
  put 755 "$work/hostlet" "$tree/usr/bin/hostlet"
  put 644 "$TOP/systemd/hostlet.service" "$tree/usr/lib/systemd/system/hostlet.service"
  put 644 "$TOP/systemd/hostlet.slice" "$tree/usr/lib/systemd/system/hostlet.slice"
  put 644 "$TOP/packaging/files/config.yaml" "$tree/etc/hostlet/config.yaml"
  install -d -m 755 "$tree/etc/hostlet/manifests"
  put 644 "$work/pause.tar" "$tree/usr/share/hostlet/images/pause.tar"
  for page in "$work"/manual/man/*; do
    put_compressed "$page" "$tree/usr/share/man/man${page##*.}/$(basename "$page").gz"
  done
  put 644 "$work/manual/completions/hostlet.bash" "$tree/usr/share/bash-completion/completions/hostlet"
  put 644 "$work/manual/completions/hostlet.fish" "$tree/usr/share/fish/vendor_completions.d/hostlet.fish"
  for example in pause.yaml web.yaml crictl.yaml; do put 644 "$TOP/packaging/files/$example" "$doc/examples/$example"; done
  for example in rules.yaml dashboard.json; do
    put 644 "$TOP/packaging/monitoring/hostlet-$example" "$doc/examples/hostlet-$example"
  done
  put_compressed "$TOP/CHANGELOG.md" "$doc/changelog.gz"
  put_compressed "$work/notices" "$doc/third-party-notices.gz"
}

# kubelet.service with the service settings of hostlet.service, except what kubeadm's drop-in has a word in: command and flags.
kubelet_unit() {
  local line
  while IFS= read -r line; do
    if [ "$line" = @SERVICE@ ]; then
      sed -n '/^\[Service\]/,/^\[Install\]/p' "$TOP/systemd/hostlet.service" | grep -vE '^(\[|#|$|Environment|ExecStart=)'
    else
      printf '%s\n' "$line"
    fi
  done <"$TOP/packaging/files/kubelet.service"
}

# The opt-in package. usage: stage_kubelet WORK TREE
stage_kubelet() {
  local work=$1 tree=$2
  kubelet_unit >"$work/kubelet.service"
  put 644 "$work/kubelet.service" "$tree/usr/lib/systemd/system/kubelet.service"
  install -d -m 755 "$tree/usr/bin" "$tree/usr/share/man/man8"
  ln -s hostlet "$tree/usr/bin/kubelet"
  ln -s hostlet.8.gz "$tree/usr/share/man/man8/kubelet.8.gz"
}

# The entry of this build. The changes are in changelog.gz.
# usage: debian_changelog PACKAGE
debian_changelog() {
  printf '%s (%s-%s) unstable; urgency=medium\n\n' "$1" "$(package_version)" "${revision:?}"
  printf '  * See changelog.gz.\n\n'
  printf ' -- %s  %s\n' "$MAINTAINER" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

# usage: stage_debian WORK PACKAGE      What only a deb has
stage_debian() {
  local work=$1 package=$2 tree=$1/deb/$2 doc
  doc=$tree/usr/share/doc/$package
  debian_changelog "$package" >"$work/changelog"
  put_compressed "$work/changelog" "$doc/changelog.Debian.gz"
  sed "s,@HOMEPAGE@,$(homepage)," "$TOP/packaging/debian/copyright" >"$work/copyright"
  put 644 "$work/copyright" "$doc/copyright"
  ! [ -e "$TOP/packaging/debian/$package/lintian-overrides" ] ||
    put 644 "$TOP/packaging/debian/$package/lintian-overrides" "$tree/usr/share/lintian/overrides/$package"
}

# Sets every time to that of the source. usage: set_times TREE
set_times() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

# Stages WORK/deb/PACKAGE and WORK/rpm/PACKAGE.
# usage: stage_tree WORK
stage_tree() {
  local work=$1
  stage_common "$work" "$work/deb/hostlet"
  put 644 "$TOP/packaging/files/default" "$work/deb/hostlet/etc/default/hostlet"
  put 644 "$work/manual/completions/_hostlet" "$work/deb/hostlet/usr/share/zsh/vendor-completions/_hostlet"
  stage_kubelet "$work" "$work/deb/hostlet-kubelet"
  put_compressed "$TOP/CHANGELOG.md" "$work/deb/hostlet-kubelet/usr/share/doc/hostlet-kubelet/changelog.gz"
  stage_debian "$work" hostlet
  stage_debian "$work" hostlet-kubelet

  stage_common "$work" "$work/rpm/hostlet"
  put 644 "$TOP/packaging/files/default" "$work/rpm/hostlet/etc/sysconfig/hostlet"
  put 644 "$TOP/packaging/rpm/80-hostlet.preset" "$work/rpm/hostlet/usr/lib/systemd/system-preset/80-hostlet.preset"
  put 644 "$work/manual/completions/_hostlet" "$work/rpm/hostlet/usr/share/zsh/site-functions/_hostlet"
  put 644 "$TOP/LICENSE" "$work/rpm/hostlet/usr/share/licenses/hostlet/LICENSE"
  stage_kubelet "$work" "$work/rpm/hostlet-kubelet"
  set_times "$work/deb"
  set_times "$work/rpm"
}

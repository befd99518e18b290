# shellcheck shell=bash
# Tests of what is in the packages, without installing them. Sourced after roots.sh.

# Type, mode, owner and path of everything in a deb.
list_deb() { dpkg-deb --fsys-tarfile "$1" | tar -tv --numeric-owner --full-time | awk '{print $1, $2, $6, $7, $8}' | sed 's/ *$//'; }

contents_deb_has_its_files_with_their_modes() {
  local list expected
  list=$(list_deb "$(deb 1)")
  for expected in "-rwxr-xr-x 0/0 ./usr/bin/hostlet" "-rw-r--r-- 0/0 ./etc/hostlet/config.yaml" \
    "drwxr-xr-x 0/0 ./etc/hostlet/manifests/" "-rw-r--r-- 0/0 ./etc/default/hostlet" \
    "-rw-r--r-- 0/0 ./usr/lib/systemd/system/hostlet.service" "-rw-r--r-- 0/0 ./usr/share/hostlet/images/pause.tar" \
    "-rw-r--r-- 0/0 ./usr/share/bash-completion/completions/hostlet" "-rw-r--r-- 0/0 ./usr/share/zsh/vendor-completions/_hostlet" \
    "-rw-r--r-- 0/0 ./usr/share/fish/vendor_completions.d/hostlet.fish" "-rw-r--r-- 0/0 ./usr/share/man/man5/hostlet-config.5.gz" \
    "-rw-r--r-- 0/0 ./usr/share/doc/hostlet/copyright" "-rw-r--r-- 0/0 ./usr/share/doc/hostlet/third-party-notices.gz" \
    "-rw-r--r-- 0/0 ./usr/share/doc/hostlet/examples/pause.yaml" "-rw-r--r-- 0/0 ./usr/share/doc/hostlet/examples/hostlet-rules.yaml" \
    "-rw-r--r-- 0/0 ./usr/share/doc/hostlet/examples/hostlet-dashboard.json"; do
    grep -qxF -- "$expected" <<<"$list" || fail "not in the deb: $expected"
  done
  must_not grep -vE '^([-d]rw[x-]r-[x-]r-[x-]|lrwxrwxrwx) 0/0 ' <<<"$list"
  equal "$(dpkg-deb --ctrl-tarfile "$(deb 1)" | tar -xO ./conffiles)" "/etc/default/hostlet
/etc/hostlet/config.yaml" "conffiles"
}

contents_deb_depends_on_no_container_runtime() {
  local depends
  depends=$(dpkg-deb -f "$(deb 1)" Depends)
  [[ $depends =~ ^"libc6 (>= "[0-9.]+"), libgcc-s1 (>= 4.2), init-system-helpers (>= 1.54~), procps"$ ]] || fail "Depends: $depends"
  equal "$(dpkg-deb -f "$(deb 1)" Recommends)" "containerd | containerd.io, containernetworking-plugins" Recommends
  equal "$(dpkg-deb -f "$(deb 1)" Suggests)" "cri-tools" Suggests
  equal "$(dpkg-deb -f "$(deb 1 hostlet-kubelet)" Conflicts Replaces)" "Conflicts: kubelet
Replaces: kubelet" "hostlet-kubelet"
  [[ $(dpkg-deb -f "$(deb 1 hostlet-kubelet)" Provides) =~ ^"kubelet (= 1."[0-9]+\.[0-9]+")"$ ]] || fail "Provides"
}

contents_rpm_has_the_same_files() {
  local of_deb of_rpm
  # Where the distributions differ on purpose.
  of_deb=$(dpkg-deb --fsys-tarfile "$(deb 1)" | tar -t | sed -e 's,^\.,,' -e '/\/$/d' |
    grep -vE '^/usr/share/(doc|lintian|zsh)|^/etc/default/hostlet$' | sort)
  of_rpm=$(rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$WORK"/1/hostlet-0*.rpm | sed -n 's/^[-l]\S* //p' |
    grep -vE '^/usr/share/(doc|licenses|zsh)|^/etc/sysconfig/hostlet$|system-preset' | sort)
  equal "$of_rpm" "$of_deb" "files of the rpm"
  equal "$(rpm -qp --configfiles "$WORK"/1/hostlet-0*.rpm)" "/etc/hostlet/config.yaml
/etc/sysconfig/hostlet" "configuration files"
  equal "$(rpm -qp --qf '[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]' "$WORK"/1/*.rpm | sort -u)" "root:root" "owners"
  must_not grep -q containerd <<<"$(rpm -qp --requires "$WORK"/1/hostlet-0*.rpm)"
  must grep -qx 'kubelet' <<<"$(rpm -qp --conflicts "$WORK"/1/hostlet-kubelet-*.rpm)"
}

contents_manual_is_complete_and_without_faults() {
  local tree=$WORK/manual page warnings command
  dpkg-deb -x "$(deb 1)" "$tree"
  for page in "$tree"/usr/share/man/man*/*.gz; do
    warnings=$(LC_ALL=C.UTF-8 MANROFFSEQ='' MANWIDTH=100 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$warnings" ] || fail "${page##*/}: $warnings"
  done
  for command in $("$HOSTLET_BIN" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
    [ -e "$tree/usr/share/man/man8/hostlet-$command.8.gz" ] || fail "hostlet $command has no page"
  done
  must bash -n "$tree/usr/share/bash-completion/completions/hostlet"
  must grep -q 'explain' "$tree/usr/share/bash-completion/completions/hostlet"
  must grep -q '^#compdef hostlet' "$tree/usr/share/zsh/vendor-completions/_hostlet"
  must grep -q 'complete -c hostlet' "$tree/usr/share/fish/vendor_completions.d/hostlet.fish"
}

contents_configuration_and_examples_are_valid() {
  local tree=$WORK/examples said
  dpkg-deb -x "$(deb 1)" "$tree"
  said=$("$HOSTLET_BIN" config check "$tree/etc/hostlet/config.yaml" 2>&1)
  equal "$said" "$tree/etc/hostlet/config.yaml: fine" "config check, without a warning"
  # A comment that teaches a setting must be a valid setting.
  sed -E 's/^#( *[a-z][A-Za-z]*:)/\1/' "$tree/etc/hostlet/config.yaml" >"$WORK/taught.yaml"
  must_not cmp -s "$WORK/taught.yaml" "$tree/etc/hostlet/config.yaml"
  must "$HOSTLET_BIN" config check "$WORK/taught.yaml"
}

# The directives of a unit's service section, without what starts it.
service_section() { sed -n '/^\[Service\]/,/^\[Install\]/p' "$1" | grep -vE '^(\[|#|$|Environment|ExecStart=)'; }

contents_both_units_run_the_program_alike() {
  local tree=$WORK/units
  dpkg-deb -x "$(deb 1)" "$tree"
  dpkg-deb -x "$(deb 1 hostlet-kubelet)" "$tree"
  equal "$(service_section "$tree/usr/lib/systemd/system/kubelet.service")" \
    "$(service_section "$tree/usr/lib/systemd/system/hostlet.service")" "kubelet.service"
  must grep -qx 'KillMode=process' "$tree/usr/lib/systemd/system/kubelet.service"
  must grep -qx 'ExecStart=/usr/bin/kubelet' "$tree/usr/lib/systemd/system/kubelet.service"
  must grep -q 'HOSTLET_FLAGS' "$tree/usr/lib/systemd/system/hostlet.service"
  must grep -q '^HOSTLET_FLAGS=' "$tree/etc/default/hostlet"
}

contents_pause_image_of_each_architecture_works() (
  # shellcheck source=integration/lib/images.sh
  . "$TOP/integration/lib/images.sh"
  local architecture compiler layer config pid code
  for architecture in amd64 arm64; do
    compiler=cc
    case $architecture.$(uname -m) in
      arm64.x86_64) compiler=aarch64-linux-gnu-gcc ;;
      amd64.aarch64) continue ;;
    esac
    make_pause "$WORK/pause-$architecture.tar" "$architecture" "$compiler"
    (umask 077 && make_pause "$WORK/again.tar" "$architecture" "$compiler")
    must cmp "$WORK/pause-$architecture.tar" "$WORK/again.tar"
    mkdir "$WORK/pause-$architecture"
    tar -C "$WORK/pause-$architecture" -xf "$WORK/pause-$architecture.tar"
    config=$(jq -r '.config.digest | ltrimstr("sha256:")' "$WORK/pause-$architecture/blobs/sha256/$(
      jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$WORK/pause-$architecture/index.json")")
    equal "$(jq -r .architecture "$WORK/pause-$architecture/blobs/sha256/$config")" "$architecture" "the image's architecture"
    layer=$(jq -r '.rootfs.diff_ids[0] | ltrimstr("sha256:")' "$WORK/pause-$architecture/blobs/sha256/$config")
    tar -C "$WORK/pause-$architecture" -xf "$WORK/pause-$architecture/blobs/sha256/$layer"
    if [ "$compiler" = cc ]; then "$WORK/pause-$architecture/pause" & else qemu-aarch64-static "$WORK/pause-$architecture/pause" & fi
    pid=$!
    code=0
    # The number of the host's rt_sigtimedwait, which qemu calls as well.
    wait_until 5 "pause waits for signals" grep -qE '^(128|137) ' "/proc/$pid/syscall"
    kill -TERM "$pid"
    wait "$pid" || code=$?
    equal "$code" 0 "exit code of pause for $architecture after SIGTERM"
  done
  cmp "$WORK/pause-$(oci_architecture).tar" <(dpkg-deb --fsys-tarfile "$(deb 1)" | tar -xO ./usr/share/hostlet/images/pause.tar) ||
    fail "the package has another pause image"
)

contents_lintian_is_clean() {
  local said
  # The program of this test is a build for development; what lintian says of its code does not hold for a release.
  said=$(lintian --allow-root --tag-display-limit 0 --fail-on none "$WORK"/1/*.deb 2>&1) || fail "lintian did not run: $said"
  equal "$(grep -E '^[EW]: ' <<<"$said" || true)" "" "lintian"
}

contents_rpmlint_is_clean() {
  local said
  # Its exit code only says that there are findings.
  said=$(rpmlint --config "$TOP/packaging/rpm/rpmlint.toml" "$WORK"/1/*.rpm 2>&1 || true)
  must grep -qE '^ *2 packages and 0 specfiles checked' <<<"$said"
  equal "$(grep -E ': [EW]: ' <<<"$said" || true)" "" "rpmlint"
}

# At another path, by another user with another umask, language and time zone, at another date. The compiler does not run
# with another date, which it hangs with; it only tells its version here.
contents_packaging_is_reproducible() {
  local copy=$WORK/elsewhere/a-longer-path home=$WORK/elsewhere/home tool
  mkdir -p "$copy" "$home/.cargo/bin"
  (cd "$TOP" && as_builder git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - --ignore-failed-read) |
    tar -C "$copy" -xf -
  for tool in cargo rustc rustup; do
    printf '#!/bin/sh\nexec env -u LD_PRELOAD HOME=%q PATH=%q %s "$@"\n' "$(builder_home)" "$(builder_home)/.cargo/bin:$PATH" "$tool" \
      >"$home/.cargo/bin/$tool"
    chmod 755 "$home/.cargo/bin/$tool"
  done
  SOURCE_DATE_EPOCH=1700000000 build --out "$WORK/here"
  (
    cd / && umask 077
    SOURCE_DATE_EPOCH=1700000000 LC_ALL=C.UTF-8 TZ=Asia/Tokyo HOME=$home \
      timeout 120 faketime '2031-05-05 10:00:00' unshare --user --map-user=12345 --map-group=12345 \
      "$copy/packaging/build.sh" --fast --no-sbom --out "$WORK/elsewhere/out"
  )
  equal "$(cd "$WORK/elsewhere/out" && sha256sum ./*)" "$(cd "$WORK/here" && sha256sum ./*)" "packages"
}

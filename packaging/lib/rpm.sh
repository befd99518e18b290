# shellcheck shell=bash
# The rpms, made by rpm's own tool from the staged trees. Sourced after tree.sh.

# usage: build_rpms WORK OUT
build_rpms() {
  build_rpm "$1" "$2" hostlet "$RPM_ARCHITECTURE"
  build_rpm "$1" "$2" hostlet-kubelet noarch
}

# usage: build_rpm WORK OUT PACKAGE ARCHITECTURE
build_rpm() {
  local work=$1 out=$2 package=$3 architecture=$4 payload=w19.zstdio spec=$1/$3.spec
  [ "${compression:?}" = best ] || payload=w1.gzdio
  # In a spec, % begins a macro.
  expand_script "$TOP/packaging/rpm/$package.spec" 's/%/%%/g' >"$spec"
  # Nothing of this host goes into the package: neither its name and time nor its distribution's settings. All of it is
  # built already, so nothing is stripped, compressed or compiled again.
  rpmbuild -bb --quiet --target "$architecture-linux" \
    --define "_topdir $work/rpmbuild" --define "_rpmdir $work/rpms" --define "_tmppath $work" \
    --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --define "_buildhost reproducible" --define "use_source_date_epoch_as_buildtime 1" \
    --define "clamp_mtime_to_source_date_epoch 1" --define "source_date_epoch_from_changelog 0" \
    --define "_binary_payload $payload" --define "_build_id_links none" --define "debug_package %{nil}" \
    --define "__os_install_post %{nil}" --define "_unitdir /usr/lib/systemd/system" \
    --define "optflags %{nil}" --define "distribution %{nil}" --define "vendor %{nil}" --define "disttag %{nil}" \
    --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --define "staged $work/rpm/$package" --define "package_version $(package_version)" --define "package_revision ${revision:?}" \
    --define "package_homepage $(homepage)" --define "package_maintainer $MAINTAINER" \
    --define "package_date $(date -u -d "@$SOURCE_DATE_EPOCH" '+%a %b %d %Y')" \
    --define "kubernetes $(kubernetes_version)" --define "glibc $(glibc_needed "$work/hostlet")" \
    "$spec" >"$work/rpmbuild.log" 2>&1 || {
    cat "$work/rpmbuild.log" >&2
    die "rpmbuild failed"
  }
  mv "$work/rpms/$package-$(package_version)-$revision.$architecture.rpm" "$out/"
}

# shellcheck shell=bash
# The debs, made by dpkg's own tool from the staged trees. Sourced after tree.sh.

# usage: build_debs WORK OUT
build_debs() {
  build_deb "$1" "$2" hostlet control "$DEB_ARCHITECTURE"
  build_deb "$1" "$2" hostlet-kubelet control-kubelet all
}

# usage: build_deb WORK OUT PACKAGE CONTROL ARCHITECTURE
build_deb() {
  local work=$1 out=$2 package=$3 control=$4 architecture=$5 tree=$1/deb/$3 script options=(-Zxz)
  [ "${compression:?}" = best ] || options=(-Zgzip -z1)
  install -d -m 755 "$tree/DEBIAN"
  # The size on the disk as dpkg-gencontrol counts it, in KiB: files by their length, everything else as one.
  local size
  size=$(find "$tree" -path "$tree/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1024\n' |
    awk '{sum += int(($1 + 1023) / 1024)} END {print sum}')
  sed -e "s,@VERSION@,$(package_version)-${revision:?}," -e "s,@ARCHITECTURE@,$architecture," -e "s,@MAINTAINER@,$MAINTAINER," \
    -e "s,@SIZE@,$size," -e "s,@HOMEPAGE@,$(homepage)," -e "s,@KUBERNETES@,$(kubernetes_version)," \
    -e "s/@LIBRARIES@/libc6 (>= $(glibc_needed "$work/hostlet")), libgcc-s1 (>= 4.2)/" \
    "$TOP/packaging/debian/$control" >"$tree/DEBIAN/control"
  for script in postinst prerm postrm; do
    expand_script "$TOP/packaging/debian/$package/$script" >"$tree/DEBIAN/$script"
    chmod 755 "$tree/DEBIAN/$script"
  done
  ! [ -e "$TOP/packaging/debian/$package/conffiles" ] ||
    install -m 644 "$TOP/packaging/debian/$package/conffiles" "$tree/DEBIAN/conffiles"
  (cd "$tree" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -printf '%P\n' | sort | xargs md5sum) \
    >"$tree/DEBIAN/md5sums"
  chmod 644 "$tree/DEBIAN/control" "$tree/DEBIAN/md5sums"
  set_times "$tree"
  dpkg-deb --root-owner-group "${options[@]}" --build "$tree" \
    "$out/${package}_$(package_version)-${revision}_$architecture.deb" >/dev/null
}

# shellcheck shell=bash
# Tests of installing, upgrading and erasing the rpms in a root file system. There is only Debian's, so dependencies, which are
# in another form of words there, are not resolved; the scripts run as they do anywhere. Sourced after package_debs.sh.

in_root_rpm() { PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin rpm --root "$ROOT" --nodeps "$@"; }

rpm_installs_enabled_and_started() {
  fresh_root bookworm
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  must is_enabled hostlet.service
  equal "$(told)" "start hostlet.service;" "systemctl"
  must in_root hostlet config check /etc/hostlet/config.yaml
}

rpm_upgrade_and_downgrade_restart_once_and_never_stop() {
  fresh_root bookworm
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  echo "# mine" >>"$ROOT/etc/hostlet/config.yaml"
  forget_told
  in_root_rpm -U "$WORK"/2/hostlet-0*.rpm
  equal "$(told)" "restart hostlet.service;" "systemctl"
  forget_told
  in_root_rpm -U --oldpackage "$WORK"/1/hostlet-0*.rpm
  equal "$(told)" "restart hostlet.service;" "systemctl"
  must grep -qx "# mine" "$ROOT/etc/hostlet/config.yaml"
  must is_enabled hostlet.service
}

rpm_erase_keeps_what_is_not_hostlets() {
  local before said
  fresh_root bookworm
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  put_foreign_files
  before=$(foreign_files)
  forget_told
  said=$(in_root_rpm -e hostlet 2>&1)
  equal "$(told)" "stop hostlet.service;" "systemctl"
  must grep -q "uninstall/hostlet purge --yes" <<<"$said"
  must [ -x "$ROOT/var/lib/hostlet/uninstall/hostlet" ]
  must_not is_enabled hostlet.service
  equal "$(foreign_files)" "$before" "files of others"
}

rpm_beside_a_stock_kubelet_of_the_same_runtime_does_not_start() {
  fresh_root bookworm
  put_stock_unit
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
}

rpm_kubelet_package_is_the_one_kubelet() {
  fresh_root bookworm
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  in_root_rpm -i "$WORK"/1/hostlet-kubelet-*.rpm
  must is_enabled kubelet.service
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
  must in_root kubelet --version
  in_root_rpm -e hostlet-kubelet
  must_not is_enabled kubelet.service
}

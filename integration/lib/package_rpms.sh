# shellcheck shell=bash
# Tests of installing, upgrading and erasing the rpms in a root file system. There is only Debian's, so dependencies, which are
# in another form of words there, are not resolved; the scripts run as they do anywhere. Sourced after package_debs.sh.

in_root_rpm() { PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin unshare --net rpm --root "$ROOT" --nodeps "$@"; }

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
  put_flags etc/sysconfig/hostlet
  forget_told
  said=$(in_root_rpm -e hostlet 2>&1)
  equal "$(told)" "stop hostlet.service;" "systemctl"
  must grep -q "uninstall/hostlet purge --yes --config /var/lib/hostlet/uninstall/config.yaml --root-dir /data/kubelet" <<<"$said"
  must grep -q "containerRuntimeEndpoint: unix:///run/other.sock" "$ROOT/var/lib/hostlet/uninstall/config.yaml"
  must [ -x "$ROOT/var/lib/hostlet/uninstall/hostlet" ]
  must_not is_enabled hostlet.service
  equal "$(foreign_files)" "$before" "files of others"
}

rpm_upgrade_with_rejected_flags_leaves_the_daemon() {
  local said
  fresh_root bookworm
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  echo 'HOSTLET_FLAGS="--no-such-flag"' >"$ROOT/etc/sysconfig/hostlet"
  forget_told
  said=$(in_root_rpm -U "$WORK"/2/hostlet-0*.rpm 2>&1)
  equal "$(told)" "" "systemctl"
  must grep -q -- "--no-such-flag" <<<"$said"
}

rpm_beside_another_kubelet_does_not_start() {
  local unit said
  for unit in "${OTHER_KUBELETS[@]}"; do
    fresh_root bookworm
    put_unit "$unit"
    said=$(in_root_rpm -i "$WORK"/1/hostlet-0*.rpm 2>&1)
    must grep -q "$unit is enabled" <<<"$said"
    must_not is_enabled hostlet.service
    must_not is_running hostlet.service
  done
  fresh_root bookworm
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin unshare --net bash -c "$(declare -f beside_health_port)
    beside_health_port rpm --root $ROOT --nodeps -i $WORK/1/hostlet-0*.rpm"
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

rpm_kubelet_package_takes_over_a_node_of_a_cluster() {
  fresh_root bookworm
  join_cluster
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  in_root_rpm -i "$WORK"/1/hostlet-kubelet-*.rpm
  took_over
  echo "KUBELET_EXTRA_ARGS=--no-such-flag" >"$ROOT/etc/default/kubelet"
  forget_told
  in_root_rpm -U "$WORK"/2/hostlet-0*.rpm "$WORK"/2/hostlet-kubelet-*.rpm
  equal "$(told)" "stop hostlet.service;" "systemctl, with rejected flags"
  rm "$ROOT/etc/default/kubelet"
  forget_told
  in_root_rpm -U --oldpackage "$WORK"/1/hostlet-0*.rpm "$WORK"/1/hostlet-kubelet-*.rpm
  equal "$(told)" "stop hostlet.service;restart kubelet.service;" "systemctl"
  must_not grep -q adopt <<<"$(last_command)"
}

rpm_kubelet_package_leaves_the_unit_of_an_installer() {
  local said
  fresh_root bookworm
  put_kubelet_of_an_installer
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  said=$(in_root_rpm -i "$WORK"/1/hostlet-kubelet-*.rpm 2>&1)
  must grep -q "kubelet.service of this host runs /usr/local/bin/kubelet" <<<"$said"
  runs_as_installed
  in_root_rpm -e hostlet-kubelet
  must is_enabled kubelet.service
  must is_running kubelet.service
}

rpm_kubelet_package_keeps_the_flags_of_the_stock_one() {
  fresh_root bookworm
  join_cluster
  in_root_rpm -i "$WORK"/1/hostlet-0*.rpm
  echo 'KUBELET_EXTRA_ARGS="--node-ip=10.0.0.1"' >"$ROOT/etc/sysconfig/kubelet"
  in_root_rpm -i --noposttrans "$WORK"/1/hostlet-kubelet-*.rpm
  # As when the package kubelet leaves in the same transaction.
  mv "$ROOT/etc/sysconfig/kubelet" "$ROOT/etc/sysconfig/kubelet.rpmsave"
  in_root sh -c "$(rpm -qp --qf '%{POSTTRANS}' "$WORK"/1/hostlet-kubelet-*.rpm)"
  must cmp "$ROOT/etc/sysconfig/kubelet" "$ROOT/etc/sysconfig/kubelet.rpmsave"
  took_over
}

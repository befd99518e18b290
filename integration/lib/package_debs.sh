# shellcheck shell=bash
# Tests of installing, upgrading and removing the debs in a root file system; each takes the suite. Sourced after roots.sh.

# What a stock kubelet and its cluster own, and what users put beside hostlet's files.
put_foreign_files() {
  local file
  for file in var/lib/kubelet/config.yaml var/lib/kubelet/pods/0d3e/etc-hosts var/lib/kubelet/pki/kubelet.crt \
    etc/kubernetes/manifests/etcd.yaml var/log/pods/kube-system_etcd_0d3e/etcd/0.log etc/hostlet/manifests/mine.yaml; do
    mkdir -p "$ROOT/$(dirname "$file")"
    echo "of somebody else" >"$ROOT/$file"
  done
}

foreign_files() { (cd "$ROOT" && grep -rl "of somebody else" var/lib/kubelet etc/kubernetes var/log/pods etc/hostlet | sort); }

# Units with a kubelet, at the places where their installers put them.
OTHER_KUBELETS=(kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service k0sworker.service
  snap.microk8s.daemon-kubelite.service snap.kubelet.daemon.service)

# usage: put_unit NAME      Puts an enabled unit of this name
put_unit() {
  local directory=etc/systemd/system
  case $1 in
    kubelet.service) directory=usr/lib/systemd/system ;;
    rke2-*) directory=usr/local/lib/systemd/system ;;
  esac
  mkdir -p "$ROOT/$directory"
  printf '[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n' >"$ROOT/$directory/$1"
  in_root systemctl --quiet enable "$1"
}

# Flags of the service in the file of its package. usage: put_flags FILE
put_flags() {
  echo 'HOSTLET_FLAGS="--root-dir /data/kubelet --container-runtime-endpoint unix:///run/other.sock"' >"$ROOT/$1"
}

# What kubeadm leaves of a join.
join_cluster() {
  mkdir -p "$ROOT/etc/kubernetes" "$ROOT/var/lib/kubelet/pods/0d3e"
  touch "$ROOT/etc/kubernetes/kubelet.conf"
  printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n' >"$ROOT/var/lib/kubelet/config.yaml"
  put_kubeadm_drop_in
}

# hostlet runs as the kubelet of a node, was permitted once to take its pods over, and would not be at another start.
took_over() {
  must is_enabled kubelet.service
  must is_running kubelet.service
  must_not is_running hostlet.service
  must_not is_enabled hostlet.service
  equal "$(last_command)" "/usr/bin/kubelet \$KUBELET_KUBECONFIG_ARGS \$KUBELET_CONFIG_ARGS \$KUBELET_KUBEADM_ARGS \$KUBELET_EXTRA_ARGS --adopt-foreign-pods" \
    "the command of the first start"
  must_not [ -e "$ROOT/run/systemd/system/kubelet.service.d" ]
}

# What an installer without packages (Kubespray) leaves: a kubelet and a unit of its own, running on a node of a cluster.
put_kubelet_of_an_installer() {
  mkdir -p "$ROOT/etc/kubernetes" "$ROOT/usr/local/bin"
  touch "$ROOT/etc/kubernetes/kubelet.conf"
  install -m 755 /dev/null "$ROOT/usr/local/bin/kubelet"
  printf '[Service]\nExecStart=/usr/local/bin/kubelet \\\n  --v=2\n[Install]\nWantedBy=multi-user.target\n' >"$ROOT/etc/systemd/system/kubelet.service"
  in_root systemctl --quiet enable kubelet.service
  in_root systemctl start kubelet.service
  forget_told
}

# Its unit is as it was.
runs_as_installed() {
  equal "$(told)" "stop hostlet.service;" "systemctl"
  must is_enabled kubelet.service
  must is_running kubelet.service
}

# A stock kubelet's package, and kubeadm's drop-in.
install_stock_package() {
  local tree=$WORK/stock
  mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$tree/usr/lib/systemd/system"
  printf 'Package: kubelet\nVersion: 1.36.0-1.1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: stock\n' \
    >"$tree/DEBIAN/control"
  echo "stock" >"$tree/usr/bin/kubelet"
  printf '[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n' >"$tree/usr/lib/systemd/system/kubelet.service"
  dpkg-deb --root-owner-group --build "$tree" "$WORK/kubelet.deb" >/dev/null
  install_debs "$WORK/kubelet.deb"
  put_kubeadm_drop_in
}

put_kubeadm_drop_in() {
  mkdir -p "$ROOT/usr/lib/systemd/system/kubelet.service.d"
  cat >"$ROOT/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf" <<'INI'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
INI
}

deb_installs_enabled_and_started() {
  fresh_root "$1"
  install_debs "$(deb 1)"
  must is_enabled hostlet.service
  equal "$(told)" "start hostlet.service;" "systemctl"
  equal "$(in_root hostlet config check /etc/hostlet/config.yaml)" "/etc/hostlet/config.yaml: fine" "the program"
  must in_root systemd-analyze verify --man=no /usr/lib/systemd/system/hostlet.service
}

deb_policy_forbids_the_start() {
  fresh_root "$1"
  printf '#!/bin/sh\nexit 101\n' >"$ROOT/usr/sbin/policy-rc.d"
  chmod 755 "$ROOT/usr/sbin/policy-rc.d"
  install_debs "$(deb 1)"
  must is_enabled hostlet.service
  equal "$(told)" "" "systemctl"
}

deb_installs_where_systemd_does_not_run() {
  fresh_root "$1"
  rmdir "$ROOT/run/systemd/system"
  install_debs "$(deb 1)"
  must is_enabled hostlet.service
  in_root dpkg --purge hostlet
  equal "$(told)" "" "systemctl"
}

deb_upgrade_and_downgrade_restart_once_and_never_stop() {
  local revision
  fresh_root "$1"
  install_debs "$(deb 1)"
  echo "# mine" >>"$ROOT/etc/hostlet/config.yaml"
  for revision in 2 1; do
    forget_told
    install_debs "$(deb "$revision")"
    equal "$(told)" "restart hostlet.service;" "systemctl, to revision $revision"
    must is_enabled hostlet.service
    must grep -qx "# mine" "$ROOT/etc/hostlet/config.yaml"
  done
}

deb_upgrade_respects_what_was_disabled_or_stopped() {
  fresh_root "$1"
  install_debs "$(deb 1)"
  in_root systemctl disable hostlet.service
  in_root systemctl stop hostlet.service
  forget_told
  install_debs "$(deb 2)"
  must_not is_enabled hostlet.service
  equal "$(told)" "" "systemctl"
}

deb_upgrade_with_a_rejected_configuration_or_flag_leaves_the_daemon() {
  local said
  fresh_root "$1"
  install_debs "$(deb 1)"
  cp "$ROOT/etc/hostlet/config.yaml" "$WORK/valid.yaml"
  echo "noSuchField: 1" >>"$ROOT/etc/hostlet/config.yaml"
  forget_told
  said=$(install_debs "$(deb 2)" 2>&1)
  equal "$(told)" "" "systemctl"
  must grep -q "what runs goes on" <<<"$said"
  must grep -q 'unknown field "noSuchField"' <<<"$said"
  cp "$WORK/valid.yaml" "$ROOT/etc/hostlet/config.yaml"
  echo 'HOSTLET_FLAGS="--no-such-flag"' >"$ROOT/etc/default/hostlet"
  said=$(install_debs "$(deb 1)" 2>&1)
  equal "$(told)" "" "systemctl, with a rejected flag"
  must grep -q -- "--no-such-flag" <<<"$said"
  echo 'HOSTLET_FLAGS="-v 4"' >"$ROOT/etc/default/hostlet"
  install_debs "$(deb 2)"
  equal "$(told)" "restart hostlet.service;" "systemctl"
}

deb_remove_keeps_configuration_and_purge_deletes_only_what_is_hostlets() {
  local before
  fresh_root "$1"
  install_debs "$(deb 1)"
  put_foreign_files
  before=$(foreign_files)
  forget_told
  in_root dpkg --remove hostlet
  equal "$(told)" "stop hostlet.service;" "systemctl"
  must [ -e "$ROOT/etc/hostlet/config.yaml" ]
  must_not [ -e "$ROOT/usr/bin/hostlet" ]
  # The program that a purge needs; here one that notes how it is called.
  must cmp "$HOSTLET_BIN" "$ROOT/var/lib/hostlet/uninstall/hostlet"
  printf '#!/bin/sh\necho "$*" >>/purge.log\n' >"$ROOT/var/lib/hostlet/uninstall/hostlet"
  in_root dpkg --purge hostlet
  equal "$(cat "$ROOT/purge.log")" "purge --help
purge --yes --config /var/lib/hostlet/uninstall/config.yaml --root-dir /var/lib/kubelet" "the purge"
  must_not [ -e "$ROOT/etc/hostlet/config.yaml" ]
  must_not [ -e "$ROOT/etc/default/hostlet" ]
  must_not [ -e "$ROOT/var/lib/hostlet" ]
  must_not [ -e "$ROOT/etc/systemd/system/multi-user.target.wants/hostlet.service" ]
  equal "$(foreign_files)" "$before" "files of others"
  equal "$(grep -rl 'hostlet' "$ROOT/var/lib/systemd" 2>/dev/null)" "" "state of systemd's helper"
}

deb_purge_takes_the_flags_of_the_service() {
  local kept
  fresh_root "$1"
  install_debs "$(deb 1)"
  put_flags etc/default/hostlet
  in_root dpkg --remove hostlet
  kept=$ROOT/var/lib/hostlet/uninstall
  must grep -q "containerRuntimeEndpoint: unix:///run/other.sock" "$kept/config.yaml"
  equal "$(in_root /var/lib/hostlet/uninstall/hostlet config check /var/lib/hostlet/uninstall/config.yaml)" \
    "/var/lib/hostlet/uninstall/config.yaml: fine" "the kept configuration"
  printf '#!/bin/sh\necho "$*" >>/purge.log\n' >"$kept/hostlet"
  in_root dpkg --purge hostlet
  equal "$(tail -n 1 "$ROOT/purge.log")" \
    "purge --yes --config /var/lib/hostlet/uninstall/config.yaml --root-dir /data/kubelet" "the purge"
}

deb_purge_that_fails_says_how_to_try_again() {
  local said
  fresh_root "$1"
  install_debs "$(deb 1)"
  in_root dpkg --remove hostlet
  printf '#!/bin/sh\n[ "$2" = --help ]\n' >"$ROOT/var/lib/hostlet/uninstall/hostlet"
  said=$(in_root dpkg --purge hostlet 2>&1)
  must grep -q "uninstall/hostlet purge --yes --config .* --root-dir /var/lib/kubelet" <<<"$said"
  must [ -x "$ROOT/var/lib/hostlet/uninstall/hostlet" ]
}

deb_installs_again_after_a_removal() {
  fresh_root "$1"
  install_debs "$(deb 1)"
  in_root dpkg --remove hostlet
  forget_told
  install_debs "$(deb 2)"
  must_not [ -e "$ROOT/var/lib/hostlet" ]
  must is_enabled hostlet.service
  must is_running hostlet.service
}

deb_scripts_can_run_twice() {
  local state script
  fresh_root "$1"
  install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)"
  script() { in_root env "DPKG_MAINTSCRIPT_PACKAGE=${1%.*}" "/var/lib/dpkg/info/$1" "${@:2}"; }
  state() { (cd "$ROOT/etc/systemd" && find . | sort) && (cd "$ROOT" && find var/lib/hostlet var/lib/systemd -type f 2>/dev/null | sort) || true; }
  for script in "hostlet.postinst configure 0.1.0-1" "hostlet-kubelet.postinst configure 0.1.0-1" "hostlet.prerm upgrade 0.1.0-2" \
    "hostlet.postrm upgrade 0.1.0-2" "hostlet-kubelet.prerm remove" "hostlet.prerm remove" "hostlet.postinst abort-remove" \
    "hostlet.prerm remove" "hostlet.postrm remove" "hostlet.postrm purge"; do
    # shellcheck disable=SC2086  # the words of a call
    script $script
    state=$(state)
    # shellcheck disable=SC2086
    script $script
    equal "$(state)" "$state" "state after a second $script"
  done
  must_not script hostlet.postinst nonsense
  must_not script hostlet.prerm nonsense
  must_not script hostlet.postrm nonsense
}

deb_beside_another_kubelet_does_not_start() {
  local unit said setting
  for unit in "${OTHER_KUBELETS[@]}"; do
    fresh_root "$1"
    put_unit "$unit"
    said=$(install_debs "$(deb 1)" 2>&1)
    must grep -q "$unit is enabled, which is another kubelet" <<<"$said"
    must_not is_enabled hostlet.service
    must_not is_running hostlet.service
    install_debs "$(deb 2)"
    must_not is_enabled hostlet.service
    must_not is_running hostlet.service
    must is_enabled "$unit"
  done
  # What keeps two kubelets apart is more than another runtime.
  for setting in containerRuntimeEndpoint podLogsDir cgroupRoot healthzPort --root-dir; do
    must grep -q -- "$setting" <<<"$said"
  done
}

deb_beside_a_stock_kubelet_of_another_runtime_does_not_start() {
  fresh_root "$1"
  put_unit kubelet.service
  mkdir -p "$ROOT/var/lib/kubelet"
  printf 'kind: KubeletConfiguration\ncontainerRuntimeEndpoint: "unix:///var/run/crio/crio.sock"\n' >"$ROOT/var/lib/kubelet/config.yaml"
  install_debs "$(deb 1)"
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
}

deb_beside_a_kubelet_that_runs_or_listens_does_not_start() {
  local said
  fresh_root "$1"
  put_unit k3s.service
  in_root systemctl --quiet disable k3s.service
  in_root systemctl start k3s.service
  said=$(install_debs "$(deb 1)" 2>&1)
  must grep -q "k3s.service runs, which is another kubelet" <<<"$said"
  must_not is_enabled hostlet.service
  fresh_root "$1"
  cp "$(deb 1)" "$ROOT/tmp/hostlet.deb"
  said=$(in_root bash -c "$(declare -f beside_health_port)
    beside_health_port dpkg -i /tmp/hostlet.deb" 2>&1)
  must grep -q "listens on port 10248" <<<"$said"
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
}

deb_installs_again_beside_a_kubelet_that_came_meanwhile() {
  fresh_root "$1"
  install_debs "$(deb 1)"
  in_root dpkg --remove hostlet
  put_unit kubelet.service
  install_debs "$(deb 2)"
  must_not is_running hostlet.service
  must_not is_enabled hostlet.service
}

deb_kubelet_package_takes_the_stock_ones_place() {
  local command
  fresh_root "$1"
  install_stock_package
  put_foreign_files
  install_debs "$(deb 1)"
  must is_enabled hostlet.service
  cp "$(deb 1 hostlet-kubelet)" "$ROOT/tmp/hostlet-kubelet.deb"
  in_root dpkg --auto-deconfigure -B -i /tmp/hostlet-kubelet.deb
  must_not in_root dpkg -s kubelet
  equal "$(in_root readlink /usr/bin/kubelet)" "hostlet" "/usr/bin/kubelet"
  must in_root kubelet --version
  must is_enabled kubelet.service
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
  # Before the host has joined a cluster, kubeadm starts it.
  must_not is_running kubelet.service
  # The unit, then its drop-ins, as systemd reads them: the last command counts.
  command=$(cat "$ROOT"/usr/lib/systemd/system/kubelet.service{,.d/*.conf} | sed -n 's/^ExecStart=//p' | tail -n 1)
  equal "$command" '/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS' \
    "the command that kubeadm's drop-in sets"
  must in_root systemd-analyze verify --man=no kubelet.service
  in_root dpkg --purge hostlet-kubelet
  must_not [ -L "$ROOT/usr/bin/kubelet" ]
  must_not is_enabled hostlet.service
  must [ -e "$ROOT/var/lib/kubelet/config.yaml" ]
}

deb_kubelet_package_takes_over_a_node_of_a_cluster() {
  fresh_root "$1"
  install_stock_package
  join_cluster
  in_root systemctl --quiet enable kubelet.service
  in_root systemctl start kubelet.service
  cp "$(deb 1)" "$(deb 1 hostlet-kubelet)" "$ROOT/tmp/"
  in_root dpkg --auto-deconfigure -B -i "/tmp/$(basename "$(deb 1)")" "/tmp/$(basename "$(deb 1 hostlet-kubelet)")"
  must_not in_root dpkg -s kubelet
  took_over
  # Its own file of pods stays.
  must [ -e "$ROOT/var/lib/kubelet/pods/0d3e" ]
  forget_told
  install_debs "$(deb 2)" "$(deb 2 hostlet-kubelet)"
  equal "$(told)" "stop hostlet.service;restart kubelet.service;" "systemctl, in an upgrade"
  must_not grep -q adopt <<<"$(last_command)"
}

deb_kubelet_package_may_take_over_until_it_has() {
  local said permission
  fresh_root "$1"
  join_cluster
  touch "$ROOT/no-start"
  said=$(install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)" 2>&1)
  must grep -q "this node has no kubelet now" <<<"$said"
  rm "$ROOT/no-start"
  # The drop-in of \`systemctl edit\` does not take the permission away.
  mkdir -p "$ROOT/etc/systemd/system/kubelet.service.d"
  printf '[Service]\nExecStart=\nExecStart=/usr/bin/kubelet\n' >"$ROOT/etc/systemd/system/kubelet.service.d/override.conf"
  in_root systemctl restart kubelet.service
  must grep -q -- --adopt-foreign-pods <<<"$(last_command)"
  permission=$ROOT/run/systemd/system/kubelet.service.d
  must [ -e "$permission" ]
  install_debs "$(deb 2)" "$(deb 2 hostlet-kubelet)"
  must_not grep -q -- --adopt-foreign-pods <<<"$(last_command)"
  must_not [ -e "$permission" ]
  # A stock kubelet, which does not know the flag, comes back.
  fresh_root "$1"
  join_cluster
  touch "$ROOT/no-start"
  install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)"
  must [ -e "$ROOT/run/systemd/system/kubelet.service.d" ]
  in_root dpkg --remove hostlet-kubelet
  must_not [ -e "$ROOT/run/systemd/system/kubelet.service.d" ]
}

deb_kubelet_package_takes_over_again_after_a_removal() {
  fresh_root "$1"
  join_cluster
  install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)"
  in_root dpkg --remove hostlet-kubelet
  must_not is_running kubelet.service
  install_debs "$(deb 1 hostlet-kubelet)"
  took_over
  in_root dpkg --purge hostlet-kubelet
  must_not [ -e "$ROOT/var/lib/hostlet" ]
}

deb_kubelet_package_leaves_the_unit_of_an_installer() {
  local said
  fresh_root "$1"
  put_kubelet_of_an_installer
  said=$(install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)" 2>&1)
  must grep -q "kubelet.service of this host runs /usr/local/bin/kubelet" <<<"$said"
  runs_as_installed
  in_root dpkg --remove hostlet-kubelet
  must is_running kubelet.service
}

deb_kubelet_package_with_rejected_flags_starts_nothing() {
  local said
  fresh_root "$1"
  join_cluster
  mkdir -p "$ROOT/etc/default"
  echo "KUBELET_EXTRA_ARGS=--no-such-flag" >"$ROOT/etc/default/kubelet"
  said=$(install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)" 2>&1)
  must_not is_running kubelet.service
  must grep -q -- "--no-such-flag" <<<"$said"
  rm "$ROOT/etc/default/kubelet"
  in_root systemctl start kubelet.service
  echo "noSuchField: 1" >>"$ROOT/var/lib/kubelet/config.yaml"
  echo "KUBELET_EXTRA_ARGS=--no-such-flag" >"$ROOT/etc/default/kubelet"
  forget_told
  install_debs "$(deb 2)" "$(deb 2 hostlet-kubelet)"
  equal "$(told)" "stop hostlet.service;" "systemctl, in an upgrade"
}

deb_kubelet_package_beside_another_kubelet_does_not_start() {
  local said
  fresh_root "$1"
  join_cluster
  put_unit k3s-agent.service
  said=$(install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)" 2>&1)
  must grep -q "k3s-agent.service is enabled, which is another kubelet" <<<"$said"
  must_not is_enabled kubelet.service
  must_not is_running kubelet.service
  must_not is_running hostlet.service
}

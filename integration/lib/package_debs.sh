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

put_stock_unit() {
  mkdir -p "$ROOT/usr/lib/systemd/system"
  printf '[Service]\nExecStart=/usr/bin/kubelet\n[Install]\nWantedBy=multi-user.target\n' >"$ROOT/usr/lib/systemd/system/kubelet.service"
  in_root systemctl --quiet enable kubelet.service
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

deb_upgrade_with_a_rejected_configuration_leaves_the_daemon() {
  local said
  fresh_root "$1"
  install_debs "$(deb 1)"
  echo "noSuchField: 1" >>"$ROOT/etc/hostlet/config.yaml"
  forget_told
  said=$(install_debs "$(deb 2)" 2>&1)
  equal "$(told)" "" "systemctl"
  must grep -q "the previous version keeps running" <<<"$said"
  must grep -q 'unknown field "noSuchField"' <<<"$said"
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
purge --yes --config /var/lib/hostlet/uninstall/config.yaml" "the purge"
  must_not [ -e "$ROOT/etc/hostlet/config.yaml" ]
  must_not [ -e "$ROOT/etc/default/hostlet" ]
  must_not [ -e "$ROOT/var/lib/hostlet" ]
  must_not [ -e "$ROOT/etc/systemd/system/multi-user.target.wants/hostlet.service" ]
  equal "$(foreign_files)" "$before" "files of others"
  equal "$(grep -rl 'hostlet' "$ROOT/var/lib/systemd" 2>/dev/null)" "" "state of systemd's helper"
}

deb_purge_that_fails_says_how_to_try_again() {
  local said
  fresh_root "$1"
  install_debs "$(deb 1)"
  in_root dpkg --remove hostlet
  printf '#!/bin/sh\n[ "$2" = --help ]\n' >"$ROOT/var/lib/hostlet/uninstall/hostlet"
  said=$(in_root dpkg --purge hostlet 2>&1)
  must grep -q "uninstall/hostlet purge --yes --config" <<<"$said"
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

deb_beside_a_stock_kubelet_of_the_same_runtime_does_not_start() {
  local said
  fresh_root "$1"
  put_stock_unit
  mkdir -p "$ROOT/var/lib/kubelet"
  echo 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock --v=2"' \
    >"$ROOT/var/lib/kubelet/kubeadm-flags.env"
  said=$(install_debs "$(deb 1)" 2>&1)
  must grep -q "kubelet.service is enabled and uses the same container runtime, /run/containerd/containerd.sock" <<<"$said"
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
  install_debs "$(deb 2)"
  must_not is_enabled hostlet.service
  must_not is_running hostlet.service
  must is_enabled kubelet.service
}

deb_beside_a_stock_kubelet_of_another_runtime_starts() {
  fresh_root "$1"
  put_stock_unit
  mkdir -p "$ROOT/var/lib/kubelet"
  printf 'kind: KubeletConfiguration\ncontainerRuntimeEndpoint: "unix:///var/run/crio/crio.sock"\n' >"$ROOT/var/lib/kubelet/config.yaml"
  install_debs "$(deb 1)"
  must is_enabled hostlet.service
  must is_running hostlet.service
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

deb_kubelet_package_starts_on_a_node_of_a_cluster() {
  fresh_root "$1"
  mkdir -p "$ROOT/etc/kubernetes"
  touch "$ROOT/etc/kubernetes/kubelet.conf"
  install_debs "$(deb 1)" "$(deb 1 hostlet-kubelet)"
  must is_running kubelet.service
  must_not is_running hostlet.service
  must_not is_enabled hostlet.service
}

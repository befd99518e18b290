# shellcheck shell=bash
# Kubernetes' own tests of a kubelet (test/e2e_node in its repository) in the VM: the specs that cannot pass where
# integration/kubelet_tests.sh runs the others. Here systemd runs the kubelet under test and containerd, with its cgroup driver and cgroup
# v2. Sourced after confinement.sh, e2e_images.sh and kubernetes.sh.

# Parts of their names.
E2E_NODE_SPECS=(
  # They stop or kill what systemd runs.
  'container runtime is temporarily down'
  'Kubelet should (delete|force-delete) '
  'Kubelet Config .*drop-in'
  # systemd's cgroups, of version 2, and what only this version measures.
  'Cgroup reconciliation'
  'oom-score-adj should be -999'
  'stats/summary under pressure'
  'ContainerMetrics'
  'MemoryQoS'
  # A current runc, a kernel with all modules.
  'User Namespaces for Restricted'
  'PrivilegedPod'
)
# Of features that are on by default, as elsewhere.
E2E_NODE_LABELS='!(Feature: containsAny OffByDefault)'
# Which images they use.
E2E_NODE_IMAGES=(pause e2e-test-images/busybox e2e-test-images/agnhost)
# The suite's directory in the VM, with its reports.
E2E_NODE_DIR=/var/lib/e2e_node

# usage: runs_stock_kubelet
runs_stock_kubelet() {
  case ${HOSTLET_TEST_KUBELET:-hostlet} in
    hostlet) return 1 ;;
    stock) ;;
    *) die "HOSTLET_TEST_KUBELET=$HOSTLET_TEST_KUBELET: neither hostlet nor stock" ;;
  esac
}

payload_e2e_node() {
  local dir=$1 layouts name layout programs=(e2e_node.test)
  current_runtime "$dir"
  ! runs_stock_kubelet || programs+=(kubelet)
  build_kubernetes "${programs[@]}" "${E2E_IMAGE_PROGRAMS[@]}"
  mkdir "$dir/e2e_node"
  for name in "${programs[@]}"; do cp "$(kubernetes_program "$name")" "$dir/e2e_node/"; done
  # Only root is there.
  cp "$TOP/integration/kubelet_tests/sudo" "$dir/e2e_node/"
  # Upstream's configuration, with the driver that containerd has here.
  sed 's/^cgroupDriver: .*/cgroupDriver: systemd/' "$(kubernetes_source)/test/e2e_node/jenkins/default-kubelet-config.yaml" \
    >"$dir/e2e_node/base.yaml"
  layouts=$(mktemp -d)
  make_e2e_images "$layouts" >/dev/null
  for name in "${E2E_NODE_IMAGES[@]}"; do
    for layout in "$layouts/$name"/*; do
      layout_archive "$layout" "$E2E_REGISTRY/$name:$(basename "$layout")" "$dir/e2e_node/$(basename "$name")-$(basename "$layout").tar"
    done
  done
  rm -rf "$layouts"
  # What judges the report.
  if [ -z "${HOSTLET_KUBELET_TESTS_BIN:-}" ]; then
    build_workspace
    export HOSTLET_KUBELET_TESTS_BIN
    HOSTLET_KUBELET_TESTS_BIN=$(target_directory)/debug/kubelet_tests
  fi
}

scenario_e2e_node() {
  local report=${TMPDIR:-/tmp}/hostlet-vm-e2e_node kubelet=/usr/bin/hostlet focus file
  # For the suite's own API server, too.
  # shellcheck disable=SC2034  # read at the next boot
  VM_MEMORY=3072
  use_current_runtime
  node_systemd_cgroups
  node_network
  ! runs_stock_kubelet || kubelet=/payload/e2e_node/kubelet
  # The kubelet under test has the place of hostlet.service. The suite looks for it beside its own program.
  vm "systemctl disable -q --now hostlet.service && mkdir -p $E2E_NODE_DIR/reports && cd $E2E_NODE_DIR && cp /payload/e2e_node/base.yaml . &&
    ln -s /payload/e2e_node/e2e_node.test . && ln -s $kubelet kubelet && ln -s /payload/e2e_node/sudo /usr/local/bin/sudo"
  vm "for archive in /payload/e2e_node/*.tar; do ctr -n k8s.io images import \$archive; done" >/dev/null
  # The suite's etcd does not report its progress, so the stock kubelet would wait for its first lists. systemd starts both.
  vm "systemctl set-environment KUBE_FEATURE_WatchListClient=false"
  focus=${HOSTLET_VM_FOCUS:-$(IFS='|' && echo "${E2E_NODE_SPECS[*]}")}
  # One process: a spec that restarts the kubelet runs alone. Its unit must not look like one of a kubelet.
  vm "systemd-run --quiet --unit=specs --working-directory=$E2E_NODE_DIR -E HOME=/root -p StandardOutput=append:$E2E_NODE_DIR/reports/tests.log \
    -p StandardError=append:$E2E_NODE_DIR/reports/tests.log $E2E_NODE_DIR/e2e_node.test --ginkgo.focus='$focus' \
    --ginkgo.label-filter='$E2E_NODE_LABELS' --ginkgo.timeout=2h --ginkgo.no-color --ginkgo.silence-skips \
    --ginkgo.json-report=$E2E_NODE_DIR/reports/report.json --kubelet-config-file=$E2E_NODE_DIR/base.yaml --node-name=node1 \
    --prepull-images=false --report-dir=$E2E_NODE_DIR/reports"
  # Longer than the suite lets itself run: it then says in which spec.
  vm_until 7500 "the specs have run" "for _ in {1..20}; do systemctl is-active -q specs.service || exit 0; sleep 1; done; exit 1"
  rm -rf "$report"
  mkdir -p "$report"
  for file in tests.log kubelet.log report.json; do vm_get "$E2E_NODE_DIR/reports/$file" "$report/$file"; done
  # It prints what failed; a backtrace would hide that.
  RUST_BACKTRACE=0 "$HOSTLET_KUBELET_TESTS_BIN" --known "$TOP/integration/vm/e2e_node_failures.txt" --judge "$report"
}

# shellcheck shell=bash
# `kubeadm join`; the scenario of it with hostlet in the package hostlet-kubelet. Sourced after cluster.sh.

# What kubeadm uploads as the cluster's configuration. Nobody serves the HTTPS API yet.
kubeadm_configuration() {
  cat <<YAML
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: $BOOTSTRAP_TOKEN
  groups: [system:bootstrappers:kubeadm:default-node-token]
  usages: [signing, authentication]
localAPIEndpoint: {advertiseAddress: $CLUSTER_ADDRESS, bindPort: 6443}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$KUBERNETES_VERSION
controlPlaneEndpoint: $CLUSTER_ADDRESS:6443
networking: {podSubnet: $POD_SUBNETS, serviceSubnet: $SERVICE_SUBNET}
YAML
}

payload_kubeadm() {
  build_kubernetes "${CONTROL_PLANE[@]}" kubectl kubeadm
  cp "$(kubernetes_program kubeadm)" "$1/"
}

before_kubeadm() {
  local kubeadm
  kubeadm=$(kubernetes_program kubeadm)
  cluster_begin
  cluster_start kube-controller-manager --controllers='*,bootstrapsigner,tokencleaner'
  cluster_start kube-scheduler
  kubeadm_configuration >"$CLUSTER_DIR/kubeadm.yaml"
  local phase
  # What `kubeadm init` leaves for nodes to join.
  for phase in "upload-config kubeadm" "upload-config kubelet" bootstrap-token; do
    # shellcheck disable=SC2086  # words
    in_cluster_network "$kubeadm" init phase $phase --config "$CLUSTER_DIR/kubeadm.yaml" \
      --kubeconfig "$CLUSTER_DIR/admin.conf" >"$CLUSTER_DIR/kubeadm.log" 2>&1 || {
      cat "$CLUSTER_DIR/kubeadm.log" >&2
      die "kubeadm init phase $phase failed"
    }
  done
  wait_until 60 "the cluster's information is signed" cluster_kubectl -n kube-public get configmap cluster-info \
    -o "jsonpath={.data.jws-kubeconfig-${BOOTSTRAP_TOKEN%.*}}"
}

after_kubeadm() { cluster_end; }

# The Secret of the pods, as a document before theirs.
word_secret() {
  cat <<'YAML'
apiVersion: v1
kind: Secret
metadata: {name: word, namespace: default}
stringData: {word: open-sesame}
---
YAML
}

# A pod that the scheduler binds, with a Secret and the token of its service account.
secret_pod() {
  word_secret
  cat <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: word, secret: {secretName: word}}]
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sleep, infinity]
      volumeMounts: [{name: word, mountPath: /word}]
YAML
}

# Installs kubeadm and joins the VM to the control plane, as a user does once its kubelet is installed.
kubeadm_join() {
  local hash
  # The saved VM's clock stood still, and certificates have times.
  vm "date -s @$(date +%s) && sysctl -q net.ipv4.ip_forward=1" >/dev/null
  node_network
  vm "install -m 755 /payload/kubeadm /usr/bin/kubeadm"
  # What the package kubeadm has besides.
  vm "mkdir -p /usr/lib/systemd/system/kubelet.service.d && cat >/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf <<'INI'
[Service]
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet \$KUBELET_KUBECONFIG_ARGS \$KUBELET_CONFIG_ARGS \$KUBELET_KUBEADM_ARGS \$KUBELET_EXTRA_ARGS
INI
systemctl daemon-reload"
  hash=$(openssl x509 -in "$CLUSTER_DIR/pki/ca.crt" -pubkey -noout | openssl pkey -pubin -outform der | sha256sum | cut -d' ' -f1)
  VM_RUN_LIMIT=300 vm "kubeadm join $CLUSTER_ADDRESS:6443 --token $BOOTSTRAP_TOKEN --discovery-token-ca-cert-hash sha256:$hash"
  wait_until 120 "the node is ready" cluster_kubectl wait --for=condition=Ready node/vm --timeout=2s || vm_fail "the node did not join"
  wait_until 60 "a service account for pods" cluster_kubectl get serviceaccount default || vm_fail "no service account"
}

scenario_kubeadm() {
  local before
  vm "apt-get install -y -qq /payload/1/hostlet-kubelet_*.deb" >/dev/null
  kubeadm_join
  same "the version" "v$KUBERNETES_VERSION" "$(cluster_kubectl get node vm -o 'jsonpath={.status.nodeInfo.kubeletVersion}')"
  secret_pod >"$CLUSTER_DIR/pod.yaml"
  cluster_kubectl apply -f "$CLUSTER_DIR/pod.yaml" >/dev/null
  wait_until 120 "the pod is ready" cluster_kubectl wait --for=condition=Ready pod/reader --timeout=2s || vm_fail "the pod is not ready"
  # The Secret is a tmpfs that the daemon mounted, under the packaged unit.
  same "the Secret in the container" open-sesame "$(vm "hostlet exec reader -- cat /word/word")"
  vm "hostlet exec reader -- grep ' /word ' /proc/mounts | grep tmpfs"
  before=$(node_containers)
  vm "systemctl restart kubelet.service"
  wait_until 60 "the node is ready again" cluster_kubectl wait --for=condition=Ready node/vm --timeout=2s || vm_fail "the node is not ready"
  same "the containers after a restart" "$before" "$(node_containers)"
  cluster_kubectl delete pod reader --timeout=60s >/dev/null
  vm_until 60 "nothing runs" "[ -z \"\$(ctr -n k8s.io tasks ls -q)\" ]"
}

# shellcheck shell=bash
# The stock kubelet of a node that has joined a cluster, hostlet-kubelet in its place, and the stock kubelet again: what runs goes on.
# Sourced after kubeadm.sh.

payload_takeover() {
  payload_kubeadm "$1"
  build_kubernetes kubelet
  stock_package "$1/stock"
}

before_takeover() { before_kubeadm; }

after_takeover() { after_kubeadm; }

# Makes a package of the stock kubelet, like that of the Kubernetes project: a program, and a unit that nothing enables.
# usage: stock_package DIRECTORY
stock_package() {
  local dir=$1 tree=$1/tree
  mkdir -p "$tree"/{DEBIAN,usr/bin,usr/lib/systemd/system}
  cat >"$tree/DEBIAN/control" <<CONTROL
Package: kubelet
Version: $KUBERNETES_VERSION-1.1
Architecture: amd64
Maintainer: nobody <nobody@example.com>
Description: the stock kubelet
CONTROL
  cat >"$tree/usr/lib/systemd/system/kubelet.service" <<'UNIT'
[Unit]
Description=kubelet: The Kubernetes Node Agent
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
UNIT
  cp "$(kubernetes_program kubelet)" "$tree/usr/bin/kubelet"
  dpkg-deb --root-owner-group -Zgzip -z1 --build "$tree" "$dir/kubelet.deb" >/dev/null
  rm -r "$tree"
}

# A pod that keeps a word of its own in each kind of volume, with a Secret.
keeper_pod() {
  word_secret
  cat <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: keeper, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: disk, emptyDir: {}}
    - {name: memory, emptyDir: {medium: Memory}}
    - {name: word, secret: {secretName: word}}
  initContainers:
    - name: once
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "echo once >>/disk/once"]
      volumeMounts: [{name: disk, mountPath: /disk}]
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "echo disk >/disk/word; echo memory >/memory/word; exec httpd -f -p 8080 -h /word"]
      readinessProbe: {httpGet: {path: /word, port: 8080}, periodSeconds: 1}
      livenessProbe: {exec: {command: [cat, /memory/word]}, periodSeconds: 1, timeoutSeconds: 60}
      resources: {requests: {cpu: 50m, memory: 32Mi}, limits: {memory: 64Mi}}
      volumeMounts:
        - {name: disk, mountPath: /disk}
        - {name: memory, mountPath: /memory}
        - {name: word, mountPath: /word}
YAML
}

# What must be the same with every kubelet: the pod with its containers, and since when it is ready.
keeper_state() {
  cluster_kubectl get pod keeper -o json | jq -r '[.metadata.uid, .status.phase, .status.podIP, .status.startTime,
    (.status.conditions[] | select(.type == "Ready") | .status, .lastTransitionTime),
    (.status.initContainerStatuses[] | .containerID, .restartCount),
    (.status.containerStatuses[] | .containerID, .restartCount)] | join(" ")'
  node_containers | grep '^keeper '
}

# A file of the container of the pod keeper. usage: keeper_file PATH
keeper_file() {
  vm "cat /proc/\$(ctr -n k8s.io tasks ls | awk -v id=$(cluster_kubectl get pod keeper -o \
    'jsonpath={.status.containerStatuses[0].containerID}' | sed 's,^containerd://,,') '\$1 == id {print \$2}')/root$1"
}

# Fails unless all is as before; SECRET is the word in it. usage: keeper_is_kept WHO STATE SECRET
keeper_is_kept() {
  # Two rounds of the node's status and of the probes.
  sleep 25
  same "the pod with $1" "$2" "$(keeper_state)"
  same "the volumes with $1" "once disk memory $3" \
    "$(for file in /disk/once /disk/word /memory/word /word/word; do keeper_file "$file"; done | xargs)"
  # A static pod starts again: its UID, a hash, is another one with another kubelet.
  cluster_kubectl wait --for=condition=Ready node/vm pod/static-vm --timeout=60s >/dev/null ||
    vm_fail "the node or the static pod is not ready with $1"
  same "the containers of the static pod with $1" 2 "$(node_containers | grep -c '^static-vm ')"
}

# Changes the Secret, and waits until the pod sees that: its kubelet has the volumes in hand. usage: keeper_sees_secret WORD
keeper_sees_secret() {
  local end=$((SECONDS + 240))
  cluster_kubectl patch secret word -p "{\"stringData\": {\"word\": \"$1\"}}" >/dev/null
  until [ "$(keeper_file /word/word)" = "$1" ]; do
    [ "$SECONDS" -lt "$end" ] || vm_fail "the changed Secret is not in the pod"
    sleep 2
  done
}

# The program of the kubelet that runs.
kubelet_program() { vm "readlink /proc/\$(systemctl show -P MainPID kubelet.service)/exe"; }

scenario_takeover() {
  local before node
  vm "apt-get purge -y -qq hostlet && ctr -n k8s.io images import /payload/images/busybox.tar" >/dev/null
  # kubeadm's default.
  node_systemd_cgroups
  vm "apt-get install -y -qq /payload/stock/kubelet.deb && systemctl enable -q kubelet.service" >/dev/null
  kubeadm_join
  same "the kubelet" /usr/bin/kubelet "$(kubelet_program)"
  sleeper static >"$CLUSTER_DIR/static.yaml"
  vm_put "$CLUSTER_DIR/static.yaml" /etc/kubernetes/manifests/static.yaml
  keeper_pod >"$CLUSTER_DIR/pod.yaml"
  cluster_kubectl apply -f "$CLUSTER_DIR/pod.yaml" >/dev/null
  wait_until 120 "the pods are ready" cluster_kubectl wait --for=condition=Ready pod/keeper pod/static-vm --timeout=2s ||
    vm_fail "the pods are not ready"
  before=$(keeper_state)
  node=$(cluster_kubectl get node vm -o 'jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}')

  vm "apt-get install -y -qq /payload/1/hostlet_*.deb /payload/1/hostlet-kubelet_*.deb" >/dev/null
  same "the kubelet of the package" /usr/bin/hostlet "$(kubelet_program)"
  keeper_is_kept hostlet "$before" open-sesame
  same "since when the node is ready" "$node" \
    "$(cluster_kubectl get node vm -o 'jsonpath={.status.conditions[?(@.type=="Ready")].lastTransitionTime}')"
  vm "! systemctl is-active hostlet.service" >/dev/null
  keeper_sees_secret changed-under-hostlet
  # A later start needs no permission any more.
  vm "systemctl restart kubelet.service"
  keeper_is_kept "hostlet after a restart" "$before" changed-under-hostlet

  vm "apt-get install -y -qq /payload/stock/kubelet.deb && systemctl enable -q kubelet.service && systemctl restart kubelet.service" >/dev/null
  same "the stock kubelet's program" /usr/bin/kubelet "$(kubelet_program)"
  keeper_is_kept "the stock kubelet again" "$before" changed-under-hostlet
  keeper_sees_secret changed-under-stock
  vm "rm /etc/kubernetes/manifests/static.yaml"
  cluster_kubectl delete pod keeper --timeout=60s >/dev/null
  vm_until 120 "nothing of the pods is left" "[ -z \"\$(ctr -n k8s.io tasks ls -q)\" ] && [ -z \"\$(ls /var/lib/kubelet/pods)\" ] &&
    ! grep kubelet/pods /proc/self/mountinfo"
}

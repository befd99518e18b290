# shellcheck shell=bash disable=SC2153,SC2154  # the names that quickstart.sh sets
# The quickstart's cluster: a control plane and a node in one network namespace, which the host reaches over a cable and
# which reaches nothing else. Uses the names that quickstart.sh sets. Sourced after the other pieces.

has_cluster() { [ -d "$CONTROL_PLANE_DIR" ]; }

# Runs a command in the cluster's network. Not with `ip netns exec`, which creates a mount namespace: no other process
# would see the pods' network namespaces that are mounted in it.
in_cluster() { nsenter --net="/run/netns/$NAME" "$@"; }

cluster_kubectl() { "$(kubernetes_program kubectl)" --kubeconfig "$CLUSTER_KUBECONFIG" "$@"; }

make_cluster_network() {
  [ ! -e "/run/netns/$NAME" ] || return 0
  ip netns add "$NAME"
  ip link add "$CLUSTER_CABLE" type veth peer name host0 netns "$NAME"
  ip addr add "$HOST_ADDRESS/29" dev "$CLUSTER_CABLE"
  ip link set "$CLUSTER_CABLE" up
  ip -n "$NAME" link set lo up
  ip -n "$NAME" addr add "$CLUSTER_ADDRESS/29" dev host0
  ip -n "$NAME" link set host0 up
  ip -n "$NAME" route add default via "$CLUSTER_NOBODY"
  ip route add "$SUBNET" via "$CLUSTER_ADDRESS"
  in_cluster sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
}

# Prints the argument that distinguishes a program of the cluster from others of the same name.
cluster_mark() { control_plane_args "$1" "$CONTROL_PLANE_DIR" "$CLUSTER_ADDRESS" | grep -m 1 -F "$CONTROL_PLANE_DIR"; }

# usage: start_cluster_program NAME [ARG...]
start_cluster_program() {
  local name=$1 args
  shift
  service_running "$name" "$(cluster_mark "$name")" && return
  mapfile -t args < <(control_plane_args "$name" "$CONTROL_PLANE_DIR" "$CLUSTER_ADDRESS")
  service_start "$NAME-$name" "$LOG/$name.log" nsenter --net="/run/netns/$NAME" "$(kubernetes_program "$name")" \
    "${args[@]}" "$@"
}

start_control_plane() {
  if ! [ -e "$CLUSTER_KUBECONFIG" ]; then
    prepare_control_plane "$CONTROL_PLANE_DIR" "$CLUSTER_ADDRESS"
    make_node_certificates "$CONTROL_PLANE_DIR/pki" "$CLUSTER_NODE" "$CLUSTER_ADDRESS"
    kubeconfig "$CONTROL_PLANE_DIR/pki" "$CLUSTER_NODE" "https://$CLUSTER_ADDRESS:6443" >"$CONTROL_PLANE_DIR/node.conf"
  fi
  start_cluster_program etcd
  start_cluster_program kube-apiserver
  wait_until 90 "the API server is ready (its log: $LOG/kube-apiserver.log)" cluster_kubectl get --raw /readyz || exit 1
  start_cluster_program kube-controller-manager
  start_cluster_program kube-scheduler
  start_cluster_program kube-proxy --hostname-override="$CLUSTER_NODE"
  note "control plane: Kubernetes $KUBERNETES_VERSION at https://$CLUSTER_ADDRESS:6443, logs in $LOG"
}

stop_control_plane() {
  local name
  has_cluster || return 0
  for name in kube-proxy kube-scheduler kube-controller-manager kube-apiserver etcd; do
    service_stop "$NAME-$name" "$name" "$(cluster_mark "$name")" 10
  done
}

# The fields of KubeletConfiguration by which a node admits only its API server.
cluster_config() {
  local pki=$CONTROL_PLANE_DIR/pki
  cat <<YAML
tlsCertFile: $pki/$CLUSTER_NODE-serving.crt
tlsPrivateKeyFile: $pki/$CLUSTER_NODE-serving.key
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: $pki/ca.crt}
authorization: {mode: Webhook}
YAML
}

cluster_ready() { cluster_kubectl wait --for=condition=Ready "node/$CLUSTER_NODE" --timeout=2s; }

web_available() {
  cluster_kubectl rollout status deployment/web --timeout=2s || {
    cluster_kubectl get pods -o wide
    return 1
  }
}

show_deployment() {
  wait_until 90 "$CLUSTER_NODE is ready (its log: $LOG/$AGENT.log)" cluster_ready || {
    tail -n 20 "$LOG/$AGENT.log" >&2
    exit 1
  }
  # A controller that may still be starting creates the namespace's service account.
  wait_until 60 "a service account for pods" cluster_kubectl get serviceaccount default || exit 1
  cluster_kubectl apply -f "$TOP/integration/samples/web-deployment.yaml" >/dev/null
  wait_until 90 "the deployment web is available" web_available || exit 1
  say "kubectl get nodes,deployments,pods -o wide"
  cluster_kubectl get nodes,deployments,pods -o wide
  local address
  address=$(cluster_kubectl get service web -o jsonpath='{.spec.clusterIP}')
  say "its page, over its service, from the node:  curl http://$address/"
  wait_until 30 "the service responds" in_cluster curl -sSf --noproxy '*' --max-time 5 "http://$address/" || exit 1
  in_cluster curl -sSf --noproxy '*' --max-time 5 "http://$address/"
}

show_next_in_cluster() {
  say "next commands"
  note "export KUBECONFIG=$CLUSTER_KUBECONFIG PATH=$(dirname "$(kubernetes_program kubectl)"):\$PATH     (as root)"
  note "kubectl get pods -o wide; kubectl scale deployment web --replicas=5; kubectl delete deployment web"
  note "sudo tail -f $LOG/$AGENT.log"
  note "sudo $here/quickstart.sh --down"
}

remove_cluster_network() {
  ! [ -e "/sys/class/net/$CLUSTER_CABLE" ] || ip link delete "$CLUSTER_CABLE"
  remove_netns "$NAME"
}

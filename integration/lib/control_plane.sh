# shellcheck shell=bash
# Starts the programs of a test control plane: everything in one directory, in one network namespace, with mutual TLS,
# the Node authorizer, RBAC and NodeRestriction. Sourced after common.sh, kubernetes.sh and pki.sh.

# shellcheck disable=SC2034  # read by those who source this
CONTROL_PLANE=(etcd kube-apiserver kube-controller-manager kube-scheduler)
SERVICE_SUBNET=10.96.0.0/16
# The API server's service address.
# shellcheck disable=SC2034  # read by pki.sh
KUBERNETES_SERVICE=10.96.0.1
POD_SUBNETS=10.88.0.0/16

# Creates the files of the control plane: certificates, kubeconfigs, and an audit policy that records only requests of
# nodes.
# usage: prepare_control_plane DIRECTORY ADDRESS
prepare_control_plane() {
  local dir=$1 address=$2 client
  make_pki "$dir/pki" "$address"
  for client in admin kube-controller-manager kube-scheduler kube-proxy; do
    kubeconfig "$dir/pki" "$client" "https://$address:6443" >"$dir/$client.conf"
  done
  cat >"$dir/audit-policy.yaml" <<'POLICY'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:nodes"]
- level: None
POLICY
}

# Prints the arguments of one of its programs, one per line.
# usage: control_plane_args PROGRAM DIRECTORY ADDRESS
control_plane_args() {
  local dir=$2 address=$3 pki=$2/pki
  case $1 in
    etcd)
      # Nothing here has to survive a power failure.
      printf '%s\n' --data-dir="$dir/etcd" --unsafe-no-fsync --log-level=warn \
        --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
        --listen-peer-urls=http://127.0.0.1:2380
      ;;
    kube-apiserver)
      printf '%s\n' --etcd-servers=http://127.0.0.1:2379 --advertise-address="$address" \
        --service-cluster-ip-range="$SERVICE_SUBNET" --allow-privileged \
        --audit-policy-file="$dir/audit-policy.yaml" --audit-log-path="$dir/audit.log" \
        --audit-log-maxsize=50 --audit-log-maxbackup=1 \
        --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
        --client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
        --enable-bootstrap-token-auth \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file="$pki/service-accounts.pub" \
        --service-account-signing-key-file="$pki/service-accounts.key" \
        --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" \
        --kubelet-client-key="$pki/apiserver-kubelet-client.key" --kubelet-certificate-authority="$pki/ca.crt" \
        --kubelet-preferred-address-types=InternalIP \
        --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=front-proxy-client \
        --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
        --requestheader-extra-headers-prefix=X-Remote-Extra- \
        --proxy-client-cert-file="$pki/front-proxy.crt" --proxy-client-key-file="$pki/front-proxy.key"
      ;;
    kube-controller-manager)
      # Leases are renewed every 5 s. A dead node is detected after 40 s, because a busy machine may stall for 20.
      # Certificates expire soon.
      printf '%s\n' --kubeconfig="$dir/$1.conf" --leader-elect=false --use-service-account-credentials \
        --root-ca-file="$pki/ca.crt" --service-account-private-key-file="$pki/service-accounts.key" \
        --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
        --node-monitor-period=2s --node-monitor-grace-period=40s \
        --cluster-signing-duration="${HOSTLET_TEST_CERTIFICATE_LIFETIME:-2m}"
      ;;
    kube-scheduler) printf '%s\n' --kubeconfig="$dir/$1.conf" --leader-elect=false ;;
    kube-proxy)
      # The kernel's limits of connections cannot be set from this namespace.
      printf '%s\n' --kubeconfig="$dir/$1.conf" --cluster-cidr="$POD_SUBNETS" --proxy-mode=iptables \
        --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0
      ;;
    *) die "unknown program of a control plane: $1" ;;
  esac
}

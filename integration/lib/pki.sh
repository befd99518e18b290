# shellcheck shell=bash
# The certificates and kubeconfigs of a test cluster: one CA that signs servers, clients and nodes. Sourced after
# common.sh.

# Creates a private key and a certificate signed by the directory's CA.
# usage: make_certificate DIRECTORY NAME SUBJECT EXTENSIONS      EXTENSIONS: lines as in openssl's -addext
make_certificate() {
  local dir=$1 name=$2 subject=$3 extension args=()
  while read -r extension; do
    args+=(-addext "$extension")
  done <<<"$4"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj "$subject" "${args[@]}" \
    -addext basicConstraints=critical,CA:FALSE -CA "$dir/ca.crt" -CAkey "$dir/ca.key" \
    -keyout "$dir/$name.key" -out "$dir/$name.crt" 2>/dev/null
}

# Creates the CA, the key of service accounts, and the certificates of the control plane, whose address is ADDRESS.
# usage: make_pki DIRECTORY ADDRESS
make_pki() {
  local dir=$1 names=DNS:localhost,IP:127.0.0.1,IP:$2,IP:$KUBERNETES_SERVICE name
  for name in kubernetes kubernetes.default kubernetes.default.svc kubernetes.default.svc.cluster.local; do
    names+=,DNS:$name
  done
  mkdir -p "$dir"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 3650 -subj /CN=hostlet-tests-ca \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
  # RSA, which every reader of service account tokens supports.
  openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$dir/service-accounts.key" 2>/dev/null
  openssl pkey -in "$dir/service-accounts.key" -pubout -out "$dir/service-accounts.pub"
  make_certificate "$dir" apiserver /CN=kube-apiserver "subjectAltName=$names
extendedKeyUsage=serverAuth"
  make_client "$dir" apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  make_client "$dir" front-proxy /CN=front-proxy-client
  make_client "$dir" admin /O=system:masters/CN=admin
  make_client "$dir" kube-scheduler /CN=system:kube-scheduler
  make_client "$dir" kube-controller-manager /CN=system:kube-controller-manager
  make_client "$dir" kube-proxy /CN=system:kube-proxy
}

# usage: make_client DIRECTORY NAME SUBJECT
make_client() { make_certificate "$1" "$2" "$3" extendedKeyUsage=clientAuth; }

# Creates a node's certificates: the one for its requests to the API server, and the one for its own server.
# usage: make_node_certificates DIRECTORY NODE ADDRESS
make_node_certificates() {
  make_client "$1" "$2" "/O=system:nodes/CN=system:node:$2"
  make_certificate "$1" "$2-serving" "/O=system:nodes/CN=system:node:$2" "subjectAltName=DNS:$2,IP:$3
extendedKeyUsage=serverAuth"
}

# Creates client certificates of hollow nodes, hollow-0 and so on, of one key: a key each would take a minute.
# usage: make_hollow_certificates DIRECTORY COUNT
make_hollow_certificates() {
  local dir=$1 count=$2 number
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$dir/hollow.key" 2>/dev/null
  for ((number = 0; number < count; number++)); do
    openssl req -x509 -key "$dir/hollow.key" -days 365 -subj "/O=system:nodes/CN=system:node:hollow-$number" \
      -addext extendedKeyUsage=clientAuth -addext basicConstraints=critical,CA:FALSE \
      -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -out "$dir/hollow-$number.crt"
  done
}

# Prints a self-contained kubeconfig for the client NAME of a directory made by make_pki.
# usage: kubeconfig DIRECTORY NAME SERVER
kubeconfig() {
  local dir=$1 name=$2 server=$3
  cat <<YAML
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: $server
    certificate-authority-data: $(base64 -w0 "$dir/ca.crt")
users:
- name: $name
  user:
    client-certificate-data: $(base64 -w0 "$dir/$name.crt")
    client-key-data: $(base64 -w0 "$dir/$name.key")
contexts:
- name: $name
  context: {cluster: cluster, user: $name}
current-context: $name
YAML
}

BOOTSTRAP_TOKEN=abcdef.0123456789abcdef

# Prints the objects that let a node join with the bootstrap token: the token, and the approval of its first certificate and
# of later ones (Kubernetes docs, "TLS bootstrapping").
# usage: bootstrap_objects
bootstrap_objects() {
  cat <<YAML
apiVersion: v1
kind: Secret
metadata: {name: bootstrap-token-${BOOTSTRAP_TOKEN%.*}, namespace: kube-system}
type: bootstrap.kubernetes.io/token
stringData:
  token-id: ${BOOTSTRAP_TOKEN%.*}
  token-secret: "${BOOTSTRAP_TOKEN#*.}"
  usage-bootstrap-authentication: "true"
  auth-extra-groups: system:bootstrappers:tests
YAML
  local binding role group
  while read -r binding role group; do
    cat <<YAML
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "$role"}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "$group"}]
YAML
  done <<'BINDINGS'
bootstrap system:node-bootstrapper system:bootstrappers:tests
approve-first system:certificates.k8s.io:certificatesigningrequests:nodeclient system:bootstrappers:tests
approve-later system:certificates.k8s.io:certificatesigningrequests:selfnodeclient system:nodes
BINDINGS
}

# Prints a kubeconfig with the bootstrap token.
# usage: bootstrap_kubeconfig DIRECTORY SERVER
bootstrap_kubeconfig() {
  cat <<YAML
apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster:
    server: $2
    certificate-authority-data: $(base64 -w0 "$1/ca.crt")
users:
- name: bootstrap
  user: {token: $BOOTSTRAP_TOKEN}
contexts:
- name: bootstrap
  context: {cluster: cluster, user: bootstrap}
current-context: bootstrap
YAML
}

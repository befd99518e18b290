# shellcheck shell=bash
# The programs of a Kubernetes control plane, and the stock kubelet for comparison: each built from its Go module, once
# per version, or taken from KUBEBUILDER_ASSETS. Sourced after common.sh and containerd2.sh.

KUBERNETES_VERSION=1.37.2
ETCD_VERSION=3.7.3
# The one that this Kubernetes requires in its go.mod: its tests run in parallel only under this program.
GINKGO_VERSION=2.32.0
METRICS_SERVER_VERSION=0.9.0
CSI_TEST_VERSION=5.6.0
CSI_ATTACHER_VERSION=4.13.0
CSI_PROVISIONER_VERSION=6.4.0
CSI_RESIZER_VERSION=2.3.0

# Their directory, which is kept between runs, next to the calling user's other caches.
kubernetes_dir() {
  printf '%s/hostlet-tests/kubernetes-%s\n' "${XDG_CACHE_HOME:-$(builder_home)/.cache}" "$KUBERNETES_VERSION"
}

etcd_dir() { printf '%s/hostlet-tests/etcd-%s\n' "${XDG_CACHE_HOME:-$(builder_home)/.cache}" "$ETCD_VERSION"; }

# Prints the path of one of the programs: the one of KUBEBUILDER_ASSETS, else the built one. Fails if there is neither.
# usage: kubernetes_program NAME
kubernetes_program() {
  local name=$1 file
  for file in "${KUBEBUILDER_ASSETS:-/nonexistent}/$name" "$(kubernetes_dir)/$name" "$(etcd_dir)/$name"; do
    if [ -x "$file" ]; then
      printf '%s\n' "$file"
      return
    fi
  done
  return 1
}

# Prints the package of a program in k8s.io/kubernetes.
kubernetes_package() {
  case $1 in
    e2e.test) echo test/e2e ;;
    e2e_node.test) echo test/e2e_node ;;
    agnhost) echo test/images/agnhost ;;
    nnp) echo test/images/nonewprivs ;;
    sampledeviceplugin) echo test/images/sample-device-plugin ;;
    *) echo "cmd/$1" ;;
  esac
}

# Builds the missing programs: etcd, the runner of Kubernetes' own tests, or commands of k8s.io/kubernetes. The first time takes about
# eight minutes of two cores for a control plane. Several processes may call this in parallel; one builds.
# usage: build_kubernetes NAME...
build_kubernetes() {
  local name go missing=()
  for name in "$@"; do
    kubernetes_program "$name" >/dev/null || missing+=("$name")
  done
  [ "${#missing[@]}" -gt 0 ] || return 0
  go=$(go_program) ||
    die "missing: ${missing[*]}; they are built with Go (https://go.dev/dl/), or taken from the directory KUBEBUILDER_ASSETS"
  note "building with Go (the first time takes some minutes): ${missing[*]}"
  for name in "${missing[@]}"; do
    case $name in
      etcd) build_go_program "$go" "$(etcd_dir)" etcd go.etcd.io/etcd/server/v3 "$ETCD_VERSION" "" ;;
      ginkgo) build_go_program "$go" "$(kubernetes_dir)" ginkgo github.com/onsi/ginkgo/v2 "$GINKGO_VERSION" ginkgo ;;
      *)
        build_go_program "$go" "$(kubernetes_dir)" "$name" k8s.io/kubernetes "$KUBERNETES_VERSION" "$(kubernetes_package "$name")"
        ;;
    esac
  done
}

# Builds one program of a Go module into a directory, as the builder. Uses a module that requires it, because `go
# install` rejects modules that replace others, as Kubernetes does with its staging modules, which are published with
# their own versions.
# A NAME that ends with .test is the program of the package's tests.
# With TAGS it is a program that is partly in C, built with these tags and static, so that it runs where the C library is older.
# usage: build_go_program GO DIRECTORY NAME MODULE VERSION PACKAGE [TAGS]
build_go_program() {
  as_builder bash -euo pipefail -s "$@" <<'BUILD'
go=$1 dir=$2 name=$3 module=$4 version=$5 package=$module${6:+/$6} tags=${7:-}
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
[ ! -x "$dir/$name" ] || exit 0
work=$(mktemp -d "$dir/.building.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
[ -z "$tags" ] || CGO_ENABLED=1
{
  "$go" mod init hostlet.dev/tests
  if [ "$module" = k8s.io/kubernetes ]; then
    mod=$("$go" mod download -json "$module@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
    sed -n "s,^\t*\(k8s.io/[^ ]*\) => ./staging/.*,replace \1 => \1 v0.${version#1.},p" "$mod" >>go.mod
  fi
  # With the modules of its tests, if these are the program.
  if [[ $name = *.test ]]; then "$go" get -t "$package@v$version"; else "$go" get "$module@v$version"; fi
} >log 2>&1 || { cat log >&2; exit 1; }
flags="-s -w"
[ -z "$tags" ] || flags+=" -extldflags -static"
if [ "$module" = k8s.io/kubernetes ]; then
  minor=${version#1.}
  for variables in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    flags+=" -X $variables.gitVersion=v$version -X $variables.gitMajor=1 -X $variables.gitMinor=${minor%%.*}"
    flags+=" -X $variables.gitTreeState=clean"
  done
fi
build=(build)
[[ $name != *.test ]] || build=(test -c -vet=off)
"$go" "${build[@]}" -trimpath -tags "$tags" -ldflags "$flags" -o built "$package" 2>log || { cat log >&2; exit 1; }
mv built "$dir/$name" # An incomplete program never has this name.
BUILD
}

# Builds a program of a Go module once per version, and prints its path.
# usage: program_of_module NAME MODULE VERSION WHAT
program_of_module() {
  local name=$1 module=$2 version=$3 what=$4 go dir
  dir=${XDG_CACHE_HOME:-$(builder_home)/.cache}/hostlet-tests/$name-$version
  if [ ! -x "$dir/$name" ]; then
    go=$(go_program) || die "$what is built with Go (https://go.dev/dl/)"
    note "building $what with Go" >&2
    build_go_program "$go" "$dir" "$name" "$module" "$version" "cmd/$name" >&2 || return
  fi
  printf '%s\n' "$dir/$name"
}

# Prints the path of the metrics server.
metrics_server() {
  program_of_module metrics-server sigs.k8s.io/metrics-server "$METRICS_SERVER_VERSION" "the metrics server"
}

# Prints the path of the sanity tests of CSI drivers.
csi_sanity() {
  program_of_module csi-sanity github.com/kubernetes-csi/csi-test/v5 "$CSI_TEST_VERSION" "the program of sanity tests of CSI drivers"
}

# Prints the path of a sidecar of CSI drivers, which calls the driver's controller service for objects of the API server.
# usage: csi_sidecar attacher|provisioner|resizer
csi_sidecar() {
  local version
  case $1 in
    attacher) version=$CSI_ATTACHER_VERSION ;;
    provisioner) version=$CSI_PROVISIONER_VERSION ;;
    resizer) version=$CSI_RESIZER_VERSION ;;
    *) die "unknown sidecar: $1" ;;
  esac
  program_of_module "csi-$1" "github.com/kubernetes-csi/external-$1/v${version%%.*}" "$version" "the external $1 of CSI drivers"
}

# Builds a program of the tests from its source below integration/, once per version of that, and prints its path.
# usage: program_of_tests SOURCE NAME WHAT
program_of_tests() {
  local source=$TOP/integration/$1 name=$2 what=$3 go version dir
  version=$(cat "$source"/*.go "$source"/go.{mod,sum} | sha256sum | cut -c 1-16)
  dir=${XDG_CACHE_HOME:-$(builder_home)/.cache}/hostlet-tests/$name-$version
  if [ ! -x "$dir/$name" ]; then
    go=$(go_program) || die "$what is built with Go (https://go.dev/dl/)"
    note "building $what with Go" >&2
    as_builder bash -euo pipefail -s "$go" "$source" "$dir" "$name" <<'BUILD'
go=$1 source=$2 dir=$3 name=$4
mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
[ ! -x "$dir/$name" ] || exit 0
cd "$source"
CGO_ENABLED=0 "$go" build -trimpath -mod=readonly -ldflags '-s -w' -o "$dir/built" . >&2
mv "$dir/built" "$dir/$name"
BUILD
  fi
  printf '%s\n' "$dir/$name"
}

# Prints the path of the DRA driver of the tests.
dra_driver() { program_of_tests dra_driver dra-driver "the DRA driver of the tests"; }

# Prints the path of what registers CSI drivers of the tests.
csi_registrar() { program_of_tests csi_registrar csi-registrar "the registrar of CSI drivers"; }
# Prints the path of the DRA driver of today.
dra_plugin() { program_of_tests dra_plugin dra-plugin "the DRA driver of today"; }

# Prints the path of the checker of Prometheus rules and dashboards, which also evaluates them on scrapes.
promql_check() { program_of_tests promql_check promql-check "the checker of Prometheus rules"; }

# Prints the path of upstream's managers of CPUs, memory and topology, as a program that answers what they choose.
managers_oracle() { program_of_tests managers_oracle managers-oracle "upstream's managers of CPUs, memory and topology"; }

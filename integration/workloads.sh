#!/usr/bin/env bash
# Prints which workloads of real projects hostlet admits, and which fields of the others it rejects; the last line has the
# sums. Without an argument: the workloads of Kubernetes' own sources (add-ons, and what its end-to-end tests deploy) and of
# integration/samples/. Fetches the module that the tests build a control plane from; is no part of the tests.
#
# usage: integration/workloads.sh [DIRECTORY]
#
# DIRECTORY has a directory or a file for each project, with its manifests, or what `helm template` and `kustomize build`
# print for it.
set -euo pipefail

here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/common.sh
. "$here/lib/common.sh"
# shellcheck source=integration/lib/containerd2.sh
. "$here/lib/containerd2.sh"
# shellcheck source=integration/lib/kubernetes.sh
. "$here/lib/kubernetes.sh"

# Directories of the Kubernetes sources. Each one in a directory that ends with a slash is a project.
PARTS=(
  cluster/addons/
  cluster/addons/dns/
  cluster/gce/addons/
  cluster/gce/manifests
  test/e2e/testing-manifests/
  test/e2e/testing-manifests/statefulset/
  test/e2e/testing-manifests/storage-csi/
  test/e2e/dra
)

# Links the projects of Kubernetes and the samples into a directory.
# usage: gather DIRECTORY
gather() {
  local go sources part project
  go=$(go_program) || die "the manifests of Kubernetes are in its Go module; install Go (https://go.dev/dl/)"
  sources=$(as_builder "$go" mod download -json "k8s.io/kubernetes@v$KUBERNETES_VERSION" | jq -r .Dir)
  for part in "${PARTS[@]}"; do
    case $part in
      */)
        for project in "$sources/$part"*/; do
          [[ " ${PARTS[*]} " != *" ${project#"$sources/"} "* ]] || continue
          ln -s "$project" "$1/$(basename "$project")"
        done
        ;;
      *) ln -s "$sources/$part" "$1/$(basename "$(dirname "$part")")-$(basename "$part")" ;;
    esac
  done
  for project in "$TOP"/integration/samples/workloads/*.yaml; do
    ln -s "$project" "$1/sample-$(basename "$project")"
  done
}

if [ $# -gt 1 ]; then die "usage: $0 [DIRECTORY]"; fi
projects=${1:-}
if [ -z "$projects" ]; then
  projects=$(mktemp -d)
  trap 'rm -rf "$projects"' EXIT
  gather "$projects"
fi
(cd "$TOP" && as_builder cargo build --locked --quiet --package hostlet-integration --bin admission)
target=$(cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1 | jq -r .target_directory)
"$target/debug/admission" "$projects"

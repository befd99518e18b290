# shellcheck shell=bash
# A real registry for benches: the one of the distribution project, built from its Go module, and images in it. Sourced after
# common.sh, images.sh and kubernetes.sh.

REGISTRY_VERSION=3.0.0

# Prints the path of the registry's program, and builds it first if it is missing.
registry_program() {
  local go dir
  dir=${XDG_CACHE_HOME:-$(builder_home)/.cache}/hostlet-tests/registry-$REGISTRY_VERSION
  if [ ! -x "$dir/registry" ]; then
    go=$(go_program) || die "the registry of the benches is built with Go (https://go.dev/dl/)"
    note "building a registry with Go" >&2
    build_go_program "$go" "$dir" registry github.com/distribution/distribution/v3 "$REGISTRY_VERSION" cmd/registry >&2
  fi
  printf '%s\n' "$dir/registry"
}

# usage: registry_config FILE STORAGE ADDRESS
registry_config() {
  jq -n --arg storage "$2" --arg address "$3" \
    '{version: 0.1, log: {level: "warn"}, storage: {filesystem: {rootdirectory: $storage}}, http: {addr: $address, secret: "bench"}}' \
    >"$1"
}

# Builds a busybox image with a file of random bytes, which no compression makes smaller, as an OCI layout.
# usage: make_large_image LAYOUT REFERENCE MEBIBYTES
make_large_image() {
  local layout=$1 reference=$2 size=$3 work
  work=$(mktemp -d)
  make_busybox "$work/busybox.tar" "$reference"
  mkdir "$work/oci" "$work/rootfs"
  tar -C "$work/oci" -xf "$work/busybox.tar"
  chmod 755 "$work/rootfs"
  tar -C "$work/rootfs" -xf "$(find "$work/oci/blobs/sha256" -size +64k)"
  head -c "${size}M" /dev/urandom >"$work/rootfs/bytes"
  make_image "$work/large.tar" "$reference" "$work/rootfs" '{"Env":["PATH=/bin"],"Cmd":["sh"]}'
  mkdir -p "$layout"
  tar -C "$layout" -xf "$work/large.tar"
  rm -rf "$work"
}

# Pushes the image of an OCI layout to a registry, without TLS.
# usage: push_image LAYOUT HOST:PORT NAME TAG
push_image() {
  local layout=$1 base=http://$2/v2/$3 tag=$4 manifest digest upload
  manifest=$layout/blobs/sha256/$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$layout/index.json")
  for digest in $(jq -r '.config.digest, .layers[].digest' "$manifest"); do
    upload=$(curl -fsS -o /dev/null -w '%header{location}' -X POST "$base/blobs/uploads/")
    [[ $upload = http* ]] || upload=http://$2$upload
    curl -fsS -o /dev/null -X PUT -H 'Content-Type: application/octet-stream' \
      --data-binary "@$layout/blobs/sha256/${digest#sha256:}" "$upload&digest=$digest"
  done
  curl -fsS -o /dev/null -X PUT -H "Content-Type: $(jq -r .mediaType "$manifest")" --data-binary "@$manifest" "$base/manifests/$tag"
}

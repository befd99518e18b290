# shellcheck shell=bash
# Builds two small OCI images on this host, so that nothing needs a registry: hostlet.local/pause:1, the sandbox's
# process, and hostlet.local/busybox:1. Sourced after common.sh.

PAUSE_IMAGE=hostlet.local/pause:1
BUSYBOX_IMAGE=hostlet.local/busybox:1

# The architecture as OCI images name it.
oci_architecture() {
  case $(uname -m) in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    ppc64le) echo ppc64le ;;
    riscv64) echo riscv64 ;;
    s390x) echo s390x ;;
    *) die "no image name for the architecture $(uname -m)" ;;
  esac
}

# tar whose output depends only on names, modes and contents.
plain_tar() { tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --format=gnu "$@"; }

# Moves a file into an OCI layout's blobs and prints its digest.
add_blob() {
  local layout=$1 file=$2 digest
  digest=$(sha256sum "$file" | cut -d' ' -f1)
  mv "$file" "$layout/blobs/sha256/$digest"
  printf '%s\n' "$digest"
}

blob_size() { stat -c %s "$1/blobs/sha256/$2"; }

# Builds an OCI archive of one image with one layer.
# usage: make_image ARCHIVE REFERENCE ROOTFS CONFIG [ARCHITECTURE]      CONFIG: the JSON of the image's "config" field
make_image() {
  local archive=$1 reference=$2 rootfs=$3 config=$4 architecture=${5:-} work layer image manifest
  [ -n "$architecture" ] || architecture=$(oci_architecture)
  work=$(mktemp -d)
  mkdir -p "$work/oci/blobs/sha256"
  plain_tar -C "$rootfs" -cf "$work/layer" .
  layer=$(add_blob "$work/oci" "$work/layer")
  printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$architecture" "$config" "$layer" >"$work/config"
  image=$(add_blob "$work/oci" "$work/config")
  printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"%s","digest":"sha256:%s","size":%s}]}' \
    application/vnd.oci.image.manifest.v1+json \
    application/vnd.oci.image.config.v1+json "$image" "$(blob_size "$work/oci" "$image")" \
    application/vnd.oci.image.layer.v1.tar "$layer" "$(blob_size "$work/oci" "$layer")" >"$work/manifest"
  manifest=$(add_blob "$work/oci" "$work/manifest")
  # The full reference as the name: archives imported under one name would overwrite each other's record.
  printf '{"schemaVersion":2,"mediaType":"%s","manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
    application/vnd.oci.image.index.v1+json application/vnd.oci.image.manifest.v1+json \
    "$manifest" "$(blob_size "$work/oci" "$manifest")" "$reference" "$reference" >"$work/oci/index.json"
  printf '{"imageLayoutVersion":"1.0.0"}' >"$work/oci/oci-layout"
  plain_tar -C "$work/oci" --mode=u=rwX,go=rX -cf "$work/archive" .
  printf 'sha256:%s\n' "$manifest" >"$archive.digest"
  mv "$work/archive" "$archive"
  rm -rf "$work"
}

# Makes the archive of the pause image, which the packages ship as well.
# usage: make_pause ARCHIVE [ARCHITECTURE COMPILER]
make_pause() {
  local archive=$1 architecture=${2:-} compiler=${3:-cc} rootfs
  rootfs=$(mktemp -d)
  chmod 755 "$rootfs"
  "$compiler" -Os -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -nostdlib -static -no-pie -s \
    -Wl,--build-id=none -Wl,-z,noseparate-code -Wl,-z,noexecstack -o "$rootfs/pause" "$TOP/packaging/pause.c"
  chmod 755 "$rootfs/pause"
  make_image "$archive" "$PAUSE_IMAGE" "$rootfs" '{"User":"65535:65535","Entrypoint":["/pause"]}' "$architecture"
  rm -rf "$rootfs"
}

# Fills the root file system of an image with busybox.
busybox_rootfs() {
  local rootfs=$1 applet
  chmod 755 "$rootfs"
  mkdir -p "$rootfs"/{bin,dev,etc,home,proc,root,run,sys,tmp,usr/bin,var/tmp}
  chmod 1777 "$rootfs/tmp" "$rootfs/var/tmp"
  install -m 755 "$(command -v busybox)" "$rootfs/bin/busybox"
  for applet in $(busybox --list); do
    [ "$applet" = busybox ] || ln -s busybox "$rootfs/bin/$applet"
  done
  ln -s /bin/env "$rootfs/usr/bin/env"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$rootfs/etc/passwd"
  printf 'root:x:0:\nnobody:x:65534:\n' >"$rootfs/etc/group"
}

# usage: make_busybox ARCHIVE [REFERENCE]      Under another name, it is another image with other layers.
make_busybox() {
  local archive=$1 reference=${2:-$BUSYBOX_IMAGE} rootfs
  rootfs=$(mktemp -d)
  busybox_rootfs "$rootfs"
  printf '%s\n' "$reference" >"$rootfs/etc/image"
  make_image "$archive" "$reference" "$rootfs" \
    '{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Cmd":["sh"]}'
  rm -rf "$rootfs"
}

# Converts an OCI archive with one image to the compressed output of `docker save`.
# usage: docker_archive OCI_ARCHIVE ARCHIVE REFERENCE
docker_archive() {
  local source=$1 archive=$2 reference=$3 work manifest
  work=$(mktemp -d)
  tar -C "$work" -xf "$source"
  manifest=$work/blobs/sha256/$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$work/index.json")
  jq -c --arg reference "$reference" '[{
    Config: ("blobs/sha256/" + (.config.digest | ltrimstr("sha256:"))),
    RepoTags: [$reference],
    Layers: [.layers[] | "blobs/sha256/" + (.digest | ltrimstr("sha256:"))]
  }]' "$manifest" >"$work/manifest.json"
  rm "$work/index.json" "$work/oci-layout" "$manifest"
  plain_tar -C "$work" -czf "$archive" .
  rm -rf "$work"
}

# Compresses the layer of an OCI archive with one image with zstd, and updates its manifest.
# usage: zstd_layer OCI_ARCHIVE ARCHIVE
zstd_layer() {
  local source=$1 archive=$2 work old layer manifest
  work=$(mktemp -d)
  tar -C "$work" -xf "$source"
  old=$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$work/index.json")
  layer=$(jq -r '.layers[0].digest | ltrimstr("sha256:")' "$work/blobs/sha256/$old")
  zstd --quiet --rm -o "$work/layer" "$work/blobs/sha256/$layer"
  layer=$(add_blob "$work" "$work/layer")
  jq -c --arg digest "sha256:$layer" --argjson size "$(blob_size "$work" "$layer")" \
    '.layers[0] = {mediaType: "application/vnd.oci.image.layer.v1.tar+zstd", digest: $digest, size: $size}' \
    "$work/blobs/sha256/$old" >"$work/manifest"
  manifest=$(add_blob "$work" "$work/manifest")
  jq -c --arg digest "sha256:$manifest" --argjson size "$(blob_size "$work" "$manifest")" \
    '.manifests[0].digest = $digest | .manifests[0].size = $size' "$work/index.json" >"$work/index"
  mv "$work/index" "$work/index.json"
  rm "$work/blobs/sha256/$old"
  plain_tar -C "$work" -cf "$archive" .
  rm -rf "$work"
}

# Builds the archives in a directory. An archive that is newer than its sources is kept.
# usage: build_images DIRECTORY
build_images() (
  local dir=$1 recipe=$TOP/integration/lib/images.sh
  mkdir -p "$dir"
  exec 9>"$dir/.lock"
  flock 9 # several test processes may build at once
  umask 022
  if ! [ "$dir/pause.tar" -nt "$recipe" ] || ! [ "$dir/pause.tar" -nt "$TOP/packaging/pause.c" ]; then
    make_pause "$dir/pause.tar"
  fi
  if ! [ "$dir/busybox.tar" -nt "$recipe" ] || ! [ "$dir/busybox.tar" -nt "$(command -v busybox)" ]; then
    make_busybox "$dir/busybox.tar"
  fi
)

# Whether containerd has an image with this digest, and its CRI plugin knows it.
image_known() {
  local socket=$1 reference=$2 digest=$3
  ctr -a "$socket" -n k8s.io images ls "name==$reference" |
    awk -v d="$digest" '$3 == d && /io.cri-containerd.image=managed/ {found = 1} {print} END {exit !found}'
}

# Imports the archives that a containerd does not have yet.
# usage: import_images SOCKET DIRECTORY
import_images() {
  local socket=$1 dir=$2 name reference digest
  for name in pause busybox; do
    reference=hostlet.local/$name:1
    digest=$(cat "$dir/$name.tar.digest")
    image_known "$socket" "$reference" "$digest" >/dev/null && continue
    ctr -a "$socket" -n k8s.io images import "$dir/$name.tar" >/dev/null
    wait_until 20 "containerd's CRI plugin knows $reference" image_known "$socket" "$reference" "$digest"
  done
}

# shellcheck shell=bash
# Local stand-ins for the images that Kubernetes' own tests of nodes run: busybox, the test program agnhost and others from the same
# Go module. Sourced after common.sh, images.sh and kubernetes.sh.

E2E_REGISTRY=registry.k8s.io
# What building them requires, besides the programs of the tests.
# shellcheck disable=SC2034  # read by conformance.sh, kubelet_tests.sh and vm/e2e_node.sh
E2E_IMAGE_PROGRAMS=(agnhost nnp sampledeviceplugin)

# Makes the images, each as an OCI layout in DIRECTORY/NAME/TAG. Their tags are those that the tests name.
# Prints the name and the tag of each.
# usage: make_e2e_images DIRECTORY
make_e2e_images() {
  local dir=$1 busybox agnhost kitten plugin source
  source=$(kubernetes_source)
  E2E_IMAGES=$(e2e_image_list "$source")
  E2E_LAYOUTS=$dir
  busybox=$(mktemp -d) agnhost=$(mktemp -d) kitten=$(mktemp -d) plugin=$(mktemp -d)
  make_pause "$dir/pause.tar"
  e2e_layouts pause "$dir/pause.tar"
  e2e_busybox_rootfs "$busybox"
  e2e_image e2e-test-images/busybox "$busybox" '{"Cmd":["sh"]}'
  e2e_image e2e-test-images/glibc-dns-testing "$busybox" '{"Cmd":["sh"]}'
  e2e_image e2e-test-images/ipc-utils "$busybox" '{"Cmd":["sh"]}'
  e2e_image e2e-test-images/nonroot "$busybox" '{"User":"1234","Cmd":["sh"]}'
  agnhost_rootfs "$agnhost" "$source"
  e2e_image e2e-test-images/agnhost "$agnhost" '{"Entrypoint":["/agnhost"],"Cmd":["pause"]}'
  # A server of pages that stays up and has its name and the file with its pid, which is all that they need of it.
  ln -s agnhost "$agnhost/nginx"
  mkdir "$agnhost/var/run"
  # shellcheck disable=SC2016  # for the shell in the image
  e2e_image e2e-test-images/nginx "$agnhost" \
    '{"Entrypoint":["sh","-c","echo $$ >/var/run/nginx.pid && exec /nginx test-webserver"]}'
  # Only its files are looked at: two of its own, and one of the distribution that it is made from.
  mkdir "$kitten/etc"
  cp "$source"/test/images/kitten/html/{kitten.jpg,data.json} "$kitten"
  echo 'NAME="Alpine Linux"' >"$kitten/etc/os-release"
  chmod -R u=rwX,go=rX "$kitten"
  e2e_image e2e-test-images/kitten "$kitten" '{}'
  install -D -m 6755 "$(kubernetes_program nnp)" "$busybox/usr/local/bin/nnp"
  e2e_image e2e-test-images/nonewprivs "$busybox" '{"Cmd":["nnp"]}'
  install -m 755 "$(kubernetes_program sampledeviceplugin)" "$plugin"
  # Its devices are files there.
  mkdir "$plugin/tmp"
  e2e_image e2e-test-images/sample-device-plugin "$plugin" '{"Entrypoint":["/sampledeviceplugin","-alsologtostderr"]}'
  rm -rf "$busybox" "$agnhost" "$kitten" "$plugin"
}

# Prints the images that the tests name, one a line: those of a table in the source that all of their programs share, and those of
# manifests that tests of a kubelet create as they are.
# usage: e2e_image_list SOURCE
e2e_image_list() {
  {
    sed -nE "s|.*= Config\{list\.([A-Za-z0-9]+), \"([^\"]+)\", \"([^\"]+)\"\}.*|\1 \2:\3|p" "$1/test/utils/image/manifest.go" |
      sed -n "s|^PromoterE2eRegistry |$E2E_REGISTRY/e2e-test-images/|p; s|^GcRegistry |$E2E_REGISTRY/|p"
    sed -nE "s|.* image: ($E2E_REGISTRY/.*)|\1|p" "$1"/test/e2e/testing-manifests/sample-device-plugin/*.yaml
  } | sort -u
}

# Fills a root file system with busybox and two of its commands that some of its builds lack, as far as tests use them.
e2e_busybox_rootfs() {
  local rootfs=$1
  busybox_rootfs "$rootfs"
  [ -e "$rootfs/bin/nmeter" ] || cat >"$rootfs/bin/nmeter" <<'SH'
#!/bin/sh
# The time of day with its fraction, once, for nmeter -d0 %3t.
set -- $(echo | TZ=UTC ts '%H:%M:%.S')
echo "$1"
SH
  [ -e "$rootfs/bin/ipcs" ] || cat >"$rootfs/bin/ipcs" <<'SH'
#!/bin/sh
# The segments of shared memory, by key and ID, for ipcs -m.
awk '{print $1, $2}' /proc/sysvipc/shm
SH
  chmod 755 "$rootfs"/bin/{nmeter,ipcs}
}

# Fills a root file system with agnhost and what tests call beside it.
# usage: agnhost_rootfs ROOTFS SOURCE
agnhost_rootfs() {
  local rootfs=$1 source=$2
  e2e_busybox_rootfs "$rootfs"
  install -m 755 "$(kubernetes_program agnhost)" "$rootfs/agnhost"
  ln -s agnhost "$rootfs/agnhost-2"
  mkdir "$rootfs/uploads"
  install -m 644 "$source"/test/images/agnhost/porter/localhost.{crt,key} "$rootfs"
  printf 'user-defined-in-image:x:1000:1000::/:/bin/sh\n' >>"$rootfs/etc/passwd"
  printf 'user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n' >>"$rootfs/etc/group"
  printf '#!/bin/sh\nexec sh "$@"\n' >"$rootfs/bin/bash"
  cat >"$rootfs/bin/curl" <<'SH'
#!/bin/sh
# The curl of this image, as far as tests use it.
limit=15 url=
while [ $# -gt 0 ]; do
  case $1 in
    --connect-timeout | --max-time | -m) limit=$2 && shift ;;
    -*) ;;
    *) url=$1 ;;
  esac
  shift
done
# Not with -T, at which some builds of busybox crash.
exec timeout "$limit" wget -q -O - --no-check-certificate "$url"
SH
  chmod 755 "$rootfs"/bin/{bash,curl}
}

# usage: e2e_image NAME ROOTFS CONFIG      CONFIG without its environment
e2e_image() {
  local name=$1 archive=$E2E_LAYOUTS/archive
  make_image "$archive" "$E2E_REGISTRY/$name" "$2" \
    "$(jq -c '. + {Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}' <<<"$3")"
  e2e_layouts "$name" "$archive"
}

# Unpacks an image for each tag that tests use of its name. They differ: a runtime may report an image by any of its names, and tests
# compare them.
# usage: e2e_layouts NAME ARCHIVE
e2e_layouts() {
  local name=$1 archive=$2 tag layout tags
  tags=$(sed -n "s,^$E2E_REGISTRY/$name:,,p" <<<"$E2E_IMAGES")
  [ -n "$tags" ] || die "the tests use no image $E2E_REGISTRY/$name any more"
  for tag in $tags; do
    layout=$E2E_LAYOUTS/$name/$tag
    mkdir -p "$layout"
    tar -C "$layout" -xf "$archive"
    label_layout "$layout" "$name:$tag"
    printf '%s %s\n' "$name" "$tag"
  done
  rm "$archive" "$archive.digest"
}

# Makes an archive of an OCI layout, as `ctr images import` reads it.
# usage: layout_archive LAYOUT REFERENCE ARCHIVE
layout_archive() {
  local layout=$1 reference=$2 archive=$3
  jq -c --arg reference "$reference" '.manifests[0].annotations["io.containerd.image.name"] = $reference' "$layout/index.json" \
    >"$layout/index"
  mv "$layout/index" "$layout/index.json"
  plain_tar -C "$layout" -cf "$archive" .
}

# Gives the image of an OCI layout a label with its name, which makes it another image than one with the same layers.
# usage: label_layout LAYOUT NAME
label_layout() {
  local layout=$1 manifest config
  manifest=$layout/blobs/sha256/$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$layout/index.json")
  config=$layout/blobs/sha256/$(jq -r '.config.digest | ltrimstr("sha256:")' "$manifest")
  jq -c --arg name "$2" '.config.Labels["dev.hostlet.name"] = $name' "$config" >"$layout/config"
  rm "$config"
  config=$(add_blob "$layout" "$layout/config")
  jq -c --arg digest "sha256:$config" --argjson size "$(blob_size "$layout" "$config")" \
    '.config.digest = $digest | .config.size = $size' "$manifest" >"$layout/manifest"
  rm "$manifest"
  manifest=$(add_blob "$layout" "$layout/manifest")
  jq -c --arg digest "sha256:$manifest" --argjson size "$(blob_size "$layout" "$manifest")" \
    '.manifests[0].digest = $digest | .manifests[0].size = $size' "$layout/index.json" >"$layout/index"
  mv "$layout/index" "$layout/index.json"
}

# The directory of Kubernetes' source in Go's module cache.
kubernetes_source() {
  local go
  go=$(go_program) || die "the images of the tests are made from Go modules (https://go.dev/dl/)"
  as_builder "$go" mod download -json "k8s.io/kubernetes@v$KUBERNETES_VERSION" | jq -r .Dir
}

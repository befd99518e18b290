# shellcheck shell=bash
# Local stand-ins for the images that Kubernetes' own tests of nodes run: busybox, the test program agnhost and others from the same
# Go module. Sourced after common.sh, images.sh and kubernetes.sh.

E2E_REGISTRY=registry.k8s.io
# What building them requires, besides the programs of the tests.
# shellcheck disable=SC2034  # read by conformance.sh
E2E_IMAGE_PROGRAMS=(agnhost nnp)

# Makes the images, each as an OCI layout in DIRECTORY/NAME/TAG. Their tags are those of the test program E2E.
# Prints the name and the tag of each.
# usage: make_e2e_images DIRECTORY E2E
make_e2e_images() {
  local dir=$1 e2e=$2 busybox agnhost kitten source
  source=$(kubernetes_source)
  E2E_IMAGES=$("$e2e" --list-images)
  E2E_LAYOUTS=$dir
  busybox=$(mktemp -d) agnhost=$(mktemp -d) kitten=$(mktemp -d)
  make_pause "$dir/pause.tar"
  e2e_layouts pause "$dir/pause.tar"
  busybox_rootfs "$busybox"
  e2e_image e2e-test-images/busybox "$busybox" '{"Cmd":["sh"]}'
  e2e_image e2e-test-images/glibc-dns-testing "$busybox" '{"Cmd":["sh"]}'
  e2e_image e2e-test-images/nonroot "$busybox" '{"User":"1234","Cmd":["sh"]}'
  agnhost_rootfs "$agnhost" "$source"
  e2e_image e2e-test-images/agnhost "$agnhost" '{"Entrypoint":["/agnhost"],"Cmd":["pause"]}'
  # A server of pages that stays up, which is all that they need of it.
  e2e_image e2e-test-images/nginx "$agnhost" '{"Entrypoint":["/agnhost"],"Cmd":["test-webserver"]}'
  # Only its files are looked at: two of its own, and one of the distribution that it is made from.
  mkdir "$kitten/etc"
  cp "$source"/test/images/kitten/html/{kitten.jpg,data.json} "$kitten"
  echo 'NAME="Alpine Linux"' >"$kitten/etc/os-release"
  chmod -R u=rwX,go=rX "$kitten"
  e2e_image e2e-test-images/kitten "$kitten" '{}'
  install -D -m 6755 "$(kubernetes_program nnp)" "$busybox/usr/local/bin/nnp"
  e2e_image e2e-test-images/nonewprivs "$busybox" '{"Cmd":["nnp"]}'
  rm -rf "$busybox" "$agnhost" "$kitten"
}

# Fills a root file system with agnhost and what tests call beside it.
# usage: agnhost_rootfs ROOTFS SOURCE
agnhost_rootfs() {
  local rootfs=$1 source=$2
  busybox_rootfs "$rootfs"
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

# Unpacks an image for each tag that tests use of its name.
# usage: e2e_layouts NAME ARCHIVE
e2e_layouts() {
  local name=$1 archive=$2 tag layout tags
  tags=$(sed -n "s,^$E2E_REGISTRY/$name:,,p" <<<"$E2E_IMAGES")
  [ -n "$tags" ] || die "the tests use no image $E2E_REGISTRY/$name any more"
  for tag in $tags; do
    layout=$E2E_LAYOUTS/$name/$tag
    mkdir -p "$layout"
    tar -C "$layout" -xf "$archive"
    printf '%s %s\n' "$name" "$tag"
  done
  rm "$archive" "$archive.digest"
}

# The directory of Kubernetes' source in Go's module cache.
kubernetes_source() {
  local go
  go=$(go_program) || die "the images of the tests are made from Go modules (https://go.dev/dl/)"
  as_builder "$go" mod download -json "k8s.io/kubernetes@v$KUBERNETES_VERSION" | jq -r .Dir
}

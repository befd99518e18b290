# shellcheck shell=bash
# Root file systems of Debian to install packages in, and assertions. Sourced after packages.sh.

SUITES=(bookworm trixie)
# What hostlet depends on, beside the essential packages.
ROOT_PACKAGES=systemd,procps

target_dir() { (cd "$TOP" && as_builder cargo metadata --no-deps --format-version 1) | jq -r .target_directory; }

install_test_tools() {
  local missing=()
  command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
  command -v lintian >/dev/null || missing+=(lintian)
  command -v rpm >/dev/null || missing+=(rpm)
  command -v rpmlint >/dev/null || missing+=(rpmlint)
  command -v faketime >/dev/null || missing+=(faketime)
  command -v strip >/dev/null || missing+=(binutils)
  command -v jq >/dev/null || missing+=(jq)
  command -v man >/dev/null || missing+=(man-db)
  command -v aarch64-linux-gnu-gcc >/dev/null || missing+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
  command -v qemu-aarch64-static >/dev/null || missing+=(qemu-user-static)
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing+=(debian-archive-keyring)
  [ "${#missing[@]}" -eq 0 ] || {
    note "packages: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  }
}

root_archive() { printf '%s/.cache/hostlet-tests/roots/%s-%s.tar\n' "$(builder_home)" "$1" "$ROOT_PACKAGES"; }

# Makes the root file systems, once, and unpacks them.
make_roots() {
  local suite archive
  for suite in "${SUITES[@]}"; do
    archive=$(root_archive "$suite")
    if ! [ -e "$archive" ]; then
      note "root file system of $suite: mmdebstrap (once, a minute)"
      mkdir -p "$(dirname "$archive")"
      mmdebstrap --quiet --variant=minbase --include="$ROOT_PACKAGES" "$suite" "$archive.new.tar"
      mv "$archive.new.tar" "$archive"
    fi
    mkdir "$WORK/base.$suite"
    tar -C "$WORK/base.$suite" -xf "$archive" --exclude './dev/*'
  done
}

# Makes a root file system that nobody has touched, in which systemd seems to run; sets ROOT.
# usage: fresh_root SUITE
fresh_root() {
  ROOT=$(mktemp -d "$WORK/root.XXXXXX")
  mount -t tmpfs tmpfs "$ROOT"
  mkdir "$ROOT"/{upper,work,root}
  mount -t overlay -o "lowerdir=$WORK/base.$1,upperdir=$ROOT/upper,workdir=$ROOT/work" overlay "$ROOT/root"
  ROOT=$ROOT/root
  mount -t proc proc "$ROOT/proc"
  mount --bind /dev/null "$ROOT/dev/null" 2>/dev/null || { mknod -m 666 "$ROOT/dev/null" c 1 3; }
  mkdir -p "$ROOT/run/systemd/system"
  # Enabling is files, which the real one does; whatever runs is a line in /running.
  mkdir -p "$ROOT/usr/local/libexec"
  mv "$ROOT/usr/bin/systemctl" "$ROOT/usr/local/libexec/"
  cat >"$ROOT/usr/bin/systemctl" <<'SH'
#!/bin/sh
printf '%s\n' "$*" >>/systemctl.log
verb="" unit=""
for word in "$@"; do
  case $word in
    -*) ;;
    *) if [ -z "$verb" ]; then verb=$word; else unit=$word; fi ;;
  esac
done
places="/etc/systemd/system /run/systemd/system /usr/local/lib/systemd/system /usr/lib/systemd/system"
# The unit, of the first place that has it, and its drop-ins by name.
texts() {
  for place in $places; do
    [ ! -f "$place/$unit" ] || { cat "$place/$unit"; break; }
  done
  for place in $places; do printf '%s\n' "$place/$unit.d/"*.conf; done | awk -F/ '{print $NF, $0}' | sort | while read -r _ file; do
    [ ! -f "$file" ] || cat "$file"
  done
}
case $verb in
  is-active) grep -qx "$unit" /running 2>/dev/null ;;
  start | restart)
    texts | sed -n 's/^ExecStart=//p' | tail -n 1 >>/commands
    [ ! -e /no-start ] || exit 1
    grep -qx "$unit" /running 2>/dev/null || echo "$unit" >>/running
    ;;
  cat) texts ;;
  stop) [ ! -e /running ] || sed -i "/^$unit$/d" /running ;;
  daemon-reload | try-restart) ;;
  show) echo "loaded" ;;
  *) SYSTEMD_OFFLINE=1 exec /usr/local/libexec/systemctl "$@" ;;
esac
SH
  chmod 755 "$ROOT/usr/bin/systemctl"
  : >"$ROOT/systemctl.log"
}

# Unmounts what a test left.
drop_roots() {
  local root
  for root in "$WORK"/root.*; do
    [ -e "$root" ] || continue
    umount -R "$root"
    rmdir "$root"
  done
}

# Runs a command in the root file system, and in a network where nobody listens.
in_root() {
  unshare --net chroot "$ROOT" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"
}

# Runs a command while a program listens on the port of a kubelet's health checks.
# usage: beside_health_port COMMAND [ARG...]
beside_health_port() {
  perl -MIO::Socket::INET -e 'my $listener = IO::Socket::INET->new(LocalAddr => "0.0.0.0", LocalPort => 10248, Listen => 1)
    or die "cannot listen: $!"; exit(system(@ARGV) >> 8)' "$@"
}

# Copies packages into the root file system and installs them. usage: install_debs FILE...
install_debs() {
  local file names=()
  for file in "$@"; do
    cp "$file" "$ROOT/tmp/"
    names+=("/tmp/${file##*/}")
  done
  in_root dpkg -i "${names[@]}"
}

# usage: deb REVISION [PACKAGE]
deb() {
  case ${2:-hostlet} in
    hostlet) echo "$WORK/$1"/hostlet_*.deb ;;
    *) echo "$WORK/$1/$2"_*.deb ;;
  esac
}

fail() {
  printf 'failed: %s\n' "$*" >&2
  exit 1
}

# usage: equal ACTUAL EXPECTED WHAT
equal() { [ "$1" = "$2" ] || fail "$3: $(printf '\n%s' "--- expected" "$2" "--- actual" "$1")"; }

is_enabled() { in_root env SYSTEMD_OFFLINE=1 /usr/local/libexec/systemctl --quiet is-enabled "$1"; }
is_running() { grep -qx "$1" "$ROOT/running" 2>/dev/null; }
# The last command with which systemctl was told to start a unit.
last_command() { tail -n 1 "$ROOT/commands"; }
must() { "$@" || fail "expected: $*"; }
must_not() { ! "$@" || fail "not expected: $*"; }
# What systemctl was told to do to units since the log was emptied.
told() { sed -nE 's/^(--[a-z=-]+ )*((start|stop|restart|try-restart) .*)$/\2/p' "$ROOT/systemctl.log" | tr '\n' ';'; }
forget_told() { : >"$ROOT/systemctl.log"; }

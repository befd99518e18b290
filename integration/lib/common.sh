# shellcheck shell=bash
# Shared functions: messages, errors, waits and builds. Sourced; changes nothing by itself.

# The top of the source tree.
# shellcheck disable=SC2034  # read by those who source this
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need_root() {
  [ "$(id -u)" -eq 0 ] || die "this needs root (it installs packages and runs containers): sudo $0 $*"
}

# Waits until a command succeeds, which it runs repeatedly. Fails after SECONDS, and prints WHAT and the command's last
# output.
# usage: wait_until SECONDS WHAT COMMAND [ARG...]
wait_until() {
  local limit=$1 what=$2 last
  shift 2
  local end=$((SECONDS + limit))
  until last=$("$@" 2>&1); do
    if [ "$SECONDS" -ge "$end" ]; then
      printf 'error: not within %s s: %s\nlast seen:\n%s\n' "$limit" "$what" "${last:-(nothing)}" >&2
      return 1
    fi
    sleep 0.2
  done
}

# Whether systemd is this host's init, so that services belong in units.
has_systemd() { [ -d /run/systemd/system ]; }

# Whether the cgroup file system is the unified one (version 2).
has_cgroup_v2() { [ -e /sys/fs/cgroup/cgroup.controllers ]; }

# Whether this process has a capability, by its bit number (capabilities(7)).
has_capability() {
  local effective
  effective=$(awk '/^CapEff:/ {print $2}' /proc/self/status)
  [ $(((16#$effective >> $1) & 1)) -eq 1 ]
}

# Whether another user than root called this through sudo.
called_by_sudo() { [ "$(id -u)" -eq 0 ] && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; }

# The home directory of the calling user.
builder_home() {
  if called_by_sudo; then getent passwd "$SUDO_USER" | cut -d: -f6; else printf '%s\n' "$HOME"; fi
}

# Runs a command as the user who called sudo, so that this user owns the files of a build.
as_builder() {
  if called_by_sudo; then
    local home
    home=$(builder_home)
    runuser -u "$SUDO_USER" -- env HOME="$home" PATH="$home/.cargo/bin:$PATH" "$@"
  else
    env PATH="$HOME/.cargo/bin:$PATH" "$@"
  fi
}

# shellcheck shell=bash
# A cgroup of the top level, for a node of our own. Sourced after common.sh. Its removal is in cleanup.sh.

# Makes it in every hierarchy: the stock kubelet wants its cgroup root to be there.
make_cgroup() {
  local name=$1 dir
  if has_cgroup_v2; then
    mkdir -p "/sys/fs/cgroup/$name"
    return
  fi
  for dir in /sys/fs/cgroup/*/; do
    # /sys/fs/cgroup/cpu may be a link to another hierarchy's directory.
    [ -L "${dir%/}" ] || mkdir -p "$dir$name"
  done
}

# shellcheck shell=bash
# A top-level cgroup for a node of the tests. Sourced after common.sh. Its removal is in cleanup.sh.

# Creates it in every hierarchy: the stock kubelet requires its cgroup root to exist.
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

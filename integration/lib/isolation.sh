# shellcheck shell=bash
# A part of this host for programs that use fixed places: cgroups below a directory that is their root, an empty /run (so there is no
# systemd either), and directories of their own. Sourced after common.sh and cgroup.sh.

# Where kubelets and network plugins keep files, whatever their configuration.
ISOLATED_DIRS=(/var/lib/cni /var/lib/kubelet /var/log/containers /var/log/pods)

# Moves this shell into a top-level cgroup, which it creates, in every hierarchy.
# usage: enter_cgroup NAME
enter_cgroup() {
  local name=$1 dir file
  make_cgroup "$name"
  if has_cgroup_v2; then
    for file in $(cat /sys/fs/cgroup/cgroup.controllers); do
      # Some are not for everybody.
      echo "+$file" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    done
  fi
  for dir in $(cgroup_dirs "$name"); do
    # The cpuset of cgroup v1 is empty at first, and empty it takes no process.
    for file in cpuset.cpus cpuset.mems; do
      ! has_cgroup_v2 && [ -e "$dir/$file" ] && cat "$dir/../$file" >"$dir/$file"
    done
    echo "$BASHPID" >"$dir/cgroup.procs"
  done
}

# Becomes a command whose mounts, cgroups and directories are its own, within a cgroup; processes and network are the host's. WORK is a
# directory for its files.
# usage: run_isolated CGROUP WORK COMMAND [ARG...] &
run_isolated() {
  enter_cgroup "$1"
  exec unshare --mount --propagation private --cgroup bash -euo pipefail -c '
    . "$1/integration/lib/common.sh"
    . "$1/integration/lib/isolation.sh"
    arrange_isolation "$2"
    shift 2
    exec "$@"' bash "$TOP" "${@:2}"
}

# In the namespaces: hides what is the host's.
# usage: arrange_isolation WORK
arrange_isolation() {
  local work=$1 dir
  mount_own_cgroups
  # As systemd does at boot: pods may pass on mounts.
  mount --make-rshared /
  mount -t tmpfs -o mode=755 tmpfs /run
  for dir in "${ISOLATED_DIRS[@]}"; do
    mkdir -p "$work$dir"
    mount --bind "$work$dir" "$dir"
  done
}

# Mounts the cgroup hierarchies again, with the namespace's root at the top.
mount_own_cgroups() {
  local point type options option own
  while read -r point type options; do
    own=()
    # Of a hierarchy of version 1, only its controllers and its name.
    for option in ${options//,/ }; do
      if [[ $type = cgroup && ( $option = name=* || -e /proc/cgroups && -n $(awk -v c="$option" '$1 == c' /proc/cgroups) ) ]]; then
        own+=(-o "$option")
      fi
    done
    umount "$point"
    mount -t "$type" "${own[@]}" cgroup "$point"
  done < <(awk '{for (i = 7; $i != "-"; i++); if ($(i + 1) ~ /^cgroup2?$/) print $5, $(i + 1), $(i + 3)}' /proc/self/mountinfo)
  # With version 2, only a cgroup without processes passes on controllers.
  if has_cgroup_v2; then
    mkdir /sys/fs/cgroup/init
    echo 0 >/sys/fs/cgroup/init/cgroup.procs
  fi
}

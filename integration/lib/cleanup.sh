# shellcheck shell=bash
# Removes what pods leave on a host when no daemon removes it any more. Each function takes a name or a path that only
# we use, does nothing if it does not exist, and touches nothing else. Sourced after common.sh.

# Kills the shims of a containerd and removes their sockets, which are in one directory for all containerds.
# usage: end_shims CONTAINERD_SOCKET CONTAINERD_STATE
end_shims() {
  local socket=$1 state=$2 pid
  for pid in $(pids_of containerd-shim-runc-v2 "$socket"); do
    kill -KILL "$pid" 2>/dev/null || true
  done
  # Each bundle has its shim's address: containerd 1 as plain text, containerd 2 as JSON.
  { grep -rhos --include=address --include=bootstrap.json 'unix:///run/containerd/s/[0-9a-f]*' "$state" || true; } |
    sed 's,^unix://,,' | xargs -r rm -f
}

# Prints the directories of a top-level cgroup, in every hierarchy that has it.
cgroup_dirs() {
  local name=$1 dir
  for dir in "/sys/fs/cgroup/$name" "/sys/fs/cgroup"/*/"$name"; do
    # /sys/fs/cgroup/cpu may be a link to another hierarchy's directory.
    [ -d "$dir" ] && ! [ -L "$(dirname "$dir")" ] && printf '%s\n' "$dir"
  done
  return 0
}

# Kills the processes of a cgroup and removes it, leaves first.
remove_cgroup() {
  local name=$1 top pid
  for top in $(cgroup_dirs "$name"); do
    find "$top" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u | while read -r pid; do
      kill -KILL "$pid" 2>/dev/null || true
    done
    wait_until 60 "the cgroup $top is gone" remove_cgroup_dirs "$top" || true
  done
}

remove_cgroup_dirs() {
  find "$1" -depth -type d -exec rmdir {} + || ! [ -e "$1" ]
}

# Unmounts everything at or below a directory, newest first.
unmount_below() {
  local dir=$1 point
  awk -v d="$dir" '$5 == d || index($5, d "/") == 1 {print $5}' /proc/self/mountinfo | tac | while read -r point; do
    umount -l "$(printf '%b' "$point")" 2>/dev/null || true
  done
}

# Removes the address translation that the CNI plugins bridge and portmap set up for the pods of a network.
remove_nat_rules() {
  local network=$1 chain number target
  command -v iptables >/dev/null || return 0
  for chain in POSTROUTING CNI-HOSTPORT-DNAT; do
    { iptables -w -t nat -n --line-numbers -L "$chain" 2>/dev/null || true; } |
      awk -v n="name: \"$network\"" 'index($0, n) {print $1, $2}' | sort -rn | while read -r number target; do
      iptables -w -t nat -D "$chain" "$number"
      iptables -w -t nat -F "$target" 2>/dev/null || true
      iptables -w -t nat -X "$target" 2>/dev/null || true
    done
  done
  remove_empty_portmap_chains
}

# Removes the CNI results of a containerd's sandboxes; a regular teardown of the network removes them itself.
# usage: remove_cni_results NETWORK CONTAINERD_ROOT
remove_cni_results() {
  local network=$1 root=$2 sandbox
  for sandbox in "$root"/io.containerd.grpc.v1.cri/sandboxes/*/; do
    sandbox=$(basename "$sandbox")
    rm -f "/var/lib/cni/results/$network-$sandbox-eth0" "/var/lib/cni/results/cni-loopback-$sandbox-lo"
  done
}

# portmap leaves its top-level chains forever, and recreates them when needed, so unused ones are removed.
remove_empty_portmap_chains() {
  local rules rule chain
  rules=$(iptables -w -t nat -S CNI-HOSTPORT-DNAT 2>/dev/null) || return 0
  [ "$rules" = "-N CNI-HOSTPORT-DNAT" ] || return 0
  for chain in PREROUTING OUTPUT POSTROUTING; do
    # The only quotes in these rules are those of the comment; xargs parses them like the shell.
    iptables -w -t nat -S "$chain" | sed -n '/-j CNI-HOSTPORT-/s/^-A/-D/p' | while read -r rule; do
      printf '%s\n' "$rule" | xargs iptables -w -t nat
    done
  done
  for chain in CNI-HOSTPORT-DNAT CNI-HOSTPORT-MASQ CNI-HOSTPORT-SETMARK; do
    iptables -w -t nat -F "$chain" 2>/dev/null || true
    iptables -w -t nat -X "$chain" 2>/dev/null || true
  done
}

# Removes the links in /var/log/containers that point into a directory of pod logs.
remove_log_links() { [ ! -d /var/log/containers ] || find /var/log/containers -lname "$1/*" -delete; }

remove_netns() { ! [ -e "/run/netns/$1" ] || ip netns delete "$1"; }

# Removes a directory in which nothing is mounted any more.
remove_dir() { rm -rf --one-file-system "$1"; }

# shellcheck shell=bash
# The configuration of a containerd for tests, separate from the host's: its own root, state, socket and networks.
# Sourced after common.sh, packages.sh and images.sh.

# The version of the installed containerd, e.g. 1.6.20 or 2.1.9.
containerd_version() { containerd --version | awk '{print $3}' | sed 's/^v//; s/[^0-9.].*//'; }

# Prints the configuration. Settings of single registries are in ROOT/certs.d/HOST:PORT/hosts.toml. HOSTLET_TEST_HANDLER names another
# handler of runtime classes, of a containerd 2.
# usage: containerd_config ROOT STATE CNI_CONF_DIR SYSTEMD_CGROUP     SYSTEMD_CGROUP: true or false
containerd_config() {
  local root=$1 state=$2 conf=$3 systemd=$4 version bins restrict=false
  version=$(containerd_version)
  bins=$(cni_plugin_dir) || die "no CNI plugins in /usr/lib/cni or /opt/cni/bin"
  # Without CAP_SYS_RESOURCE (24), no process may lower an OOM score, and every sandbox would fail to start.
  has_capability 24 || restrict=true
  if at_least "$version" 2.0; then
    local cni_bins="bin_dirs = [\"$bins\"]"
    at_least "$version" 2.1 || cni_bins="bin_dir = \"$bins\""
    cat <<TOML
version = 3
root = "$root"
state = "$state"

[grpc]
  address = "$state/containerd.sock"

[plugins.'io.containerd.internal.v1.opt']
  path = "$root/opt"

# Its socket would be the same for every containerd of the host.
[plugins.'io.containerd.nri.v1.nri']
  disable = true

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "$root/certs.d"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "$PAUSE_IMAGE"

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = $restrict
  netns_mounts_under_state_dir = true

  [plugins.'io.containerd.cri.v1.runtime'.cni]
    $cni_bins
    conf_dir = "$conf"

  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      Root = "$state/runc"
      SystemdCgroup = $systemd
TOML
    [ -z "${HOSTLET_TEST_HANDLER:-}" ] || cat <<TOML

  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.$HOSTLET_TEST_HANDLER]
    runtime_type = "io.containerd.runc.v2"

    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.$HOSTLET_TEST_HANDLER.options]
      Root = "$state/runc"
      SystemdCgroup = $systemd
TOML
  else
    cat <<TOML
version = 2
root = "$root"
state = "$state"

[grpc]
  address = "$state/containerd.sock"

[plugins."io.containerd.internal.v1.opt"]
  path = "$root/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = $restrict
  netns_mounts_under_state_dir = true

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$root/certs.d"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$bins"
    conf_dir = "$conf"

  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "$state/runc"
      SystemdCgroup = $systemd
TOML
  fi
}

# Prints the network's configuration: a bridge with addresses of SUBNET, whose allocations are in DATA_DIR.
# usage: cni_config NAME BRIDGE SUBNET DATA_DIR
cni_config() {
  cat <<JSON
{
  "cniVersion": "0.4.0",
  "name": "$1",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "$2",
      "isGateway": true,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
        "type": "host-local",
        "ranges": [[{"subnet": "$3"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "$4"
      }
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
JSON
}

# Whether a containerd responds on a socket, with its CRI plugin loaded.
containerd_answers() {
  local plugins
  plugins=$(timeout 30 ctr -a "$1" plugins ls 2>&1) || {
    printf '%s\n' "$plugins"
    return 1
  }
  # The plugin that serves the CRI is io.containerd.grpc.v1 / cri in every version.
  awk '$1 == "io.containerd.grpc.v1" && $2 == "cri" && $NF == "ok" {found = 1} {print} END {exit !found}' <<<"$plugins"
}

# Whether another kubelet's unit would start on the runtime of hostlet.service: two kubelets on one runtime remove each
# other's pods. Included in the maintainer scripts of deb and rpm; changes nothing.

# Prints the runtime socket that the files name, in the spelling without links; the last one wins.
runtime_socket() {
  socket=/run/containerd/containerd.sock
  for file in "$@"; do
    [ -r "$file" ] || continue
    found=$(sed -n 's/^[^#]*container-\{0,1\}[rR]untime-\{0,1\}[eE]ndpoint["'\'' :=]*\(unix:\/\/\)\{0,1\}\(\/[^"'\'' ,]*\).*/\2/p' "$file" | tail -n 1)
    [ -z "$found" ] || socket=$found
  done
  printf '%s\n' "$socket" | sed 's,^/var/run/,/run/,'
}

# Prints why hostlet.service must not start by itself, if so.
other_kubelet() {
  if [ "$(readlink /usr/bin/kubelet 2>/dev/null)" = hostlet ]; then
    echo "hostlet-kubelet runs hostlet as kubelet.service"
    return
  fi
  command -v systemctl >/dev/null 2>&1 || return 0
  systemctl --quiet is-enabled kubelet.service >/dev/null 2>&1 ||
    { [ -d /run/systemd/system ] && systemctl --quiet is-active kubelet.service >/dev/null 2>&1; } || return 0
  ours=$(runtime_socket /etc/hostlet/config.yaml)
  theirs=$(runtime_socket /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet /etc/sysconfig/kubelet)
  [ "$ours" = "$theirs" ] || return 0
  echo "kubelet.service is enabled and uses the same container runtime, $ours"
}

# usage: report_other_kubelet WHY
report_other_kubelet() {
  cat >&2 <<TEXT
hostlet: $1.
hostlet: Two kubelets on one runtime remove each other's pods, so hostlet.service is neither enabled nor started.
hostlet: To run hostlet instead: systemctl disable --now kubelet && systemctl enable --now hostlet
hostlet: To run both: set another containerRuntimeEndpoint in /etc/hostlet/config.yaml, then enable hostlet.
TEXT
}

# Starts kubelet.service where a stock kubelet was: on a node that has joined a cluster. Included in the maintainer scripts of deb and
# rpm.

NODE_KUBECONFIG=/etc/kubernetes/kubelet.conf

# Starts it once with the permission to take over the pods of the runtime, which the stock kubelet started: those that the API server
# names keep running, static pods start again, and the stock kubelet left no others. A later start is no first one.
# usage: take_over SYSTEMCTL      The command that restarts a unit
take_over() {
  directory=/run/systemd/system/kubelet.service.d
  # kubeadm's drop-in has the command.
  command=$(systemctl cat kubelet.service 2>/dev/null | sed -n 's/^ExecStart=//p' | tail -n 1)
  mkdir -p "$directory"
  printf '[Service]\nExecStart=\nExecStart=%s --adopt-foreign-pods\n' "${command:-/usr/bin/kubelet}" >"$directory/99-hostlet-take-over.conf"
  systemctl daemon-reload || true
  echo "hostlet-kubelet: this node has joined a cluster ($NODE_KUBECONFIG); hostlet takes over its pods" >&2
  "$1" restart kubelet.service >/dev/null || cat >&2 <<TEXT
hostlet-kubelet: kubelet.service did not start, and this node has no kubelet now: journalctl -u kubelet says why.
hostlet-kubelet: Correct it and run: systemctl restart kubelet; or install the package kubelet again. Pods keep running meanwhile.
TEXT
  rm -f "$directory/99-hostlet-take-over.conf"
  rmdir "$directory" 2>/dev/null || true
  systemctl daemon-reload || true
}

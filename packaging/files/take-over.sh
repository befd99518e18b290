# Starts kubelet.service where a stock kubelet was: on a node that has joined a cluster. Included in the maintainer scripts of deb and
# rpm, after other-kubelet.sh and accepts-service.sh.

NODE_KUBECONFIG=/etc/kubernetes/kubelet.conf
# The last of the drop-ins, also after the one that `systemctl edit` writes.
PERMISSION=/run/systemd/system/kubelet.service.d/zz-hostlet-take-over.conf
# Marks a removal of the deb, after which dpkg names the last version as in an upgrade.
REMOVED=/var/lib/hostlet/kubelet-removed

# Starts it with the permission to take over the pods of the runtime, which the stock kubelet started: those that the API server
# names keep running, static pods start again, and the stock kubelet left no others. Once it has, no start is a first one, and the
# permission is needed no more. Until then it stays, for systemd's next tries and for a person's.
# usage: take_over SYSTEMCTL      The command that restarts a unit
take_over() {
  command=$(unit_command kubelet.service)
  mkdir -p "${PERMISSION%/*}"
  printf '[Service]\nExecStart=\nExecStart=%s --adopt-foreign-pods\n' "${command:-/usr/bin/kubelet}" >"$PERMISSION"
  systemctl daemon-reload || true
  echo "hostlet-kubelet: this node has joined a cluster ($NODE_KUBECONFIG); hostlet takes over its pods" >&2
  if accepts_service kubelet.service && "$1" restart kubelet.service >/dev/null; then
    forget_permission
    return
  fi
  cat >&2 <<TEXT
hostlet-kubelet: kubelet.service did not start, and this node has no kubelet now: see above, or journalctl -u kubelet.
hostlet-kubelet: Correct it and run: systemctl restart kubelet; or install the package kubelet again. Pods keep running meanwhile.
hostlet-kubelet: The permission to take them over ends with the next boot; then KUBELET_EXTRA_ARGS=--adopt-foreign-pods gives it.
TEXT
}

# A stock kubelet would not know the flag.
forget_permission() {
  [ -e "$PERMISSION" ] || return 0
  rm -f "$PERMISSION"
  rmdir "${PERMISSION%/*}" 2>/dev/null || true
  systemctl daemon-reload || true
}

note_removal() {
  mkdir -p "${REMOVED%/*}"
  : >"$REMOVED"
}

forget_removal() {
  rm -f "$REMOVED"
  rmdir "${REMOVED%/*}" 2>/dev/null || true
}

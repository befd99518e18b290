# Whether this host has a kubelet that is not hostlet. Two kubelets on one host remove each other's pods, logs, volumes and cgroups,
# so hostlet never starts by itself beside one. Included in the maintainer scripts of deb and rpm; changes nothing.

# Whether hostlet is the kubelet that kubeadm starts.
is_the_kubelet() { [ "$(readlink /usr/bin/kubelet 2>/dev/null)" = hostlet ]; }

# Prints the installed units that are or contain a kubelet.
kubelet_units() {
  for file in /etc/systemd/system/*.service /run/systemd/system/*.service /usr/local/lib/systemd/system/*.service \
    /usr/lib/systemd/system/*.service; do
    case ${file##*/} in
      kubelet.service | k3s.service | k3s-*.service | rke2-server.service | rke2-agent.service | k0scontroller.service | \
        k0sworker.service | snap.*kubelet*.service | snap.*kubelite*.service)
        echo "${file##*/}"
        ;;
    esac
  done
}

# Prints the command that a unit starts. A drop-in's takes the place of the unit's, and a line may go on after a backslash.
# usage: unit_command UNIT
unit_command() {
  systemctl cat "$1" 2>/dev/null | sed -e ':next' -e '/\\$/{' -e 'N' -e 's/\\\n//' -e 'b next' -e '}' | sed -n 's/^ExecStart=//p' |
    tail -n 1
}

# Prints the program that kubelet.service starts, if it is not hostlet: an installer's unit takes precedence over that of a package.
program_of_kubelet_unit() {
  program=$(unit_command kubelet.service | sed -e 's/^[-@:+!|"]*//' -e 's/["[:space:]].*//')
  case $(readlink -f "$(command -v "$program")") in "" | /usr/bin/hostlet) ;; *) echo "$program" ;; esac
}

# usage: report_other_program PROGRAM
report_other_program() {
  cat >&2 <<TEXT
hostlet-kubelet: kubelet.service of this host runs $1, not hostlet, and stays as it is.
hostlet-kubelet: To run hostlet as the kubelet, remove that unit (systemctl cat kubelet names its files), remove this package, and
hostlet-kubelet: install it again.
TEXT
}

# Whether something listens on the port where a kubelet answers health checks, 10248.
is_health_port_used() { grep -qE '^ *[0-9]+: [0-9A-F]+:2808 [0-9A-F]+:0000 0A ' /proc/net/tcp /proc/net/tcp6 2>/dev/null; }

# Prints why a unit of hostlet must not start by itself, if so.
# usage: other_kubelet UNIT
other_kubelet() {
  own=$1
  if command -v systemctl >/dev/null 2>&1; then
    for unit in $(kubelet_units); do
      [ "$unit" != "$own" ] || continue
      if systemctl --quiet is-enabled "$unit" >/dev/null 2>&1; then
        echo "$unit is enabled, which is another kubelet"
        return
      elif [ -d /run/systemd/system ] && systemctl --quiet is-active "$unit" >/dev/null 2>&1; then
        echo "$unit runs, which is another kubelet"
        return
      fi
    done
    # The port is this unit's own then.
    if [ -d /run/systemd/system ] && systemctl --quiet is-active "$own" >/dev/null 2>&1; then return; fi
  fi
  ! is_health_port_used || echo "a program listens on port 10248, as a kubelet does"
}

# usage: report_other_kubelet UNIT WHY
report_other_kubelet() {
  cat >&2 <<TEXT
hostlet: $2.
hostlet: Two kubelets on one host remove each other's pods, logs and volumes, so $1 is neither enabled nor started.
hostlet: To run hostlet instead, disable the other one, and then: systemctl enable --now $1
hostlet: To run both, they must share nothing: hostlet needs a containerRuntimeEndpoint, podLogsDir, cgroupRoot and healthzPort of
hostlet: its own in its configuration, and a --root-dir of its own in its flags. Then: systemctl enable --now $1
TEXT
}

# shellcheck shell=bash
# Long-running programs, with systemd or without: as transient units where systemd is init, else as background
# processes. There are no PID files that could become stale: a process is ours if it runs this program with exactly this
# argument (the path of our configuration file), no matter what started it. Sourced after common.sh.

# Prints the pids of the processes that run PROGRAM (by file name) with ARGUMENT among their arguments.
# usage: pids_of PROGRAM ARGUMENT
pids_of() {
  local program=$1 argument=$2 dir args arg
  for dir in /proc/[0-9]*; do
    args=()
    # A process may exit meanwhile, and a kernel thread has no arguments.
    { mapfile -d '' -t args <"$dir/cmdline"; } 2>/dev/null || continue
    [ "${#args[@]}" -gt 1 ] || continue
    [ "${args[0]##*/}" = "$program" ] || continue
    for arg in "${args[@]:1}"; do
      if [ "$arg" = "$argument" ]; then
        printf '%s\n' "${dir#/proc/}"
        break
      fi
    done
  done
}

service_running() { [ -n "$(pids_of "$1" "$2")" ]; }

# Starts a program with its output appended to LOG.
# usage: service_start UNIT LOG PROGRAM [ARG...]
service_start() {
  local unit=$1 log=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  if has_systemd; then
    systemctl reset-failed "$unit.service" 2>/dev/null || true
    # Like the units of containerd and the kubelet: the pods' processes survive when the service stops.
    systemd-run --quiet --collect --unit="$unit" -p KillMode=process -p Delegate=yes -p TasksMax=infinity \
      -p LimitNOFILE=1048576 -p StandardOutput="append:$log" -p StandardError="append:$log" \
      --setenv=PATH="$PATH" "$@"
  else
    setsid nohup "$@" >>"$log" 2>&1 </dev/null &
    disown
  fi
}

# Stops a program with SIGTERM, and after SECONDS with SIGKILL. Succeeds if it does not run.
# usage: service_stop UNIT PROGRAM ARGUMENT SECONDS
service_stop() {
  local unit=$1 program=$2 argument=$3 limit=$4 pid
  if has_systemd && systemctl is-active --quiet "$unit.service"; then
    timeout "$limit" systemctl stop "$unit.service" || true
  fi
  for pid in $(pids_of "$program" "$argument"); do
    kill "$pid" 2>/dev/null || true
  done
  if ! wait_until "$limit" "$program has ended" service_ended "$program" "$argument"; then
    for pid in $(pids_of "$program" "$argument"); do
      kill -KILL "$pid" 2>/dev/null || true
    done
    wait_until 5 "$program has ended" service_ended "$program" "$argument"
  fi
}

service_ended() {
  local pids
  pids=$(pids_of "$1" "$2")
  printf 'pids: %s\n' "$pids"
  [ -z "$pids" ]
}

# shellcheck shell=bash
# Builds and runs the test programs of this package. Sourced after common.sh; sources everything else that it needs.

lib=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=integration/lib/packages.sh
. "$lib/packages.sh"
# shellcheck source=integration/lib/containerd2.sh
. "$lib/containerd2.sh"
# shellcheck source=integration/lib/kubernetes.sh
. "$lib/kubernetes.sh"
# shellcheck source=integration/lib/control_plane.sh
. "$lib/control_plane.sh"
# shellcheck source=integration/lib/containerd.sh
. "$lib/containerd.sh"

# The programs that the cluster tests need besides the agent.
CLUSTER_PROGRAMS=("${CONTROL_PLANE[@]}" kube-proxy kubectl)

# Builds them, the stock kubelet, which takes the place of hostlet in some tests, and what CSI drivers need. A process of its own, so that
# `die` ends only this.
build_cluster_programs() (
  build_kubernetes "${CLUSTER_PROGRAMS[@]}" kubelet &&
    { csi_registrar && csi_sidecar attacher && csi_sidecar provisioner && csi_sidecar resizer; } >/dev/null
)

# The suites that failed so far, in readable form.
failed=()

# Builds hostlet and the test programs as the calling user, so that the build directory never contains root's files. One
# build of the whole workspace: hostlet is built with its tests. Sets `programs`, and exports HOSTLET_BIN.
build_suites() {
  local built
  built=$(as_builder cargo test --workspace --locked --no-run --message-format=json)
  mapfile -t programs < <(jq -r 'select(.reason == "compiler-artifact" and .profile.test and .executable) | .executable' \
    <<<"$built")
  [ "${#programs[@]}" -gt 0 ] || die "no test program was built"
  HOSTLET_BIN=$(jq -r 'select(.reason == "compiler-artifact" and .target.name == "hostlet" and (.profile.test | not) and .executable)
    | .executable' <<<"$built")
  [ -x "$HOSTLET_BIN" ] || die "hostlet was not built"
  export HOSTLET_BIN
}

# How long a suite may take, in seconds: several times what it takes on two cores.
SUITE_SECONDS=${HOSTLET_SUITE_SECONDS:-2400}

# Runs a command that must end; one that hangs is killed with its process group, and fails.
limited() {
  local code=0
  timeout --kill-after=60 "$SUITE_SECONDS" "$@" || code=$?
  [ "$code" -ne 124 ] || warn "not done within $SUITE_SECONDS s: $*"
  return "$code"
}

# Runs the test program of a suite in the directory of its package, as cargo does. Adds a failure to `failed`.
# usage: run_suite SUITE LABEL [FILTER...]
run_suite() {
  local suite=$1 label=$2 program
  shift 2
  program=$(suite_program "$suite")
  note "$suite$label"
  (cd "$TOP/integration" && limited "$program" "$@") || failed+=("$suite$label")
}

# usage: suite_program SUITE
suite_program() {
  local program
  for program in "${programs[@]}"; do
    [[ "$(basename "$program")" =~ ^"$1"-[0-9a-f]+$ ]] || continue
    printf '%s\n' "$program"
    return
  done
  die "no test program has the name $1"
}

# Notes that something cannot be tested here. That is a failure where everything is wanted (HOSTLET_TEST_ALL).
# usage: not_tested WHAT WHY
not_tested() {
  if [ -n "${HOSTLET_TEST_ALL:-}" ]; then failed+=("$1 (not tested: $2)"); else warn "NOT TESTED: $1: $2"; fi
}

# Whether the programs of a cluster exist or can be built.
can_have_cluster() {
  local name
  ! go_program >/dev/null || return 0
  for name in "${CLUSTER_PROGRAMS[@]}"; do kubernetes_program "$name" >/dev/null || return 1; done
}

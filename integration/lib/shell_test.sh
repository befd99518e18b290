# shellcheck shell=bash
# Runs tests that are shell functions. Sourced; needs WORK, a directory of the caller.

# How many passed, and the names of those that failed.
passed=0
failures=()

# Runs a test in a shell of its own, which ends at its first command that fails, and counts it. Prints its output only if it failed.
# Must not be called in a condition (if, ||): bash would run the test to its end whatever fails in it.
# usage: shell_test NAME COMMAND [ARG...]
shell_test() {
  local name=$1 code=0
  shift
  (
    set -e
    "$@"
  ) >"$WORK/output" 2>&1 &
  wait $! || code=$?
  if [ "$code" -eq 0 ]; then
    printf 'ok      %s\n' "$name"
    passed=$((passed + 1))
  else
    printf 'FAILED  %s\n' "$name"
    sed 's/^/        /' "$WORK/output"
    failures+=("$name")
  fi
}

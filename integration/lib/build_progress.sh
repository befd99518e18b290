# shellcheck shell=bash
# Shows how far a run of many minutes is: its stages, and the crates of a build. Sourced after common.sh.

# The number of the current stage. The script that sources this sets STAGES, how many there are.
stage_number=0

# Begins the next stage. usage: stage TITLE
stage() {
  stage_number=$((stage_number + 1))
  say "$stage_number of $STAGES ($(elapsed $SECONDS)): $*"
}

# A duration in words. usage: elapsed SECONDS
elapsed() {
  if [ "$1" -lt 60 ]; then printf '%s s' "$1"; else printf '%s min %s s' "$(($1 / 60))" "$(($1 % 60))"; fi
}

# Builds a program, and prints how many of its crates are compiled: after each tenth, and for each of the last ones, which are the
# largest. Prints nothing of crates that were compiled before.
# usage: build_with_progress PROGRAM PROFILE
build_with_progress() {
  local program=$1 profile=$2 crates
  # Downloads what is missing; cargo shows that itself.
  crates=$(cd "$TOP" && as_builder cargo tree --locked --package "$program" --edges normal,build --prefix none) || return
  crates=$(sed 's/ (\*)$//' <<<"$crates" | sort -u | wc -l)
  (cd "$TOP" && as_builder cargo build --profile "$profile" --locked --quiet --bin "$program" \
    --message-format json-render-diagnostics) |
    jq --unbuffered -r 'select(.reason == "compiler-artifact" and .target.kind != ["custom-build"])
      | "\(.package_id)\t\(.fresh)\t\(.target.name)"' |
    show_crates "$crates"
}

# Reads crates, as they are compiled: ID, whether it was compiled before, name.
# usage: show_crates TOTAL
show_crates() {
  local total=$1 began=$SECONDS id fresh name done=0 tenth=0
  declare -A known=()
  while IFS=$'\t' read -r id fresh name; do
    [ -z "${known[$id]:-}" ] || continue
    known[$id]=1
    done=$((done + 1))
    [ "$fresh" = false ] || continue
    if [ $((done * 10 / total)) -gt "$tenth" ] || [ $((total - done)) -le 3 ]; then
      tenth=$((done * 10 / total))
      note "$done of $total crates after $(elapsed $((SECONDS - began))): $name"
    fi
  done
}

#!/bin/bash
# The agent in the test VM: runs the commands that the host writes to a virtio port, one a line, and answers with their output
# and exit code. Needs neither a network nor a writable disk.
#
# request:  ID SECONDS BASE64_SCRIPT        response:  BASE64_OUTPUT ID EXIT_CODE      ("-" for no output)
port=/dev/virtio-ports/hostlet
until [ -c "$port" ]; do sleep 0.1; done
exec 3<>"$port"
while IFS=' ' read -r -u 3 id limit script; do
  script=$(base64 -d <<<"$script")
  output=$(
    timeout -k 2 "$limit" bash -c "$script" 2>&1 </dev/null | base64 -w 0
    printf ' %s' "${PIPESTATUS[0]}"
  )
  printf '%s %s %s\n' "${output% *}" "$id" "${output##* }" | sed 's/^ /- /' >&3
done

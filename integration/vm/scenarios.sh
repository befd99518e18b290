# shellcheck shell=bash
# The scenarios of the test VM. Each begins with a fresh VM in which hostlet is installed and active. Sourced after node.sh.

# Their names, each with what it shows, in the order in which all of them run.
scenario_list() {
  cat <<'LIST'
install    the service becomes active, a pod runs and answers, systemctl status and the journal show it
restart    systemctl restart and stop leave the containers running
reboot     after a reboot the pods run again, without an API server
reload     systemctl reload applies a changed verbosity and reports an invalid file
watchdog   a stopped daemon is killed by the watchdog and comes back; its pods keep running
mounts     a Secret-like tmpfs and a Bidirectional mount are visible across the unit's boundary
cgroups    cgroup v2 with the systemd driver: slices and values of every QoS class, with systemReserved
power      power cuts while pods start: everything comes back once
disk       a full disk, freed again
memory     pods that allocate without limit do not kill the daemon
LIST
}

scenario_install() {
  vm "cat >$MANIFESTS/web.yaml <<'YAML'
$(cat "$TOP/integration/samples/web.yaml")
YAML"
  node_ready 120 web
  local ip
  ip=$(vm "hostlet pods -o json | jq -r '.items[0].status.podIP'")
  vm_until 20 "the pod answers" "curl -fsS --max-time 5 http://$ip:8080/"
  vm "systemctl is-active hostlet.service"
  vm_until 10 "systemctl status shows the pods" "systemctl show -P StatusText hostlet.service | grep -x '1 pod, 1 running'"
  same "the OOM score" -999 "$(vm "cat /proc/\$(systemctl show -P MainPID hostlet)/oom_score_adj")"
  same "the cgroup" /hostlet.slice/hostlet.service "$(node_property ControlGroup)"
  vm "test \$(cat /sys/fs/cgroup/hostlet.slice/memory.min) = 67108864"
  # One line per record, with fields and the usual priority.
  vm "journalctl -b -u hostlet.service -o json HOSTLET_POD=default/web-vm | jq -es 'length > 0 and all(.[]; .PRIORITY != \"5\")'" >/dev/null
  vm "journalctl -b -k --no-pager | grep -i 'segfault' && exit 1 || true"
}

scenario_restart() {
  local before pid
  sleeper one | node_manifest one
  sleeper two | node_manifest two
  node_ready 120 one two
  before=$(node_containers)
  pid=$(node_property MainPID)
  vm "systemctl restart hostlet.service"
  [ "$(node_property MainPID)" != "$pid" ] || vm_fail "the daemon was not restarted"
  node_ready 60 one two
  same "the containers after a restart" "$before" "$(node_containers)"
  vm "systemctl stop hostlet.service"
  same "the containers after a stop" "$before" "$(node_containers)"
  vm "systemctl start hostlet.service"
  node_ready 60 one two
  vm "kill -KILL \$(systemctl show -P MainPID hostlet.service)"
  vm_until 30 "systemd starts it again" "[ \$(systemctl show -P NRestarts hostlet.service) -ge 1 ] && hostlet pods"
  node_ready 60 one two
  same "the containers after a crash" "$before" "$(node_containers)"
  vm "systemctl restart containerd.service"
  vm_until 60 "the runtime is back" "systemctl show -P StatusText hostlet.service | grep -x '2 pods, 2 running'"
  same "the containers after a restart of containerd" "$before" "$(node_containers)"
}

scenario_reboot() {
  sleeper one | node_manifest one
  sleeper two | node_manifest two
  node_ready 120 one two
  local before
  before=$(node_containers)
  vm_reboot
  node_ready 120 one two
  [ "$(node_containers)" != "$before" ] || vm_fail "the containers were not created again"
  same "each pod once" 4 "$(node_containers | wc -l)"
}

scenario_reload() {
  sleeper one | node_manifest one
  node_ready 120 one
  vm "sed -i 's/^enableServer: false/&\nlogging: {verbosity: 4}\nmaxPods: 9/' /etc/hostlet/config.yaml && systemctl reload hostlet.service"
  vm_until 20 "the verbosity is applied" "journalctl -b -u hostlet.service --no-pager | grep 'configuration reloaded'"
  vm_until 20 "maxPods needs a restart" "journalctl -b -u hostlet.service -p warning --no-pager | grep 'maxPods was changed and needs a restart'"
  vm_until 20 "the service is active again" "systemctl is-active hostlet.service && systemctl show -P StatusText hostlet.service | grep restart"
  vm "sed -i 's/maxPods/maxPod/' /etc/hostlet/config.yaml && systemctl reload hostlet.service"
  vm_until 20 "the error is reported" "journalctl -b -u hostlet.service -p err --no-pager | grep 'config.yaml:.*maxPod'"
  # An invalid configuration at a start is tried again, and works once it is valid.
  vm "systemctl restart hostlet.service || true"
  vm_until 30 "it is tried again" "[ \$(systemctl show -P NRestarts hostlet.service) -ge 2 ]"
  same "the exit code" 64 "$(node_property ExecMainStatus)"
  vm "sed -i 's/maxPod:/maxPods:/' /etc/hostlet/config.yaml"
  vm_until 30 "it is active by itself" "systemctl is-active hostlet.service"
  node_ready 60 one
}

scenario_watchdog() {
  sleeper one | node_manifest one
  node_ready 120 one
  vm "mkdir -p /etc/systemd/system/hostlet.service.d && printf '[Service]\nWatchdogSec=15s\n' \
    >/etc/systemd/system/hostlet.service.d/watchdog.conf && systemctl daemon-reload && systemctl restart hostlet.service"
  node_ready 60 one
  local before pid
  before=$(node_containers)
  pid=$(node_property MainPID)
  # Alone it lives on: longer than the limit.
  sleep 20
  same "the daemon that is fed" "$pid" "$(node_property MainPID)"
  vm "kill -STOP $pid"
  vm_until 60 "another daemon runs" "pid=\$(systemctl show -P MainPID hostlet.service) && [ \$pid != 0 ] && [ \$pid != $pid ] && hostlet pods"
  vm "journalctl -b -u hostlet.service --no-pager | grep 'Watchdog timeout'" >/dev/null
  node_ready 60 one
  same "the containers" "$before" "$(node_containers)"
}

scenario_mounts() {
  vm "mkdir -p /srv/shared && mount --bind /srv/shared /srv/shared && mount --make-shared /srv/shared"
  node_manifest giver <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: giver, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: memory, emptyDir: {medium: Memory}}
    - {name: shared, hostPath: {path: /srv/shared}}
    - {name: facts, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      securityContext: {privileged: true}
      command: [sh, -c, "echo secret >/memory/s; mkdir -p /shared/inner; mount -t tmpfs inner /shared/inner; echo inner >/shared/inner/f; exec sleep infinity"]
      volumeMounts:
        - {name: memory, mountPath: /memory}
        - {name: facts, mountPath: /facts}
        - {name: shared, mountPath: /shared, mountPropagation: Bidirectional}
    - name: second
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "until grep -qx secret /memory/s && grep -q giver /facts/name; do sleep 0.2; done; touch /memory/seen; exec sleep infinity"]
      volumeMounts:
        - {name: memory, mountPath: /memory}
        - {name: facts, mountPath: /facts}
YAML
  node_ready 120 giver
  # The daemon's mount reached containerd, both containers see one tmpfs, and what a container mounts is on the host.
  vm_until 30 "the containers see their volumes" "cat /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/memory/seen"
  vm_until 30 "the host sees the mount of a container" "grep -qx inner /srv/shared/inner/f"
  same "the daemon's mount namespace" "$(vm "readlink /proc/1/ns/mnt")" \
    "$(vm "readlink /proc/\$(systemctl show -P MainPID hostlet.service)/ns/mnt")"
  vm "rm $MANIFESTS/giver.yaml"
  vm_until 60 "nothing of the pod is left" "[ -z \"\$(ls /var/lib/kubelet/pods)\" ] && ! grep kubelet/pods /proc/self/mountinfo"
}

scenario_cgroups() {
  vm "sed -i 's/^enableServer: false/&\nsystemReserved: {cpu: 200m, memory: 300Mi, pid: \"500\"}/' /etc/hostlet/config.yaml &&
    systemctl restart hostlet.service"
  sleeper best | node_manifest best
  sleeper burst '{requests: {cpu: 100m, memory: 32Mi}, limits: {memory: 64Mi}}' | node_manifest burst
  sleeper whole '{requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}' | node_manifest whole
  node_ready 120 best burst whole
  local slices
  slices=$(vm "cd /sys/fs/cgroup/kubepods.slice && find . -name 'cri-containerd-*.scope' -printf '%h\n' | sed 's/pod[0-9a-f_]*/pod/' | sort | uniq -c | awk '{print \$1, \$2}'")
  same "the slices, each with a sandbox and a container" "2 ./kubepods-besteffort.slice/kubepods-besteffort-pod.slice
2 ./kubepods-burstable.slice/kubepods-burstable-pod.slice
2 ./kubepods-pod.slice" "$slices"
  local total limit
  total=$(vm "awk '/MemTotal/ {print \$2 * 1024}' /proc/meminfo")
  limit=$(vm "cat /sys/fs/cgroup/kubepods.slice/memory.max")
  same "all pods: the memory without what is reserved" $((total - 300 * 1024 * 1024)) "$limit"
  same "Guaranteed: cpu.max" "20000 100000" "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-pod*.slice/cpu.max")"
  same "Guaranteed: memory.max" 67108864 "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-pod*.slice/memory.max")"
  same "Burstable: memory.max" 67108864 "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod*.slice/memory.max")"
  same "BestEffort: cpu.weight" 1 "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.weight")"
  # systemd knows them, and keeps them when it reads its units again.
  vm "systemctl daemon-reload && systemctl daemon-reexec"
  same "all pods after systemd started over" "$limit" "$(vm "cat /sys/fs/cgroup/kubepods.slice/memory.max")"
  same "what systemd says" "$limit" "$(vm "systemctl show -P MemoryMax kubepods.slice")"
}

scenario_power() {
  local cut number names=()
  for number in 1 2 3 4; do names+=("pod$number"); done
  for cut in $(seq "${HOSTLET_VM_POWER_CUTS:-3}"); do
    for number in 1 2 3 4; do sleeper "pod$number" | sed "s/namespace: default/&, labels: {round: \"$cut\"}/" | node_manifest "pod$number"; done
    vm "sync $MANIFESTS/* $MANIFESTS"
    # In the middle of starting: another moment each time.
    sleep "0.$((RANDOM % 10))"
    vm_power_cut
    vm_boot
    node_ready 180 "${names[@]}"
    vm_until 60 "each pod runs once, in the version of its manifest" "
      [ \$(ctr -n k8s.io tasks ls -q | wc -l) -eq 8 ] &&
      hostlet pods -o json | jq -e '[.items[] | select(.metadata.labels.round == \"$cut\")] | length == 4'"
    vm "journalctl -b -u hostlet.service --no-pager | grep -iE 'panic|corrupt' && exit 1 || true"
    note "power cut $cut: all pods are back"
  done
}

scenario_disk() {
  sleeper one | node_manifest one
  node_ready 120 one
  local before pid
  before=$(node_containers)
  pid=$(node_property MainPID)
  # To the last byte, as root.
  vm "dd if=/dev/zero of=/var/fill bs=1M 2>/dev/null; dd if=/dev/zero of=/var/fill2 bs=1 count=100000 2>/dev/null; sync; [ \$(df --output=avail / | tail -1) -eq 0 ]"
  vm_until 30 "a restart on the full disk" "systemctl restart hostlet.service && systemctl is-active hostlet.service"
  sleep 10
  same "the containers on a full disk" "$before" "$(node_containers)"
  vm "rm /var/fill /var/fill2"
  sleeper two | node_manifest two
  node_ready 120 one two
  [ "$(node_property MainPID)" != "$pid" ] || vm_fail "the daemon was not restarted"
  vm_until 30 "the first pod is as before" "true"
  local after
  after=$(node_containers | grep '^one-vm ')
  same "the first pod's containers" "$before" "$after"
}

scenario_memory() {
  node_ready 60
  sleeper calm | node_manifest calm
  node_ready 120 calm
  local pid before
  pid=$(node_property MainPID)
  before=$(node_containers)
  local hog
  for hog in hog1 hog2; do
    sleeper "$hog" | sed 's/command: .*/command: [sh, -c, "tail \/dev\/zero"]/' | node_manifest "$hog"
  done
  vm_until 120 "the kernel kills a hog" "journalctl -k -b --no-pager | grep -iE 'out of memory|oom-kill|Killed process'"
  sleep 20
  same "the daemon" "$pid" "$(node_property MainPID)"
  same "restarts of the daemon" 0 "$(node_property NRestarts)"
  vm "rm $MANIFESTS/hog1.yaml $MANIFESTS/hog2.yaml"
  vm_until 120 "the hogs are gone" "[ \$(ctr -n k8s.io tasks ls -q | wc -l) -eq 2 ]"
  same "the calm pod's containers" "$before" "$(node_containers)"
}

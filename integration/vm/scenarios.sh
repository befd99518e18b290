# shellcheck shell=bash
# The scenarios of the test VM. Each begins with a VM of its own in which hostlet is installed and active, and the host is ready.
# Sourced after node.sh.

# Their names, each with what it shows, in the order in which all of them run.
scenario_list() {
  cat <<'LIST'
install    the service is active, the sample pod runs, another one answers, systemctl status and the journal show them
restart    systemctl restart and stop, a crash and a restart of containerd: the same containers, ready all the time by their probes; leftover shims go
upgrade    another version, and the first one again: the same containers, ready all the time by their probes
docker     a containerd like that of Docker's package, without CRI, network and pause image: doctor --fix, and a pod runs
reboot     after a reboot the pods run again, without an API server
reload     systemctl reload applies a changed verbosity and reports an invalid file
watchdog   a stopped daemon is killed by the watchdog and comes back; its pods keep running
mounts     a Secret-like tmpfs and a Bidirectional mount are visible across the unit's boundary, although it has a credential
cgroups    cgroup v2 with both drivers: slices and values of every QoS class, with systemReserved and protected memory
huge       huge pages: capacity, limits of pods and containers, a volume
users      hostUsers: false, procMount, recursive read-only mounts: the newest kernel in the VM, containerd 2 and a current runc
apparmor   the profiles of AppArmor, and one that is not loaded yet
shutdown   a reboot ends the pods in order of their priority, and waits for them
purge      apt remove leaves pods running, apt purge ends and deletes them, and nothing of a stock kubelet's
power      power cuts while pods start: everything comes back once
kubeadm    kubeadm join, with the package hostlet-kubelet, to a control plane outside of the VM; a pod with a Secret
takeover   hostlet-kubelet takes the place of the stock kubelet of a node and gives it back: the same containers and volumes
disk       a full disk, freed again
memory     pods that allocate without limit do not kill the daemon
pressure_disk    a disk filled by images, a log, an emptyDir, inodes, somebody else: who is evicted, how soon there is enough again
pressure_memory  memory taken by a pod, by a process outside, stalls: who is evicted, how soon there is enough again
power_gc   power cuts while images are removed and a pod is evicted: one eviction, nothing left behind
power_csi  power cuts while volumes of a CSI driver are staged, published and taken back: what was synced is there, nothing is staged twice
numa       four NUMA nodes: CPUs, memory and devices of pods as the kernel has them, also after a reboot and power cuts
e2e_node   Kubernetes' own tests of a kubelet: the specs that need systemd, cgroup v2 or a current runc, or restart containerd
LIST
}

scenario_install() {
  vm "systemctl is-enabled hostlet.service && systemctl is-active hostlet.service"
  vm "cp /usr/share/doc/hostlet/examples/pause.yaml $MANIFESTS/"
  node_ready 120 pause
  vm "rm $MANIFESTS/pause.yaml"
  node_manifest web <"$TOP/integration/samples/web.yaml"
  node_ready 120 web
  local ip
  ip=$(vm "hostlet pods web -o json | jq -r '.items[0].status.podIP'")
  vm_until 20 "the pod answers" "curl -fsS --max-time 5 http://$ip:8080/"
  vm_until 60 "systemctl status shows the pods" "systemctl show -P StatusText hostlet.service | grep -x '1 pod, 1 running'"
  same "the OOM score" -999 "$(vm "cat /proc/\$(systemctl show -P MainPID hostlet)/oom_score_adj")"
  same "the cgroup" /hostlet.slice/hostlet.service "$(node_property ControlGroup)"
  vm "test \$(cat /sys/fs/cgroup/hostlet.slice/memory.min) = 67108864"
  # One line per record, with fields and the usual priority.
  vm "journalctl -b -u hostlet.service -o json HOSTLET_POD=default/web-vm | jq -es 'length > 0 and all(.[]; .PRIORITY != \"5\")'" >/dev/null
  # The unit's capabilities suffice for the kernel's settings and for iptables.
  same "the kernel's settings" "1 10" "$(vm "echo \$(sysctl -n vm.overcommit_memory kernel.panic)")"
  vm_until 30 "the iptables chains" "iptables -w -S KUBE-IPTABLES-HINT -t mangle && ip6tables -w -S KUBE-IPTABLES-HINT -t mangle &&
    iptables -w -S KUBE-FIREWALL -t filter | grep -q DROP" >/dev/null
  # There was no network before doctor --fix; nothing else is to be wondered about.
  same "warnings in the journal" 'the pod network is not ready' \
    "$(vm "journalctl -b -u hostlet.service -p warning --no-pager -o cat | cut -d ' ' -f 1-6")"
}

scenario_restart() {
  local before pid
  probed one exec | node_manifest one
  probed two httpGet | node_manifest two
  node_ready 120 one two
  before=$(node_containers)
  node_observe
  pid=$(node_property MainPID)
  vm "systemctl restart hostlet.service"
  [ "$(node_property MainPID)" != "$pid" ] || vm_fail "the daemon was not restarted"
  node_probed 60 one two
  same "the containers after a restart" "$before" "$(node_containers)"
  vm "systemctl stop hostlet.service"
  same "the containers after a stop" "$before" "$(node_containers)"
  vm "systemctl start hostlet.service"
  node_probed 60 one two
  vm "kill -KILL \$(systemctl show -P MainPID hostlet.service)"
  vm_until 30 "systemd starts it again" "[ \$(systemctl show -P NRestarts hostlet.service) -ge 1 ] && hostlet pods"
  node_probed 60 one two
  same "the containers after a crash" "$before" "$(node_containers)"
  vm "systemctl restart containerd.service"
  vm_until 60 "the runtime is back" "systemctl show -P StatusText hostlet.service | grep -x '2 pods, 2 running'"
  same "the containers after a restart of containerd" "$before" "$(node_containers)"
  # A shim of which containerd does not know, as a killed one leaves it. The unit's system calls and capabilities suffice for it.
  vm "cd /run/containerd/io.containerd.runtime.v2.task/k8s.io &&
    ctr -n k8s.io run --detach hostlet.local/busybox:1 forgotten sleep 100000 && pgrep -f '[-]id forgotten' && systemctl stop containerd.service &&
    umount forgotten/rootfs && rm -r forgotten && systemctl start containerd.service && ctr -n k8s.io containers rm forgotten" >/dev/null
  vm_until 180 "the leftover shim is killed" "! pgrep -f '[-]id forgotten'"
  same "the containers after that" "$before" "$(node_containers)"
  node_stayed_ready one two
}

scenario_upgrade() {
  local before pid revision
  probed one exec | node_manifest one
  probed two httpGet | node_manifest two
  node_ready 120 one two
  before=$(node_containers)
  node_observe
  for revision in 2 1; do
    pid=$(node_property MainPID)
    vm "apt-get install -y -qq --allow-downgrades /payload/$revision/hostlet_*.deb" >/dev/null
    same "the version" "0.1.0-$revision" "$(vm "dpkg-query -W -f '\${Version}' hostlet")"
    vm "systemctl is-active hostlet.service" >/dev/null
    [ "$(node_property MainPID)" != "$pid" ] || vm_fail "the daemon was not restarted"
    node_probed 60 one two
    same "the containers with revision $revision" "$before" "$(node_containers)"
  done
  node_stayed_ready one two
}

scenario_docker() {
  vm "rm -r /etc/cni/net.d && ctr -n k8s.io images rm registry.k8s.io/pause:3.6 hostlet.local/pause:1"
  # Docker's package has this line, and no directory of plugins.
  vm "echo 'disabled_plugins = [\"cri\"]' >/etc/containerd/config.toml && systemctl restart containerd hostlet"
  vm "cp /usr/share/doc/hostlet/examples/pause.yaml $MANIFESTS/"
  vm_until 60 "doctor sees what is wrong" "hostlet doctor; [ \$? -eq 1 ] && hostlet doctor | grep -q 'WRONG *runtime'"
  vm "hostlet doctor --fix"
  node_ready 120 pause
  vm "hostlet doctor"
  vm "grep -qx 'disabled_plugins = \[\"cri\"\]' /etc/containerd/config.toml.before-hostlet"
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
  node_configure "logging: {verbosity: 4}" "maxPods: 9"
  vm "systemctl reload hostlet.service"
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
  # A credential, which systemd mounts for the unit: it is not to come with mounts that only the unit sees.
  vm "mkdir -p -m 700 /etc/credstore.encrypted && head -c 32 /dev/urandom | systemd-creds encrypt --with-key=host --name=hostlet.objects-key - \
    /etc/credstore.encrypted/hostlet.objects-key && systemctl restart hostlet.service"
  same "the bytes of the credential" 32 "$(vm "stat -c %s /run/credentials/hostlet.service/hostlet.objects-key")"
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
  node_configure 'systemReserved: {cpu: 200m, memory: 300Mi, pid: "500"}' 'memoryReservationPolicy: TieredReservation' \
    'memoryThrottlingFactor: 0.5'
  # As Debian's package configures containerd: cgroupfs, which needs no word of hostlet's configuration.
  sleeper whole '{requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}' | node_manifest whole
  vm "systemctl restart hostlet.service"
  node_ready 120 whole
  same "cgroupfs, Guaranteed: memory.max of the pod, with a sandbox and a container in it" "67108864 2" \
    "$(vm "cd /sys/fs/cgroup/kubepods/pod* && echo \$(cat memory.max) \$(find . -mindepth 1 -maxdepth 1 -type d | wc -l)")"
  vm "rm $MANIFESTS/whole.yaml"
  vm_until 60 "the pod is gone" "[ -z \"\$(hostlet pods -o json | jq -r '.items[]')\" ]"
  node_systemd_cgroups hostlet.service
  sleeper best | node_manifest best
  sleeper burst '{requests: {cpu: 100m, memory: 32Mi}, limits: {memory: 64Mi}}' | node_manifest burst
  sleeper whole '{requests: {cpu: 200m, memory: 64Mi}, limits: {cpu: 200m, memory: 64Mi}}' | node_manifest whole
  node_ready 120 best burst whole
  local slices
  slices=$(vm "cd /sys/fs/cgroup/kubepods.slice && find . -name 'cri-containerd-*.scope' -printf '%h\n' | sed 's/-pod[0-9a-f_]*\.slice/-pod.slice/' | sort | uniq -c | awk '{print \$1, \$2}'")
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
  same "Guaranteed: memory.min" 67108864 "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-pod*.slice/memory.min")"
  local burstable=/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice
  same "Burstable: memory.low" 33554432 "$(vm "cat $burstable/kubepods-burstable-pod*.slice/memory.low")"
  same "a burstable container: memory.high between request and limit" 50331648 \
    "$(vm "cat $burstable/kubepods-burstable-pod*.slice/cri-containerd-*.scope/memory.high | grep -v max")"
  vm_until 60 "all pods and the burstable class have the protected memory of their pods" \
    "[ \"\$(cat /sys/fs/cgroup/kubepods.slice/memory.min $burstable/memory.low | xargs)\" = '100663296 33554432' ]"
  same "BestEffort: cpu.weight" 1 "$(vm "cat /sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/cpu.weight")"
  # systemd knows them, and keeps them when it reads its units again.
  vm "systemctl daemon-reload && systemctl daemon-reexec"
  same "all pods after systemd started over" "$limit" "$(vm "cat /sys/fs/cgroup/kubepods.slice/memory.max")"
  same "what systemd says" "$limit" "$(vm "systemctl show -P MemoryMax kubepods.slice")"
  same "the CPUs of all pods" "$(vm "cat /sys/devices/system/cpu/online")" "$(vm "cat /sys/fs/cgroup/kubepods.slice/cpuset.cpus")"
  # The slice of daemons has to exist; systemd gives it the controllers of what is reserved.
  node_configure 'kubeReserved: {cpu: 100m, memory: 64Mi, pid: "100"}' 'kubeReservedCgroup: /daemons.slice' \
    'enforceNodeAllocatable: [pods, kube-reserved]'
  vm "systemctl --no-block restart hostlet.service"
  vm_until 60 "hostlet does not start without the slice" "journalctl -b -u hostlet.service | grep -q 'daemons.slice does not exist'"
  vm_until 30 "doctor says so" "hostlet doctor | grep -q 'WRONG *reserved cgroup.*daemons.slice'"
  vm "systemctl start daemons.slice && systemctl restart hostlet.service"
  node_ready 120 best burst whole
  local daemons="cd /sys/fs/cgroup/daemons.slice && echo \$(cat cpu.weight memory.max memory.min pids.max)"
  same "the daemons: weight, memory, protected memory, processes" "4 67108864 67108864 100" "$(vm "$daemons")"
  vm "systemctl daemon-reload"
  same "the daemons after systemd read its units again" "4 67108864 67108864 100" "$(vm "$daemons")"
  same "all pods: the memory without both reservations" $((total - 364 * 1024 * 1024)) "$(vm "cat /sys/fs/cgroup/kubepods.slice/memory.max")"
  vm "hostlet node | grep -q 'kube-reserved .*in force'"
}

scenario_huge() {
  local pages=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
  vm "echo 16 >$pages && [ \$(cat $pages) = 16 ] && systemctl restart hostlet.service"
  # fallocate(1) takes pages: as many as its container may have, and no more.
  node_manifest huge <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
    - {name: huge, emptyDir: {medium: HugePages}}
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "fallocate -l 8388608 /huge/fits && ! fallocate -l 2097152 /huge/not && echo limited >/dev/termination-log; exec sleep infinity"]
      resources: {limits: {memory: 32Mi, hugepages-2Mi: 8Mi}}
      volumeMounts:
        - {name: huge, mountPath: /huge}
YAML
  node_ready 120 huge
  vm "grep -q 'empty-dir/huge hugetlbfs .*pagesize=2M' /proc/self/mounts"
  same "the limit of all pods" 33554432 "$(vm "cat /sys/fs/cgroup/kubepods/hugetlb.2MB.max")"
  same "the limit of the pod" 8388608 "$(vm "cat /sys/fs/cgroup/kubepods/burstable/pod*/hugetlb.2MB.max")"
  vm_until 30 "the container has its pages" "[ \$(cat /sys/fs/cgroup/kubepods/burstable/pod*/hugetlb.2MB.current) = 8388608 ]"
  vm_until 30 "and no more" "grep -rqx limited /var/lib/kubelet/pods/*/containers/main/"
  # Pages may be added while hostlet runs.
  vm "echo 24 >$pages"
  vm_until 180 "all pods may use added pages" "[ \$(cat /sys/fs/cgroup/kubepods/hugetlb.2MB.max) = 50331648 ]"
  vm "rm $MANIFESTS/huge.yaml"
  vm_until 60 "nothing of the pod is left" "[ -z \"\$(ls /var/lib/kubelet/pods)\" ] && ! grep hugetlbfs.*pods /proc/self/mounts"
}

scenario_shutdown() {
  # Far more than the pods need, for slow machines.
  node_configure "shutdownGracePeriod: 60s" "shutdownGracePeriodCriticalPods: 30s"
  vm "systemctl restart hostlet.service && mkdir -p /srv/log"
  local name priority
  # Each writes when it is told to end, and takes three seconds for it.
  while read -r name priority; do
    node_manifest "$name" <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $name, namespace: default}
spec:
  priority: $priority
  terminationGracePeriodSeconds: 15
  volumes: [{name: log, hostPath: {path: /srv/log}}]
  containers:
    - name: main
      image: hostlet.local/busybox:1
      imagePullPolicy: Never
      command: [sh, -c, "trap 'echo $name begins >>/log/order; sleep 3; echo $name ends >>/log/order; sync; exit 0' TERM; while :; do sleep 0.1; done"]
      volumeMounts: [{name: log, mountPath: /log}]
YAML
  done <<'PODS'
ordinary 0
critical 2000000000
PODS
  node_ready 120 ordinary critical
  vm_until 30 "logind knows the lock" "systemd-inhibit --list --no-pager | grep -E 'kubelet .*shutdown .*delay'"
  vm_until 30 "logind grants the time" "[ \$(busctl get-property org.freedesktop.login1 /org/freedesktop/login1 \
    org.freedesktop.login1.Manager InhibitDelayMaxUSec | cut -d' ' -f2) -ge 60000000 ]"
  vm_reboot
  same "the order" "ordinary begins
ordinary ends
critical begins
critical ends" "$(vm "cat /srv/log/order")"
  # hostlet ran until they had ended, each group in its turn.
  same "hostlet's journal of the shutdown" "the host is shutting down; terminating the pods
terminating the pods of a priority
terminating the pods of a priority
all pods had their time to terminate; the host may shut down
hostlet stopped; pods keep running" "$(vm "journalctl -b -1 -u hostlet.service --no-pager -o cat | sed -n '/^the host is shutting down/,\$p' | grep -E 'terminat|^hostlet stopped'")"
  node_ready 120 ordinary critical
  same "each pod once" 4 "$(node_containers | wc -l)"
}

scenario_purge() {
  sleeper one | node_manifest one
  sleeper two | node_manifest two
  node_ready 120 one two
  local before foreign files mounted
  # Those of a stock kubelet that ran here before, of a pod that it had, and of a container that is no pod.
  vm "cd /var/lib/kubelet && mkdir -p pki device-plugins pods/0d3e1c9a-0000-4000-8000-000000000001/volumes /etc/kubernetes/manifests \
      /var/log/pods/kube-system_etcd_0d3e/etcd && for file in config.yaml pki/kubelet.crt \
      pods/0d3e1c9a-0000-4000-8000-000000000001/etc-hosts /etc/kubernetes/manifests/etcd.yaml \
      /var/log/pods/kube-system_etcd_0d3e/etcd/0.log; do echo foreign >\$file; done"
  vm "ctr -n default images import /payload/images/busybox.tar >/dev/null &&
    ctr -n default run -d hostlet.local/busybox:1 mine sleep 1000 && rm /usr/share/hostlet/images/busybox.tar"
  # A person's mount below a pod's directory.
  mounted=$(vm "mkdir -p /srv/mine && echo foreign >/srv/mine/file && cd /var/lib/kubelet/pods &&
    pod=\$(hostlet pods one -o json | jq -r '.items[0].metadata.uid') && mkdir -p \$pod/volumes/mine &&
    mount --bind /srv/mine \$pod/volumes/mine && echo \$PWD/\$pod/volumes/mine")
  foreign="grep -rlx foreign /var/lib/kubelet /etc/kubernetes /var/log/pods /srv/mine | grep -v '$mounted' | sort"
  before=$(node_containers)
  vm "apt-get remove -y -qq hostlet" >/dev/null
  same "the containers after apt remove" "$before" "$(node_containers)"
  vm "! systemctl is-active hostlet.service && ! command -v hostlet" >/dev/null
  files=$(vm "$foreign")
  # Nothing is removed across the mount; what is needed to try again stays, and is named.
  vm "apt-get purge -y -qq hostlet >/run/purge 2>&1 && grep -q '$mounted is still mounted' /run/purge"
  same "the pods after apt purge" "" "$(node_containers)"
  same "the person's file" foreign "$(vm "cat $mounted/file")"
  vm "umount $mounted && sed -n 's/^hostlet:   \\(.* purge .*\\)/\\1/p' /run/purge | tr -d '\\r' >/run/again && bash -e /run/again && rm -r /var/lib/hostlet" >/dev/null
  same "the files of others" "$files" "$(vm "$foreign")"
  same "the container that is no pod" mine "$(vm "ctr -n default tasks ls -q")"
  # But for images, addresses, the journal, and what a person or doctor --fix put into /etc.
  same "what is left of hostlet" "" "$(vm "find /sys/fs/cgroup/kubepods -mindepth 1 -name 'pod*'; find /usr /var /run -iname '*hostlet*' \
    -not -path '/run/udev/*' -not -path '/var/log/journal/*' -not -path '/var/lib/containerd/*' -not -path '/var/lib/cni/*' -not -path '/run/containerd/*'")"
  same "what is left in /etc" "/etc/cni/net.d/10-hostlet.conflist
/etc/hostlet
/etc/hostlet/manifests
/etc/hostlet/manifests/one.yaml
/etc/hostlet/manifests/two.yaml" "$(vm "find /etc -path '*hostlet*' | sort")"
}

scenario_power() {
  local cut number names=()
  for number in 1 2 3 4; do names+=("pod$number"); done
  # containerd unpacks an image when it is first used, and does not flush the files (docs/what-happens-when.md).
  sleeper first | node_manifest first
  node_ready 120 first
  vm "sync && rm $MANIFESTS/first.yaml"
  for cut in $(seq "${HOSTLET_VM_POWER_CUTS:-10}"); do
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
    vm "journalctl -b -u hostlet.service --no-pager | grep -iE 'panicked|corrupt' && exit 1 || true"
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
  node_ready 30 one two
  local after
  after=$(node_containers | grep '^one-vm ')
  same "the first pod's containers" "$before" "$after"
}

scenario_memory() {
  # Debian's and Ubuntu's default. Older kernels let CAP_SYS_ADMIN read the log nevertheless, so the capability is checked as well.
  vm "sysctl -w kernel.dmesg_restrict=1 && systemctl restart hostlet.service" >/dev/null
  node_ready 60
  sleeper calm | node_manifest calm
  node_ready 120 calm
  local pid before
  pid=$(node_property MainPID)
  vm "[ \$(((16#\$(awk '/^CapEff:/ {print \$2}' /proc/$pid/status) >> 34) & 1)) -eq 1 ]" # CAP_SYSLOG
  before=$(node_containers)
  local hog
  for hog in hog1 hog2; do
    sleeper "$hog" | sed 's/command: .*/command: [sh, -c, "tail \/dev\/zero"]/' | node_manifest "$hog"
  done
  vm_until 120 "the kernel kills a hog" "journalctl -k -b --no-pager | grep -iE 'out of memory|oom-kill|Killed process'"
  vm_until 60 "an event reports it" "hostlet events | grep SystemOOM"
  sleep 20
  same "the daemon" "$pid" "$(node_property MainPID)"
  same "restarts of the daemon" 0 "$(node_property NRestarts)"
  vm "rm $MANIFESTS/hog1.yaml $MANIFESTS/hog2.yaml"
  vm_until 120 "the hogs are gone" "[ \$(ctr -n k8s.io tasks ls -q | wc -l) -eq 2 ]"
  same "the calm pod's containers" "$before" "$(node_containers)"
}

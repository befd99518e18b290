//! Starting pods: one or several containers, two hosts side by side, and an unreadable manifest.

use std::path::{Path, PathBuf};

use hostlet_integration::real::RealHost;
use hostlet_integration::{Look, wait_for};

use crate::support::{
    IDLE, SOON, manifest, pod, running_containers, statuses, uid, wait_for_log, wait_until_empty,
    wait_until_ready,
};

/// The quickstart's sample, so that a newcomer's first pod is tested too.
const WEB: &str = include_str!("../../samples/web.yaml");

#[tokio::test]
async fn a_pod_starts_serves_and_logs() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("web.yaml", WEB).unwrap();
    let pod = wait_until_ready(&daemon, "web").await.unwrap();

    let ip = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let address = format!("{ip}:8080");
    let page = wait_for("the page", SOON, async || host.http_get(&address, "/").map(Look::Done));
    assert_eq!(page.await.unwrap(), "Hello from the pod web-node1\n");

    let sandboxes = host.cri().sandboxes().await.unwrap();
    assert_eq!(sandboxes.len(), 1, "{sandboxes:?}");
    let labels = &sandboxes[0].labels;
    assert_eq!(labels["io.kubernetes.pod.name"], "web-node1");
    assert_eq!(labels["io.kubernetes.pod.namespace"], "default");
    assert_eq!(labels["io.kubernetes.pod.uid"], uid(&pod));
    assert_eq!(labels["app"], "web");
    let containers = host.cri().containers().await.unwrap();
    assert_eq!(containers.len(), 1, "{containers:?}");
    assert_eq!(containers[0].labels["io.kubernetes.container.name"], "httpd");
    assert_eq!(containers[0].pod_sandbox_id, sandboxes[0].id);
    assert_eq!(host.cri().sandbox_ip(&sandboxes[0].id).await.unwrap(), ip);

    wait_for_log(&host, &pod, "httpd", " stdout F serving /www on port 8080\n").await.unwrap();
}

#[tokio::test]
async fn all_pods_together_are_limited_to_the_allocatable_resources() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("kubeReserved: {memory: 1Gi}\n").await.unwrap();
    host.write_manifest("idle.json", &manifest("idle", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "idle").await.unwrap();
    let of_machine = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = of_machine.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let total: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    let kubepods = format!("/{}/kubepods", host.id());
    let limit = cgroup_file(&kubepods, ["memory.limit_in_bytes", "memory.max"]).unwrap();
    let limit: u64 = limit.parse().unwrap();
    assert_eq!(limit, (total << 10) - (1 << 30));
}

/// The files of a cgroup on either version: a name of v1, which begins with its hierarchy, or a name of v2.
fn cgroup_file(cgroup: &str, names: [&str; 2]) -> Option<String> {
    let hierarchy = names[0].split('.').next().unwrap_or_default();
    let paths = [format!("{hierarchy}{cgroup}/{}", names[0]), format!("{}/{}", &cgroup[1..], names[1])];
    let read = |path: &String| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(path)).ok();
    paths.iter().find_map(read).map(|text| text.trim().to_owned())
}

#[tokio::test]
async fn daemons_are_limited_to_what_is_reserved_for_them_in_a_cgroup_that_exists() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("idle.json", &manifest("idle", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "idle").await.unwrap();
    daemon.stop().await.unwrap();
    let before = running_containers(&host).await.unwrap();

    let cgroup = format!("/{}/daemons", host.id());
    let extra = format!(
        "kubeReserved: {{cpu: 100m, memory: 64Mi, pid: \"100\"}}\nkubeReservedCgroup: {cgroup}\n\
         enforceNodeAllocatable: [pods, kube-reserved]\n"
    );
    let mut refused = host.launch_hostlet(&extra).unwrap();
    let status = refused.wait_until_it_ends(SOON).await.unwrap();
    let log = refused.log();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("kube-reserved") && log.contains("does not exist"), "{log}");
    drop(refused);
    assert_eq!(running_containers(&host).await.unwrap(), before, "pods keep running");

    // On v1 in each hierarchy.
    let tops = std::fs::read_dir("/sys/fs/cgroup").unwrap().map(|entry| entry.unwrap().path());
    for top in tops.chain([PathBuf::from("/sys/fs/cgroup")]).map(|top| top.join(host.id())) {
        if top.is_dir() {
            std::fs::create_dir_all(top.join("daemons")).unwrap();
        }
    }
    let daemon = host.start_hostlet(&extra).await.unwrap();
    wait_until_ready(&daemon, "idle").await.unwrap();
    let weight = cgroup_file(&cgroup, ["cpu.shares", "cpu.weight"]).unwrap();
    assert!(["102", "4"].contains(&weight.as_str()), "{weight}");
    assert_eq!(cgroup_file(&cgroup, ["memory.limit_in_bytes", "memory.max"]).as_deref(), Some("67108864"));
    assert_eq!(cgroup_file(&cgroup, ["pids.max", "pids.max"]).as_deref(), Some("100"));
    let node: serde_json::Value =
        serde_json::from_str(&daemon.cli(&["node", "-o", "json"]).unwrap()).unwrap();
    let limits = node["limits"].as_array().unwrap();
    let of: Vec<&str> = limits.iter().map(|limit| limit["of"].as_str().unwrap()).collect();
    assert_eq!(of, ["kube-reserved", "pods"]);
    assert!(limits.iter().all(|limit| limit["problem"].is_null()), "{limits:?}");
}

#[tokio::test]
async fn the_containers_of_a_pod_share_its_network() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let server = "mkdir /www; echo shared > /www/page; exec httpd -f -p 80 -h /www";
    let client = "until wget -q -O - http://127.0.0.1/page; do sleep 0.1; done; trap 'exit 0' TERM; sleep 100000 & wait";
    let text = manifest("trio", &[("server", server), ("client", client), ("idle", IDLE)]);
    host.write_manifest("trio.json", &text).unwrap();
    let pod = wait_until_ready(&daemon, "trio").await.unwrap();
    let mut names: Vec<_> = statuses(&pod).iter().map(|status| status.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["client", "idle", "server"]);

    wait_for_log(&host, &pod, "client", "stdout F shared").await.unwrap();
    assert_eq!(host.cri().sandboxes().await.unwrap().len(), 1);
    assert_eq!(running_containers(&host).await.unwrap().len(), 3);
}

#[tokio::test]
async fn an_unreadable_manifest_affects_no_other() {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("a-broken.yaml", "apiVersion: v1\nkind: Pod\nspec: [").unwrap();
    host.write_manifest("b-good.yaml", &manifest("good", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "good").await.unwrap();
    let named = wait_for("the broken file in the log", SOON, async || {
        let log = daemon.log();
        Ok(if log.contains("a-broken.yaml") { Look::Done(()) } else { Look::NotYet(log) })
    });
    named.await.unwrap();
}

#[tokio::test]
async fn two_hosts_side_by_side_do_not_interfere() {
    let (one, two) = (RealHost::start().await.unwrap(), RealHost::start().await.unwrap());
    let daemon_one = one.start_hostlet("").await.unwrap();
    let daemon_two = two.start_hostlet("").await.unwrap();
    for host in [&one, &two] {
        host.write_manifest("same.json", &manifest("same", &[("idle", IDLE)])).unwrap();
    }
    wait_until_ready(&daemon_one, "same").await.unwrap();
    wait_until_ready(&daemon_two, "same").await.unwrap();
    let before = running_containers(&two).await.unwrap();
    assert_eq!(before.len(), 1);

    one.remove_manifest("same.json").unwrap();
    wait_until_empty(&one).await.unwrap();
    assert!(pod(&daemon_two, "same").unwrap().is_some());
    assert_eq!(running_containers(&two).await.unwrap(), before);
}

#[tokio::test]
async fn a_runtime_that_makes_its_network_receives_the_range_of_addresses() {
    let mut host = RealHost::start().await.unwrap();
    let range = host.restart_containerd_without_network().await.unwrap();
    let daemon = host.start_hostlet(&format!("podCIDR: {range}\n")).await.unwrap();
    host.write_manifest("idle.json", &manifest("idle", &[("idle", IDLE)])).unwrap();
    let pod = wait_until_ready(&daemon, "idle").await.unwrap();
    let ip = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
    let network = range.rsplit_once('.').unwrap().0;
    assert!(ip.starts_with(network), "{ip} is not of {range}");
}

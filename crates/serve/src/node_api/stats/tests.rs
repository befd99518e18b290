//! The answers on a made-up host, compared with those of the stock kubelet 1.37.2 (`testdata/`): names, types and labels.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use hostlet_base::{PodRef, WallClock};
use hostlet_host::cgroup::CgroupVersion;
use hostlet_host::{CpuTopology, Machine};
use hostlet_observe::log::LogLayout;
use hostlet_observe::pleg::Pleg;
use hostlet_observe::stats::testing::{FakeHost, run};
use hostlet_observe::stats::{
    DiskSettings, DiskStats, StorageSettings, StorageStats, SystemPaths, UsageSettings, UsageStats,
};
use hostlet_pod::{AdmittedPod, DesiredPods, ExternalVolume, ExternalVolumes};
use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Failure, FakeRuntime, Fault, Rule};
use http_body_util::BodyExt;
use jiff::Timestamp;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{Stats, StatsDeps, routes};

const SUMMARY: &str = include_str!("testdata/summary.json");
const CADVISOR: &str = include_str!("testdata/cadvisor-types.txt");
const RESOURCE: &str = include_str!("testdata/resource-types.txt");

struct Bench {
    host: FakeHost,
    fake: FakeRuntime,
    router: Router,
    pod: PodRef,
    /// The cgroups of the pod, its sandbox and its container.
    paths: [String; 3],
    _desired: watch::Sender<DesiredPods>,
    _tasks: JoinSet<()>,
}

fn base() -> Timestamp {
    "2026-11-25T12:00:00Z".parse().unwrap()
}

impl Bench {
    /// A node on which a pod runs.
    async fn new(version: CgroupVersion) -> Self {
        let (host, fake) = (FakeHost::new(version), FakeRuntime::new());
        fake.add_image("img");
        let pod = PodRef::new("default", "web", "u-1");
        let (sandbox, container) = run(&fake, &pod, "app").await;
        fake.set_written(&container, 8192);
        let of_pod = host.add_pod(&pod, &[sandbox.as_str(), container.as_str()]);
        let paths = [of_pod.clone(), format!("{of_pod}/{sandbox}"), format!("{of_pod}/{container}")];
        let root_dir = host.path().join("root");
        let logs =
            LogLayout { pod_logs_dir: host.path().join("logs"), containers_dir: host.path().join("links") };
        for (file, kib) in [("logs/default_web_u-1/app/0.log", 4), ("logs/default_web_u-1/app/1.log", 8)]
            .into_iter()
            .chain([
                ("root/pods/u-1/etc-hosts", 4),
                ("root/pods/u-1/volumes/kubernetes.io~empty-dir/data/file", 12),
            ])
            .chain([("root/pods/u-1/volumes/kubernetes.io~secret/key/key", 4)])
        {
            let path = host.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![1; kib << 10]).unwrap();
        }
        let (runtime, clock) = (Arc::new(fake.clone()), WallClock::of_tokio(base()));
        let mut tasks = JoinSet::new();
        let (pleg, handle) = Pleg::new(runtime.clone(), StdRng::seed_from_u64(1));
        tasks.spawn(pleg.run(CancellationToken::new()));
        let observed = handle.cache().clone();
        let disk = ExternalVolume { dir: root_dir.clone(), unit: root_dir.clone(), driver: None };
        let external = ExternalVolumes::from([(pod.clone(), [("disk".to_owned(), disk)].into())]);
        let (task, storage) = StorageStats::new(StorageSettings {
            runtime: runtime.clone(),
            observed: observed.clone(),
            logs: logs.clone(),
            root_dir: root_dir.clone(),
            external: watch::channel(external).1,
            external_pace: Some(Duration::from_secs(60)),
            drivers: hostlet_observe::stats::no_drivers(),
            clock: clock.clone(),
        });
        tasks.spawn(task.run(CancellationToken::new()));
        let object = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u-1"},
            "spec": {
                "containers": [{"name": "app"}],
                "volumes": [
                    {"name": "data", "emptyDir": {}},
                    {"name": "key", "secret": {"secretName": "key"}},
                    {"name": "host", "hostPath": {"path": "/"}},
                    {"name": "disk", "persistentVolumeClaim": {"claimName": "claim"}},
                ],
            },
        });
        let object: k8s_openapi::api::core::v1::Pod = serde_json::from_value(object).unwrap();
        let pods = DesiredPods { ready: true, pods: vec![AdmittedPod::new(object)], kills: BTreeMap::new() };
        let (desired, desired_pods) = watch::channel(pods);
        let (disk_task, disks) = DiskStats::new(DiskSettings {
            runtime: runtime.clone(),
            images: runtime.clone(),
            observed: observed.clone(),
            logs,
            root_dir: root_dir.clone(),
            clock: clock.clone(),
        });
        tasks.spawn(disk_task.run(CancellationToken::new()));
        let deps = StatsDeps {
            usage: UsageStats::new(UsageSettings {
                cgroups: host.cgroups.clone(),
                observed,
                proc: host.proc(),
                root_dir: root_dir.clone(),
                memory: 1 << 30,
                swap: 2 << 20,
                booted_at: base(),
                system: SystemPaths::default(),
                clock: clock.clone(),
            }),
            disks,
            storage,
            desired_pods,
            runtime,
            node: "node1".to_owned(),
            root_dir,
            machine: Machine {
                cpus: 2,
                memory: 1 << 30,
                // More than counts.
                huge_pages: BTreeMap::from([(2 << 20, 8 << 20)]),
                machine_id: "m".to_owned(),
                system_uuid: "s".to_owned(),
                boot_id: "b".to_owned(),
                ..Machine::default()
            },
            huge_pages: 4 << 20,
            topology: CpuTopology { cores: 1, sockets: 1 },
            volume_pace: Some(Duration::from_secs(60)),
            started_at: base(),
            clock,
        };
        // Until the pod is observed.
        sleep(Duration::from_secs(3)).await;
        let stats = Stats::default();
        let router = routes(stats.clone());
        stats.set(deps);
        Self { host, fake, router, pod, paths, _desired: desired, _tasks: tasks }
    }

    async fn ask(&self, method: Method, path: &str) -> (StatusCode, String, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (status, kind) = (answer.status(), answer.headers()["content-type"].to_str().unwrap().to_owned());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, kind, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn text(&self, path: &str) -> String {
        let (status, kind, text) = self.ask(Method::GET, path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, super::exposition::TEXT_FORMAT), "{text}");
        text
    }

    async fn summary(&self, path: &str) -> Value {
        let (status, kind, text) = self.ask(Method::GET, path).await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

/// The fields of an object, with those of all elements of its lists.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                fields(value, &format!("{path}.{key}"), found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, &format!("{path}[]"), found)),
        Value::String(_) => drop(found.insert(format!("{path} string"))),
        Value::Number(_) => drop(found.insert(format!("{path} number"))),
        Value::Bool(_) | Value::Null => drop(found.insert(format!("{path} {value}"))),
    }
}

fn fields_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    fields(value, "", &mut found);
    found
}

#[tokio::test(start_paused = true)]
async fn a_summary_has_the_fields_of_the_stock_kubelets() {
    let bench = Bench::new(CgroupVersion::V2).await;
    // Rates need an earlier measurement, and volumes one that was asked for.
    bench.summary("/stats/summary").await;
    sleep(Duration::from_secs(15)).await;
    let ours = fields_of(&bench.summary("/stats/summary").await);
    let stock = fields_of(&serde_json::from_str(SUMMARY).unwrap());
    let missing: Vec<_> = stock.difference(&ours).collect();
    assert_eq!(missing, Vec::<&String>::new());
    // That kubelet did not find its runtime's socket where cAdvisor expects it, so it had no pressure, network and processes of
    // containers; and its pods had no limits.
    let expected = [
        ".pods[].containers[].cpu.psi.",
        ".pods[].containers[].io.psi.",
        ".pods[].containers[].memory.psi.",
        ".pods[].network.",
        ".pods[].process_stats.",
        ".pods[].memory.availableBytes",
        ".pods[].swap.swapAvailableBytes",
        ".pods[].volume[].pvcRef.",
        ".node.systemContainers[].swap.swapAvailableBytes",
    ];
    for field in ours.difference(&stock) {
        assert!(expected.iter().any(|prefix| field.starts_with(prefix)), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_has_what_was_measured() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let first = bench.summary("/stats/summary").await;
    assert_eq!(first["node"]["cpu"].get("usageNanoCores"), None, "one measurement is no rate");
    let names = |pod: &Value| -> Vec<String> {
        let volumes = pod["volume"].as_array().unwrap().iter();
        volumes.map(|volume| volume["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&first["pods"][0]).contains(&"disk".to_owned()), "it is measured at all times");
    sleep(Duration::from_secs(15)).await;
    bench.host.set(&bench.paths[2], "cpu.stat", "usage_usec 10000000\n");
    let summary = bench.summary("/stats/summary").await;
    let (node, pod) = (&summary["node"], &summary["pods"][0]);
    assert_eq!((&node["nodeName"], &node["startTime"]), (&json!("node1"), &json!("2026-11-25T12:00:00Z")));
    assert_eq!(node["cpu"]["usageCoreNanoSeconds"], 2_500_000_000_u64);
    assert_eq!(node["cpu"]["usageNanoCores"], 0);
    // A GiB, less the working set and 4 MiB of huge pages.
    assert_eq!(node["memory"]["availableBytes"], (1 << 30) - (5 << 20) - (4 << 20));
    assert_eq!(node["rlimit"]["maxpid"], 32768);
    assert_eq!(node["rlimit"]["curproc"], 345);
    assert_eq!(node["network"]["name"], "eth0");
    assert_eq!(node["network"]["interfaces"].as_array().unwrap().len(), 1);
    let system: Vec<&str> =
        node["systemContainers"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(system, ["kubelet", "pods"]);

    assert_eq!(pod["podRef"], json!({"name": "web", "namespace": "default", "uid": "u-1"}));
    assert_eq!(pod["process_stats"]["process_count"], 2);
    assert_eq!(pod["network"]["rxBytes"], 1_000_000);
    assert_eq!(pod["swap"]["swapAvailableBytes"], (1 << 20) - 4096);
    let app = &pod["containers"][0];
    assert_eq!(app["name"], "app");
    // 7.5 s of CPU time in 15 s.
    let rate = app["cpu"]["usageNanoCores"].as_u64().unwrap();
    assert!((499_000_000..=500_000_000).contains(&rate), "{rate}");
    assert_eq!(app["memory"]["availableBytes"], (64 << 20) - (6 << 20));
    assert_eq!(
        app["cpu"]["psi"]["some"],
        json!({"avg10": 1.5, "avg60": 0.25, "avg300": 0.0, "total": 123_456})
    );
    assert_eq!(app["rootfs"]["usedBytes"], 8192);
    assert_eq!((&app["logs"]["usedBytes"], &app["logs"]["inodesUsed"]), (&json!(12 << 10), &json!(2)));
    assert_eq!(names(pod), ["data", "disk", "key"]);
    let (data, disk) = (&pod["volume"][0], &pod["volume"][1]);
    assert_eq!((&data["inodesUsed"], data.get("pvcRef")), (&json!(2), None));
    assert_eq!(disk["pvcRef"], json!({"name": "claim", "namespace": "default"}));
    assert!(
        disk["usedBytes"].as_u64() > Some(0) && disk["usedBytes"].as_u64() < disk["capacityBytes"].as_u64()
    );
    // The secret is not local storage.
    let used = 8192 + (12 << 10) + (4 << 10) + data["usedBytes"].as_u64().unwrap();
    assert_eq!(pod["ephemeral-storage"]["usedBytes"], used);
    assert_eq!(pod["ephemeral-storage"]["inodesUsed"], 5 + 2 + 1 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_brief_summary_asks_the_runtime_nothing() {
    let bench = Bench::new(CgroupVersion::V1).await;
    let calls = |bench: &Bench| {
        let operations = [Operation::ListContainerStats, Operation::ImageFsInfo, Operation::SandboxStatus];
        operations.map(|operation| bench.fake.calls_of(operation).len())
    };
    let before = calls(&bench);
    let summary = bench.summary("/stats/summary?only_cpu_and_memory=true").await;
    bench.text("/metrics/resource").await;
    assert_eq!(calls(&bench), before);
    let pod = &summary["pods"][0];
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let set = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(keys(pod), set(&["containers", "cpu", "memory", "podRef", "startTime", "swap"]));
    assert_eq!(keys(&pod["containers"][0]), set(&["cpu", "memory", "name", "startTime", "swap"]));
    let of_node = ["cpu", "memory", "nodeName", "startTime", "swap", "systemContainers"];
    assert_eq!(keys(&summary["node"]), set(&of_node));
    assert_eq!(pod["containers"][0]["memory"]["workingSetBytes"], 6 << 20);
    // No swap is counted, so there is no limit.
    assert_eq!(pod["swap"].get("swapAvailableBytes"), None);
    // Anything else is a complete summary, as upstream.
    for other in ["only_cpu_and_memory=1", "only_cpu_and_memory=true&only_cpu_and_memory=true", "a=b"] {
        let summary = bench.summary(&format!("/stats/summary?{other}")).await;
        assert!(summary["node"].get("fs").is_some(), "{other}");
    }
    let (status, _, _) = bench.ask(Method::POST, "/stats/summary").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_together_cost_one_measurement() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let before = bench.fake.calls_of(Operation::ListContainerStats).len();
    let both = tokio::join!(bench.summary("/stats/summary"), bench.summary("/stats/summary"));
    assert_eq!(both.0, both.1);
    sleep(Duration::from_secs(5)).await;
    bench.summary("/stats/summary").await;
    assert_eq!(bench.fake.calls_of(Operation::ListContainerStats).len(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_runtime_is_an_error_of_the_summary_alone() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let failure = Fault::Fail { after: Duration::ZERO, failure: Failure::Unreachable };
    for operation in [Operation::ImageFsInfo, Operation::SandboxStatus] {
        bench.fake.faults().add(Rule::new(operation, failure.clone()));
    }
    let (status, _, text) = bench.ask(Method::GET, "/stats/summary").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(
        text.starts_with("Internal Error: failed to get imageFs stats: cannot measure the images: "),
        "{text}"
    );
    bench.summary("/stats/summary?only_cpu_and_memory=true").await;
    assert!(bench.text("/metrics/cadvisor").await.contains("\ncontainer_scrape_error 0\n"));
    assert!(bench.text("/metrics/resource").await.contains("\nresource_scrape_error 0\n"));
}

#[tokio::test(start_paused = true)]
async fn logs_that_cannot_be_read_are_left_out_and_nothing_else_is() {
    let logs = "logs/default_web_u-1/app";
    for is_file in [false, true] {
        let bench = Bench::new(CgroupVersion::V2).await;
        let logs = bench.host.path().join(logs);
        fs::remove_dir_all(&logs).unwrap();
        if is_file {
            fs::write(&logs, "").unwrap();
        }
        let summary = bench.summary("/stats/summary").await;
        let app = &summary["pods"][0]["containers"][0];
        assert_eq!((app.get("logs"), &app["rootfs"]["usedBytes"]), (None, &json!(8192)), "{app}");
    }
    let bench = Bench::new(CgroupVersion::V2).await;
    let of_pod = bench.host.path().join("logs/default_web_u-1");
    fs::remove_dir_all(&of_pod).unwrap();
    fs::write(&of_pod, "").unwrap();
    let summary = bench.summary("/stats/summary").await;
    let pod = &summary["pods"][0];
    let mut volumes = pod["volume"].as_array().unwrap().iter();
    let data = volumes.find(|volume| volume["name"] == "data");
    let data = data.map_or(0, |data| data["usedBytes"].as_u64().unwrap());
    assert_eq!(pod["ephemeral-storage"]["usedBytes"], 8192 + (4 << 10) + data);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_sandbox_has_no_process_has_its_network() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let [pod, sandbox, _] = &bench.paths;
    fs::remove_dir_all(bench.host.path().join(format!("cgroup{sandbox}"))).unwrap();
    let summary = bench.summary("/stats/summary").await;
    assert_eq!(summary["pods"][0]["network"]["rxBytes"], 1_000_000);
    let text = bench.text("/metrics/cadvisor").await;
    let series = format!("container_network_receive_bytes_total{{container=\"\",id=\"{pod}\",");
    assert_eq!(text.lines().filter(|line| line.starts_with(&series)).count(), 1, "{text}");
}

/// The names with their types.
fn types(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

#[tokio::test(start_paused = true)]
async fn the_families_of_resources_are_the_stock_kubelets() {
    for version in [CgroupVersion::V1, CgroupVersion::V2] {
        let bench = Bench::new(version).await;
        let text = bench.text("/metrics/resource").await;
        let mut expected = types(RESOURCE);
        if version == CgroupVersion::V1 {
            // Without a limit of swap.
            expected.remove("container_swap_limit_bytes");
        }
        assert_eq!(types(&text), expected);
        let of_app = "container=\"app\",namespace=\"default\",pod=\"web\"";
        let at = base().as_second() + 3;
        for line in [
            format!("container_cpu_usage_seconds_total{{{of_app}}} 2.5 {at}"),
            format!("container_memory_working_set_bytes{{{of_app}}} {} {at}", 6 << 20),
            format!("pod_cpu_usage_seconds_total{{namespace=\"default\",pod=\"web\"}} 2.5 {at}"),
            format!("node_cpu_usage_seconds_total 2.5 {at}"),
            "resource_scrape_error 0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found.starts_with(&line)), "{line} is not in\n{text}");
        }
    }
}

/// What the stock kubelet has and hostlet has not; docs/metrics.md says why.
const LEFT_OUT: [&str; 4] = [
    "machine_cpu_books",
    "machine_cpu_drawers",
    "machine_nvm_avg_power_budget_watts",
    "machine_nvm_capacity",
];

#[tokio::test(start_paused = true)]
async fn the_families_of_cadvisor_are_the_stock_kubelets() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let text = bench.text("/metrics/cadvisor").await;
    let (ours, stock) = (types(&text), types(CADVISOR));
    let missing: Vec<&str> = stock.keys().filter(|name| !ours.contains_key(*name)).copied().collect();
    assert_eq!(missing, LEFT_OUT);
    for (name, kind) in &ours {
        // That kubelet was on cgroup v1, and its pods read and wrote nothing.
        let is_of_others = ["container_pressure_", "container_fs_", "container_blkio_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        assert!(stock.get(name) == Some(kind) || is_of_others, "{name} {kind}");
    }
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    assert_eq!(names.count(), ours.len(), "each family is there once");

    let [pod, sandbox, container] = &bench.paths;
    let (sandbox_id, id) = (sandbox.rsplit_once('/').unwrap().1, container.rsplit_once('/').unwrap().1);
    let of_pod = format!("namespace=\"default\",pod=\"{}\"", bench.pod.name);
    let at = base().as_second() + 3;
    for line in [
        format!(
            "container_cpu_usage_seconds_total{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod},cpu=\"total\"}} 2.5 {at}"
        ),
        format!(
            "container_cpu_usage_seconds_total{{container=\"\",id=\"{pod}\",image=\"\",name=\"\",{of_pod},cpu=\"total\"}} 2.5 {at}"
        ),
        format!(
            "container_cpu_usage_seconds_total{{container=\"\",id=\"/\",image=\"\",name=\"\",namespace=\"\",pod=\"\",cpu=\"total\"}} 2.5 {at}"
        ),
        format!(
            "container_network_receive_bytes_total{{container=\"\",id=\"{sandbox}\",image=\"{}\",name=\"{sandbox_id}\",{of_pod},interface=\"eth0\"}} 1000000 {at}",
            hostlet_runtime::cri::fake::SANDBOX_IMAGE
        ),
        format!(
            "container_fs_writes_bytes_total{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod},device=\"/dev/vda\"}} 8192 {at}"
        ),
        format!(
            "container_blkio_device_usage_total{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod},device=\"/dev/vda\",major=\"254\",minor=\"0\",operation=\"Read\"}} 4096 {at}"
        ),
        format!(
            "container_sockets{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod}}} 1 {at}"
        ),
        format!(
            "container_file_descriptors{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod}}} 3 {at}"
        ),
        format!(
            "container_spec_memory_limit_bytes{{container=\"app\",id=\"{container}\",image=\"docker.io/library/img:latest\",name=\"{id}\",{of_pod}}} {}",
            64 << 20
        ),
        "machine_cpu_cores{boot_id=\"b\",machine_id=\"m\",system_uuid=\"s\"} 2".to_owned(),
    ] {
        assert!(text.lines().any(|found| found.starts_with(&line)), "{line} is not in\n{text}");
    }
    // What its disk counted is the whole host's.
    for (family, value) in
        [("io_time_seconds_total", "3.5"), ("reads_merged_total", "1"), ("io_current", "3")]
    {
        let of_family = format!("container_fs_{family}{{");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&of_family)).collect();
        assert!(lines.len() == 1 && lines[0].contains("id=\"/\","), "{lines:?}");
        assert!(lines[0].contains(&format!("}} {value} ")), "{lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_image_of_a_sandbox_is_asked_for_once() {
    let bench = Bench::new(CgroupVersion::V2).await;
    let before = bench.fake.calls_of(Operation::SandboxStatus).len();
    bench.text("/metrics/cadvisor").await;
    sleep(Duration::from_secs(15)).await;
    bench.text("/metrics/cadvisor").await;
    let asked = bench.fake.calls_of(Operation::SandboxStatus).len() - before;
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn before_the_runtime_answers_there_are_no_statistics() {
    for path in ["/stats/summary", "/metrics/resource", "/metrics/cadvisor"] {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let answer = routes(Stats::default()).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{path}");
    }
}

//! hostlet: temporary main.
use hostlet::config::Config;
use std::time::Duration;

fn main() {
    let _ = hostlet::telemetry::init(hostlet::telemetry::TelemetryConfig {
        format: hostlet::telemetry::LogFormat::Text,
        verbosity: 3,
        target: hostlet::telemetry::LogTarget::Stderr,
    });
    let base = std::path::PathBuf::from(std::env::var("HL_BASE").unwrap_or_default());
    if std::env::args().nth(1).as_deref() == Some("pods") {
        use clap::Parser;
        #[derive(Parser)]
        struct P {
            _c: String,
            #[command(flatten)]
            p: hostlet::cli::PodsArgs,
        }
        let p = P::parse();
        let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match rt.block_on(hostlet::cli::pods(p.p)) {
            Ok(e) => println!("{e:?}"),
            Err(e) => println!("{}", hostlet::types::error_chain(&e)),
        }
        return;
    }
    let config = Config {
        node_name: "node1".into(),
        node_ips: vec![],
        root_dir: base.join("root"),
        lock_file: None,
        static_pod_path: Some(base.join("manifests")),
        pod_logs_dir: base.join("logs"),
        sync_frequency: Duration::from_secs(60),
        file_check_frequency: Duration::from_secs(20),
        container_runtime_endpoint: std::env::var("HL_CRI").unwrap(),
        image_service_endpoint: None,
        runtime_request_timeout: Duration::from_secs(120),
        registry_pull_qps: 5,
        registry_burst: 10,
        serialize_image_pulls: false,
        max_parallel_image_pulls: None,
        cgroup_driver: hostlet::cri::CgroupDriver::Cgroupfs,
        cgroup_root: "/hl-dev".into(),
        cgroups_per_qos: true,
        cpu_cfs_quota: true,
        cpu_cfs_quota_period: Duration::from_millis(100),
        pod_pids_limit: None,
        single_process_oom_kill: None,
        seccomp_default: false,
        crash_loop_max: Duration::from_secs(300),
        resolv_conf: Some("/etc/resolv.conf".into()),
        cluster_dns: vec![],
        cluster_domain: String::new(),
        oom_score_adj: -999,
        max_open_files: 1000000,
        fail_swap_on: true,
        fail_cgroup_v1: false,
        socket: base.join("hostlet.sock"),
        max_concurrent_starts: 3,
    };
    let rt = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let cancel = tokio_util::sync::CancellationToken::new();
    let c2 = cancel.clone();
    let r = rt.block_on(async move {
        let ctl = async move {
            let _ = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .unwrap()
                .recv()
                .await;
            c2.cancel();
        };
        let (r, ()) = tokio::join!(hostlet::app::run(config, cancel), ctl);
        r
    });
    if let Err(e) = r {
        println!("{}", hostlet::types::error_chain(&e));
    }
}

//! `GET /metrics` on the control socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Look, wait_for};

use crate::support::{SOON, wait_until_ready, write_pods};

#[tokio::test]
async fn the_daemons_actions_are_counted() {
    let host = FakeHost::start().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    write_pods(&host, &["web"]).unwrap();
    wait_until_ready(&daemon, &["web"]).await.unwrap();
    let counted = [
        "kubelet_runtime_operations_total{operation_type=\"start_container\"} 1\n",
        "kubelet_runtime_operations_duration_seconds_count{operation_type=\"run_podsandbox\"} 1\n",
        "kubelet_pleg_relist_duration_seconds_count ",
        "kubelet_pleg_relist_interval_seconds_count ",
        "kubelet_pleg_last_seen_seconds ",
        "kubelet_running_pods 1\n",
        "kubelet_running_containers{container_state=\"running\"} 1\n",
        "kubelet_desired_pods{static=\"true\"} 1\n",
        "kubelet_active_pods{static=\"true\"} 1\n",
        "kubelet_started_pods_total 1\n",
        "kubelet_started_containers_total{container_type=\"container\"} 1\n",
        "kubelet_orphaned_runtime_pods_total 0\n",
        "kubelet_cgroup_version ",
        "hostlet_runtime_calls_hung 0\n",
        "hostlet_start_gate_wait_seconds_bucket{le=\"+Inf\"} ",
        "hostlet_start_gate_waiting 0\n",
        "hostlet_stop_gate_waiting 0\n",
        "hostlet_store_write_duration_seconds_count ",
        "hostlet_store_write_errors_total 0\n",
        "# TYPE hostlet_api_connections gauge\n",
    ];
    wait_for("the metrics", SOON, async || {
        let answer = get(&daemon.socket().to_string_lossy(), "/metrics")?;
        let is_typed = answer.to_ascii_lowercase().contains("content-type: text/plain; version=0.0.4");
        let missing: Vec<&str> = counted.iter().filter(|part| !answer.contains(*part)).copied().collect();
        let is_whole = is_typed && missing.is_empty();
        Ok(if is_whole { Look::Done(()) } else { Look::NotYet(format!("missing {missing:?} in {answer}")) })
    })
    .await
    .unwrap();
}

/// The raw response to a request.
pub(crate) fn get(socket: &str, path: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: hostlet\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

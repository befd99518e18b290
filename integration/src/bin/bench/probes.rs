//! The CPU that hostlet itself uses for probes, without that of what it probes: a fake runtime runs the commands, and this process answers HTTP.

use std::time::Duration;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::real::PAUSE_IMAGE;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::lab::until_shown;
use crate::process::{activity, memory};
use crate::report::{Row, Target, Unit};

/// How long the daemon is measured.
const WATCH: Duration = Duration::from_secs(30);
/// Time before that: past the start of the pods.
const SETTLE: Duration = Duration::from_secs(5);

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// 50 exec probes and 500 HTTP probes per second, each against as many pods without probes.
pub(crate) async fn run() -> Result<Vec<Row>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listening for probes")?;
    let port = listener.local_addr()?.port();
    let mut server = JoinSet::new();
    server.spawn(serve(listener));
    let exec = json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    let http =
        json!({"httpGet": {"host": "127.0.0.1", "port": port, "path": "/healthz"}, "periodSeconds": 1});
    let mut rows = Vec::new();
    for (pods, probe, what, target) in
        [(50, exec, "50 exec probes/s", 10.0), (500, http, "500 HTTP probes/s", 60.0)]
    {
        let (idle, private) = with(pods, None).await?;
        let (probing, private_probing) = with(pods, Some(&probe)).await?;
        let row = |metric: &str, unit| Row::new(format!("{what}: {metric}"), unit);
        rows.push(row("CPU", Unit::Millicores).hostlet(probing - idle).target(Target::AtMost(target)));
        let more = (private_probing - private) / f64::from(u32::try_from(pods)?);
        rows.push(row("memory per pod", Unit::Bytes).hostlet(more));
    }
    Ok(rows)
}

/// The CPU in thousandths of a core and the private memory of a daemon with this many pods.
async fn with(pods: usize, probe: Option<&Value>) -> Result<(f64, f64)> {
    let host = FakeHost::start()?;
    host.runtime().add_image(PAUSE_IMAGE);
    let daemon = host.start_hostlet("maxPods: 500").await?;
    for number in 0..pods {
        let mut container = json!({"name": "pause", "image": PAUSE_IMAGE});
        if let Some(probe) = probe {
            container["readinessProbe"] = probe.clone();
        }
        let manifest = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("p{number}"), "namespace": "default"},
            "spec": {"containers": [container]},
        });
        host.write_manifest(&format!("p{number}.json"), &manifest.to_string())?;
    }
    until_shown(&daemon, pods, Duration::from_secs(1)).await?;
    sleep(SETTLE).await;
    let activity = activity(daemon.pid(), WATCH).await?;
    Ok((activity.millicores, memory(daemon.pid())?.private))
}

async fn serve(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Cancel-safe: a connection is accepted only when it is returned.
            Ok((connection, _)) = listener.accept() => {
                connections.spawn(answer(connection));
            }
            // Cancel-safe: an ended task leaves the set only when it is returned.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(mut connection: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let _ = connection.read(&mut request).await?;
    connection.write_all(ANSWER).await?;
    connection.shutdown().await
}

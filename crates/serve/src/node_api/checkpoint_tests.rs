//! Checkpoints in the in-memory runtime.

use hostlet_runtime::cri::Operation;
use hostlet_runtime::cri::fake::{Fault, Rule};
use jiff::Timestamp;
use tempfile::TempDir;

use super::super::testing::{Bench, ask};
use super::*;

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_a_file_of_the_runtime_and_errors_are_upstreams() {
    let (bench, root) = (Bench::new().await, TempDir::new().unwrap());
    let dir = root.path().join("checkpoints");
    let time: Timestamp = "2026-11-25T10:00:00Z".parse().unwrap();
    let checkpoints = Checkpoints {
        pods: PodDirectory::of(bench.status_cache.clone()),
        observed: bench.pleg.cache().clone(),
        runtime: Arc::new(bench.fake.clone()),
        dir: dir.clone(),
        clock: WallClock::of_tokio(time),
    };
    let post = async |path: &str| {
        let (status, _, text) = ask(checkpoints.clone().routes(), "POST", path).await;
        (status, text)
    };
    let file = dir.join("checkpoint-web_default-c-2026-11-25T10:00:00Z.tar");
    let written = (200, format!("{{\"items\":[\"{}\"]}}", file.display()));
    assert_eq!(post("/checkpoint/default/web/c?timeout=x&timeout=5").await, written);
    assert!(file.exists());
    for (path, status, why) in [
        ("/checkpoint/default/none/c", 404, "pod does not exist"),
        ("/checkpoint/default/web/none", 404, "container none does not exist"),
        ("/checkpoint/default/web/c?timeout=x", 404, "cannot parse value of timeout parameter"),
        ("/checkpoint/default/web/d", 500, "checkpointing of default/web/d failed (container d not found)"),
    ] {
        assert_eq!(post(path).await, (status, why.to_owned()));
    }
    bench.fake.faults().add(Rule::new(Operation::CheckpointContainer, Fault::fail("no CRIU")));
    let failed = (500, "checkpointing of default/web/c failed (no CRIU)".to_owned());
    assert_eq!(post("/checkpoint/default/web/c").await, failed);
    assert_eq!(ask(checkpoints.clone().routes(), "GET", "/checkpoint/default/web/c").await.0, 405);
}

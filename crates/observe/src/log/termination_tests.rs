//! Termination messages from files and logs.

use std::collections::BTreeMap;
use std::fs;

use tempfile::TempDir;

use super::*;
use hostlet_runtime::cri::ContainerState;

struct Bench {
    root: TempDir,
    status: ContainerStatus,
}

/// A container that failed, with the policy to fall back to its log.
fn bench() -> Bench {
    let root = TempDir::new().unwrap();
    let status = ContainerStatus {
        id: "c1".into(),
        sandbox: None,
        name: "c".into(),
        attempt: 0,
        state: ContainerState::Exited,
        created_at: jiff::Timestamp::UNIX_EPOCH,
        started_at: None,
        finished_at: None,
        exit_code: 1,
        reason: "Error".to_owned(),
        message: String::new(),
        image: "img".to_owned(),
        image_ref: "sha256:1".to_owned(),
        hash: None,
        grace_seconds: None,
        pre_stop: None,
        log_path: root.path().join("0.log").to_str().unwrap().to_owned(),
        termination_log: Some(root.path().join("message").to_str().unwrap().to_owned()),
        termination_policy: FALLBACK_TO_LOGS.to_owned(),
        user: None,
        stop_signal: None,
        image_mounts: BTreeMap::new(),
    };
    Bench { root, status }
}

impl Bench {
    fn message(&self, content: impl AsRef<[u8]>) {
        fs::write(self.root.path().join("message"), content).unwrap();
    }

    fn log(&self, lines: impl IntoIterator<Item = String>) {
        let lines = lines.into_iter().map(|l| format!("2025-01-02T03:04:05.678Z stdout F {l}\n"));
        fs::write(self.root.path().join("0.log"), lines.collect::<String>()).unwrap();
    }
}

#[test]
fn the_file_wins_over_the_log_and_the_runtimes_message_is_not_repeated() {
    let mut bench = bench();
    bench.message("no disk\n");
    bench.log(["noise".to_owned()]);
    assert_eq!(termination_message(&bench.status), "no disk\n");
    bench.status.message = "OOM".to_owned();
    assert_eq!(termination_message(&bench.status), "no disk\n");
}

#[test]
fn the_last_bytes_of_a_long_file_are_taken() {
    let bench = bench();
    bench.message(format!("{}{}", "é".repeat(3000), "x"));
    let message = termination_message(&bench.status);
    assert_eq!(message, format!("{}x", "é".repeat(2047)), "the cut character is left out");
}

#[test]
fn an_empty_or_missing_file_gives_way_to_the_end_of_the_log() {
    let mut bench = bench();
    bench.log((0..100).map(|n| format!("line {n}")));
    let message = termination_message(&bench.status);
    assert!(message.starts_with("line 20\n") && message.ends_with("line 99\n"), "{message}");
    bench.message("");
    assert_eq!(termination_message(&bench.status), message);
    bench.status.termination_log = None;
    assert_eq!(termination_message(&bench.status), message);
}

#[test]
fn the_log_is_cut_to_its_last_bytes() {
    let bench = bench();
    bench.log(["a".repeat(3000), "b".repeat(1000), "c".repeat(1000)]);
    let message = termination_message(&bench.status);
    let expected = format!("{}\n{}\n{}\n", "a".repeat(45), "b".repeat(1000), "c".repeat(1000));
    assert_eq!(message, expected);
    assert_eq!(message.len(), MAX_LOG_BYTES);
}

#[test]
fn lines_the_runtime_cut_are_joined_and_garbage_is_left_out() {
    let bench = bench();
    let log = "2025-01-02T03:04:05Z stderr P one \ngarbage\n2025-01-02T03:04:05Z stdout F line\n";
    fs::write(bench.root.path().join("0.log"), log).unwrap();
    assert_eq!(termination_message(&bench.status), "one line\n");
}

#[test]
fn the_log_is_not_read_needlessly() {
    let mut bench = bench();
    bench.log(["noise".to_owned()]);
    bench.status.exit_code = 0;
    assert_eq!(termination_message(&bench.status), "");
    bench.status.exit_code = 128;
    bench.status.reason = "ContainerCannotRun".to_owned();
    assert_eq!(termination_message(&bench.status), "");
    bench.status.reason = "Error".to_owned();
    bench.status.termination_policy = "File".to_owned();
    assert_eq!(termination_message(&bench.status), "");
}

#[test]
fn a_read_error_becomes_the_message() {
    let mut bench = bench();
    let message = termination_message(&bench.status);
    assert!(message.starts_with("Error on reading termination message from logs: No such file"), "{message}");

    let fifo = bench.root.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
    bench.status.termination_log = Some(fifo.to_str().unwrap().to_owned());
    let message = termination_message(&bench.status);
    assert_eq!(message, format!("Error on reading termination log {}: not a regular file", fifo.display()));
}

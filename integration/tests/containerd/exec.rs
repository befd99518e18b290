//! `hostlet exec` on a real containerd: bytes, ends, exit codes and terminals.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use hostlet_integration::real::{Daemon, RealHost};
use hostlet_integration::{Look, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{IDLE, SOON, exec, exec_command, manifest, wait_until_ready};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A host whose pod `app` is idle.
async fn with_app() -> (RealHost, Daemon) {
    let host = RealHost::start().await.unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    host.write_manifest("app.json", &manifest("app", &[("idle", IDLE)])).unwrap();
    wait_until_ready(&daemon, "app").await.unwrap();
    (host, daemon)
}

#[tokio::test]
async fn a_command_runs_in_a_container_and_exits_with_its_code() {
    let (_host, daemon) = with_app().await;
    let done = exec(&daemon, "app", &[], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!((text(&done.stdout).as_str(), text(&done.stderr).as_str()), ("out\n", "err\n"));
    let missing = exec(&daemon, "app", &[], &["/no/such/program"]);
    assert!(
        missing.status.code() == Some(1) && text(&missing.stderr).contains("/no/such/program"),
        "{missing:?}"
    );
    // Without -i there is no input to wait for.
    let done = exec(&daemon, "app", &[], &["cat"]);
    assert!(done.status.success() && done.stdout.is_empty(), "{done:?}");
}

/// How many MiB pass through a command: `HOSTLET_TEST_STREAM_MIB`, or 64.
fn mebibytes() -> usize {
    std::env::var("HOSTLET_TEST_STREAM_MIB").ok().map_or(64, |text| text.parse().unwrap())
}

/// `hostlet exec` in the pod as a word of a shell script.
fn in_script(daemon: &Daemon, flags: &[&str], command: &[&str]) -> String {
    let exec = exec_command(daemon, "app", flags, command);
    let words = [exec.get_program()].into_iter().chain(exec.get_args());
    words.map(|word| format!("'{}'", word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn every_byte_passes_through_both_ways_and_the_input_ends() {
    let (_host, daemon) = with_app().await;
    let (cat, md5sum) = (in_script(&daemon, &["-i"], &["cat"]), in_script(&daemon, &["-i"], &["md5sum"]));
    let size = mebibytes() << 20;
    // Bytes without a short period.
    let bytes =
        format!("openssl enc -aes-128-ctr -nosalt -K 00 -iv 00 </dev/zero 2>/dev/null | head -c {size}");
    let script = format!("{bytes} | md5sum; {bytes} | {cat} | md5sum; {bytes} | {md5sum}");
    let done = Command::new("bash").args(["-c", &script]).output().unwrap();
    let said = text(&done.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| *line == lines[0]), "{done:?}");
}

#[tokio::test]
async fn a_session_outlives_the_daemon() {
    let (host, daemon) = with_app().await;
    let mut session = exec_command(&daemon, "app", &["-i"], &["cat"]);
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, stdout) = (session.stdin.take().unwrap(), session.stdout.take().unwrap());
    let mut stdout = BufReader::new(stdout);
    let mut echo = move |stdin: &mut dyn Write| {
        stdin.write_all(b"hello\n").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(echo(&mut stdin), "hello\n");
    daemon.kill().unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    assert_eq!(echo(&mut stdin), "hello\n");
    drop(stdin);
    assert!(session.wait().unwrap().success());
    drop(daemon);
}

#[tokio::test]
async fn a_terminal_has_the_users_size_and_is_restored() {
    let (_host, daemon) = with_app().await;
    let inner = |command: &str| in_script(&daemon, &["-it"], &["sh", "-c", command]);
    // The size arrives while the command already runs, as with kubectl.
    let has_size = "[ \"$(stty size 2>/dev/null)\" = \"31 101\" ]";
    let sized = format!(
        "tries=0; until {has_size} || [ $((tries+=1)) -gt 100 ]; do sleep 0.1; done; stty size; exit 9"
    );
    let size = inner(&sized);
    let killed = inner("kill -9 $$");
    let script = format!(
        "stty rows 31 cols 101; stty -g; {size}; echo code $?; {killed}; echo code $?; stty -g; stty size"
    );
    // `script` gives it a terminal, and input that does not end.
    let mut session = Command::new("script");
    session.args(["--quiet", "--return", "--command", &script, "/dev/null"]);
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = session.stdin.take();
    let done = session.wait_with_output().unwrap();
    drop(stdin);
    let said = text(&done.stdout).replace('\r', "");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1..4], ["31 101", "code 9", "code 137"], "{said}");
    assert!(lines[0] == lines[4] && lines[5] == "31 101", "{said}");
}

fn send(signal: Signal, pid: u32) {
    kill(Pid::from_raw(pid.try_into().unwrap()), signal).unwrap();
}

#[tokio::test]
async fn a_signal_ends_the_session_and_the_input_of_its_command() {
    let (_host, daemon) = with_app().await;
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        let script = format!("cat; touch /tmp/{code}");
        let mut session = exec_command(&daemon, "app", &["-i"], &["sh", "-c", &script]);
        let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, stdout) = (session.stdin.take().unwrap(), session.stdout.take().unwrap());
        stdin.write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "hello\n");
        send(signal, session.id());
        assert_eq!(session.wait().unwrap().code(), Some(code), "{signal}");
        let file = format!("/tmp/{code}");
        wait_for("the input of the command has ended", SOON, async || {
            let found = exec(&daemon, "app", &[], &["test", "-e", &file]);
            Ok(if found.status.success() { Look::Done(()) } else { Look::NotYet(format!("{found:?}")) })
        })
        .await
        .unwrap();
        // This process's end of it was open all the time.
        drop(stdin);
    }
}

#[tokio::test]
async fn a_terminal_is_restored_after_a_signal() {
    let (_host, daemon) = with_app().await;
    let session = in_script(&daemon, &["-it"], &["sh", "-c", "echo up; sleep 100000"]);
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGQUIT, 131), (Signal::SIGTERM, 143)] {
        let script = format!("stty -g; sh -c 'echo pid $$; exec \"$@\"' sh {session}; echo code $?; stty -g");
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--command", &script, "/dev/null"]);
        let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap().replace('\r', "");
        let before = next();
        let pid = next();
        let pid = pid.strip_prefix("pid ").unwrap_or_else(|| panic!("{pid}"));
        assert_eq!(next(), "up");
        send(signal, pid.parse().unwrap());
        assert_eq!([next(), next()], [format!("code {code}"), before], "{signal}");
        terminal.wait().unwrap();
    }
}

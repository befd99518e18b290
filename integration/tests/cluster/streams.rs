//! kubectl's streams through the API server, with each of its protocols: WebSockets and SPDY.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use hostlet_integration::cluster::{Agent, Tenant};
use hostlet_integration::{Look, wait_for};
use serde_json::json;

use crate::support::{IDLE, SOON, pod, run};

/// The variables that choose kubectl's protocols.
const WEBSOCKETS: [&str; 2] = ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS", "KUBECTL_PORT_FORWARD_WEBSOCKETS"];

/// Bytes that pass through a command each way; `HOSTLET_TEST_STREAM_MIB` sets another number.
fn bytes() -> Vec<u8> {
    let mebibytes = std::env::var("HOSTLET_TEST_STREAM_MIB").ok().map_or(16, |text| text.parse().unwrap());
    // No period shorter than a buffer.
    (0..mebibytes << 17)
        .flat_map(|word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .collect()
}

/// kubectl in the tenant's namespace, with WebSockets or with SPDY.
fn kubectl(tenant: &Tenant, has_websockets: bool, args: &[&str]) -> Command {
    let mut command = tenant.cluster().kubectl_command().unwrap();
    command.args(["--namespace", tenant.namespace()]).args(args);
    command.envs(WEBSOCKETS.map(|name| (name, has_websockets.to_string())));
    command.stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command with this input.
fn with_input(mut command: Command, input: Vec<u8>) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    // A command may end before it has read everything.
    drop(writing.join().unwrap());
    output
}

#[tokio::test]
async fn commands_print_apart_exit_with_their_codes_and_see_the_end_of_their_input() {
    let tenant = Tenant::new("exec", 1).await.unwrap();
    run(&tenant, pod("app", IDLE)).await.unwrap();
    let input = bytes();
    for has_websockets in [true, false] {
        let exec = |flags: &[&str], command: &[&str]| {
            kubectl(&tenant, has_websockets, &[&["exec", "app"][..], flags, &["--"], command].concat())
        };
        let done = exec(&[], &["sh", "-c", "echo out; echo err >&2; exit 7"]).output().unwrap();
        assert_eq!(done.status.code(), Some(7), "{done:?}");
        assert_eq!(text(&done.stdout), "out\n", "{done:?}");
        let stderr = "err\ncommand terminated with exit code 7\n";
        assert_eq!(text(&done.stderr), stderr, "{done:?}");
        let missing = exec(&[], &["/no/such/program"]).output().unwrap();
        let said = text(&missing.stderr);
        assert!(!missing.status.success() && said.contains("/no/such/program"), "{said}");
        let copied = with_input(exec(&["-i"], &["cat"]), input.clone());
        assert!(copied.status.success() && copied.stdout == input, "{:?}", text(&copied.stderr));
        let counted = with_input(exec(&["-i"], &["wc", "-c"]), input.clone());
        assert_eq!(text(&counted.stdout).trim(), input.len().to_string(), "{counted:?}");
        let nowhere = exec(&["-c", "other"], &["ls"]).output().unwrap();
        assert!(!nowhere.status.success(), "{nowhere:?}");
    }
}

#[tokio::test]
async fn a_client_attaches_to_the_process_of_a_container_and_copies_files() {
    let tenant = Tenant::new("attach", 1).await.unwrap();
    let mut object = pod("app", "while read line; do echo got $line; done");
    object["spec"]["containers"][0]["stdin"] = json!(true);
    run(&tenant, object).await.unwrap();
    for has_websockets in [true, false] {
        let mut attached = kubectl(&tenant, has_websockets, &["attach", "app", "-i", "--quiet"]);
        let mut attached = attached.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = attached.stdin.take().unwrap();
        stdin.write_all(format!("line {has_websockets}\n").as_bytes()).unwrap();
        let mut lines = BufReader::new(attached.stdout.take().unwrap()).lines();
        let expected = format!("got line {has_websockets}");
        let got = lines.find(|line| line.as_ref().is_ok_and(|line| *line == expected));
        assert!(got.is_some(), "{expected:?} was not printed");
        end(attached);

        let dir = tempfile::tempdir().unwrap();
        let (there, back) = (dir.path().join("there"), dir.path().join("back"));
        let input = bytes();
        std::fs::write(&there, &input).unwrap();
        for (from, to) in
            [(there.to_str().unwrap(), "app:/tmp/file"), ("app:/tmp/file", back.to_str().unwrap())]
        {
            let copied = kubectl(&tenant, has_websockets, &["cp", from, to]).output().unwrap();
            assert!(copied.status.success(), "{copied:?}");
        }
        assert!(std::fs::read(&back).unwrap() == input, "another file came back");
    }
}

/// Ends a kubectl.
fn end(mut kubectl: Child) {
    kubectl.kill().unwrap();
    kubectl.wait().unwrap();
}

/// Forwards a port of the pod `web`. Returns kubectl and the local port.
fn forward(tenant: &Tenant, has_websockets: bool, port: u16) -> (Child, u16) {
    let mut forwarded = kubectl(tenant, has_websockets, &["port-forward", "web", &format!(":{port}")]);
    let mut forwarded = forwarded.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(forwarded.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let local = said.split(" -> ").next().and_then(|from| from.rsplit(':').next());
    let local = local.unwrap_or_default().parse().unwrap_or_else(|_| panic!("{said:?}"));
    (forwarded, local)
}

/// Requests a path at a forwarded port.
fn request(port: u16, path: &str) -> TcpStream {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    connection.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
    connection
}

/// The number of bytes until the end of a connection.
fn read_all(connection: &mut TcpStream) -> usize {
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    answer.len()
}

#[tokio::test]
async fn many_connections_are_forwarded_and_one_that_is_cut_ends_no_other() {
    const CONNECTIONS: usize = 200;
    let tenant = Tenant::new("forward", 1).await.unwrap();
    let server = "mkdir /www; head -c 100000 /dev/zero | tr '\\0' x >/www/page; exec httpd -f -p 80 -h /www";
    run(&tenant, pod("web", server)).await.unwrap();
    for has_websockets in [true, false] {
        let (forwarded, port) = forward(&tenant, has_websockets, 80);
        let fetch = move || read_all(&mut request(port, "/page"));
        let whole = fetch();
        assert!(whole > 100_000, "{whole} bytes");
        let fetching: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                std::thread::spawn(move || {
                    // Every third client leaves before its answer.
                    if number % 3 == 0 {
                        drop(request(port, "/page"));
                        return None;
                    }
                    Some(fetch())
                })
            })
            .collect();
        for fetched in fetching {
            let fetched = fetched.join().unwrap();
            assert!(fetched.is_none_or(|bytes| bytes == whole), "{fetched:?} of {whole} bytes");
        }
        assert_eq!(fetch(), whole);
        end(forwarded);
    }
}

#[tokio::test]
async fn a_connection_that_is_reset_ends_no_other_of_its_port_forward() {
    let tenant = Tenant::new("resets", 1).await.unwrap();
    // `/cat` repeats what it gets. `/reset` is closed with a part of the request unread, which resets the connection.
    let server = r#"printf '#!/bin/sh\nread -r get path http
        case $path in /cat) exec cat;; /reset) ;; *) read -r end;; esac
        head -c 100000 /dev/zero; sleep 0.2' >/serve; chmod +x /serve; exec nc -ll -p 80 -e /serve"#;
    run(&tenant, pod("web", server)).await.unwrap();
    let is_stock = tenant.nodes[0].agent() == Agent::Stock;
    for has_websockets in [true, false] {
        let (forwarded, port) = forward(&tenant, has_websockets, 80);
        let mut steady = request(port, "/cat");
        // The end of its own request comes first.
        steady.read_exact(&mut [0; 2]).unwrap();
        let mut assert_works = || {
            steady.write_all(b"hello").unwrap();
            let mut bytes = [0; 5];
            steady.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");
        };
        assert_works();
        for _ in 0..5 {
            // By the client: what it has not read is lost.
            let mut reset = request(port, "/page");
            reset.read_exact(&mut [0; 1000]).unwrap();
            drop(reset);
            assert_works();
            // With the stock kubelet, kubectl ends them all after the runtime's report.
            if !is_stock {
                assert!(read_all(&mut request(port, "/reset")) > 1_000);
                assert_works();
            }
        }
        end(forwarded);
    }
}

#[tokio::test]
async fn nothing_of_many_sessions_remains() {
    // Thousands prove more, and take minutes.
    let sessions = std::env::var("HOSTLET_TEST_SESSIONS").ok().map_or(60, |text| text.parse().unwrap());
    let tenant = Tenant::new("sessions", 1).await.unwrap();
    run(&tenant, pod("app", IDLE)).await.unwrap();
    let node = &tenant.nodes[0];
    let pid = node.agent_pid().unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let exec = |has_websockets| {
        let done = kubectl(&tenant, has_websockets, &["exec", "app", "--", "true"]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    // The connections of the API server are there.
    exec(true);
    let before = descriptors();
    for number in 0..sessions {
        exec(number % 2 == 0);
    }
    wait_for("the descriptors of the sessions are closed", SOON, async || {
        let now = descriptors();
        Ok(if now <= before + 2 { Look::Done(()) } else { Look::NotYet(format!("{now}, before {before}")) })
    })
    .await
    .unwrap();
}

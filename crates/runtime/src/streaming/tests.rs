//! Sessions with a streaming server in this process, over real connections.

use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::{StreamExt, future::join, stream};
use http::{HeaderMap, Method};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::fake::{AGREED, answer, serve};
use super::{Answer, Ended, Input, Output, StreamUrl, StreamingError, TerminalSize, remote_command, upgrade};
use crate::cri::fake::Exec;
use crate::cri::{ExecOutput, StdStreams};

const PATIENCE: Duration = Duration::from_secs(60);

const ALL: StdStreams = StdStreams { stdin: true, stdout: true, stderr: true, tty: false };

/// Runs a client at the URL of a server, and the server on its only connection.
async fn with_server<T, S: Future<Output = ()>>(
    client: impl AsyncFnOnce(StreamUrl) -> T,
    server: impl FnOnce(TcpStream) -> S,
) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = StreamUrl::parse(&format!("http://{}/exec/token", listener.local_addr().unwrap())).unwrap();
    let serving = async { server(listener.accept().await.unwrap().0).await };
    timeout(PATIENCE, join(client(url), serving)).await.unwrap().0
}

/// Runs a command that does `exec` with this input. Returns its output and how it ended.
async fn run(
    streams: StdStreams,
    exec: Exec,
    input: Vec<Input>,
) -> (Vec<Output>, Result<Ended, StreamingError>) {
    let client = async |url: StreamUrl| {
        let (sender, printed) = mpsc::channel(0);
        let input = stream::iter(input).chain(stream::pending());
        let ran = async { remote_command(&url, streams, input, sender).await };
        let (ended, printed) = join(ran, printed.collect()).await;
        (printed, ended)
    };
    with_server(client, async |io| serve(io, streams, &exec).await).await
}

fn exec(stdout: &str, stderr: &str, exit_code: i32) -> Exec {
    let output = ExecOutput { stdout: stdout.into(), stderr: stderr.into(), exit_code };
    Exec { takes: Duration::ZERO, output }
}

fn bytes_of(outputs: Vec<Output>) -> (Vec<u8>, Vec<u8>) {
    let mut all = (Vec::new(), Vec::new());
    for output in outputs {
        match output {
            Output::Stdout(bytes) => all.0.extend(bytes),
            Output::Stderr(bytes) => all.1.extend(bytes),
        }
    }
    all
}

#[tokio::test]
async fn a_command_reads_prints_and_exits() {
    let input = vec![Input::Stdin(Bytes::from_static(b"in ")), Input::StdinEnd];
    let (printed, ended) = run(ALL, exec("out", "err", 42), input).await;
    assert_eq!(ended.unwrap(), Ended::Exited(42));
    assert_eq!(bytes_of(printed), (b"in out".to_vec(), b"err".to_vec()));
    let only_stderr = StdStreams { stdin: false, stdout: false, ..ALL };
    let (printed, ended) = run(only_stderr, exec("out", "err", 0), Vec::new()).await;
    assert_eq!(ended.unwrap(), Ended::Succeeded);
    assert_eq!(bytes_of(printed), (Vec::new(), b"err".to_vec()));
}

#[tokio::test]
async fn a_terminal_has_a_size_and_one_output() {
    let size = |width, height| Input::Resize(TerminalSize { width, height });
    let input = vec![size(80, 24), size(100, 30), Input::StdinEnd];
    let (printed, ended) = run(StdStreams { tty: true, ..ALL }, exec("", "err", 0), input).await;
    assert_eq!(ended.unwrap(), Ended::Succeeded);
    let sizes = br#"{"Width":80,"Height":24}{"Width":100,"Height":30}"#;
    assert_eq!(bytes_of(printed), (sizes.to_vec(), Vec::new()));
}

#[tokio::test]
async fn megabytes_pass_both_ways_while_the_client_reads_slowly() {
    const CHUNKS: usize = 300;
    let chunk = Bytes::from(vec![b'x'; 64 << 10]);
    let mut input: Vec<Input> = (0..CHUNKS).map(|_| Input::Stdin(chunk.clone())).collect();
    input.push(Input::StdinEnd);
    let (printed, ended) = run(ALL, exec("end", "", 0), input).await;
    assert_eq!(ended.unwrap(), Ended::Succeeded);
    assert_eq!(bytes_of(printed).0.len(), CHUNKS * chunk.len() + 3);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_session() {
    let slow = Exec { takes: PATIENCE * 2, ..exec("", "", 0) };
    // Its input ends, or its output fails.
    let has_left = Notify::new();
    let by_input = async |url: StreamUrl| {
        let ended = remote_command(&url, ALL, stream::iter([Input::StdinEnd]), futures::sink::drain()).await;
        has_left.notify_one();
        ended
    };
    let server =
        async |io| tokio::select! { () = serve(io, ALL, &slow) => {} () = has_left.notified() => {} };
    assert_eq!(with_server(by_input, server).await.unwrap(), Ended::Left);
    let by_output = async |url: StreamUrl| {
        let (sender, receiver) = mpsc::channel(0);
        drop(receiver);
        let input = stream::iter([Input::Stdin(Bytes::from_static(b"x"))]).chain(stream::pending());
        remote_command(&url, ALL, input, sender).await
    };
    let ended = with_server(by_output, async |io| serve(io, ALL, &slow).await).await;
    assert_eq!(ended.unwrap(), Ended::Left);
}

#[tokio::test]
async fn a_lost_connection_is_no_success() {
    let client = async |url: StreamUrl| {
        let input = stream::pending();
        remote_command(
            &url,
            StdStreams { stdout: true, ..StdStreams::default() },
            input,
            futures::sink::drain(),
        )
        .await
    };
    let dies_after_opening = async |mut io: TcpStream| {
        answer(&mut io, AGREED).await;
        let mut server = crate::spdy::fake::FakeServer::new(io);
        for _ in 0..2 {
            if let Some(crate::spdy::fake::Event::Open { stream, .. }) = server.next().await {
                server.accept(stream).await;
            }
        }
    };
    let lost = with_server(client, dies_after_opening).await.unwrap_err();
    assert!(matches!(lost, StreamingError::Lost), "{lost:?}");
    let dies_before = async |mut io: TcpStream| drop(answer(&mut io, AGREED).await);
    let lost = with_server(client, dies_before).await.unwrap_err();
    assert!(matches!(lost, StreamingError::Open(_)), "{lost:?}");
}

#[tokio::test]
async fn a_refusal_has_the_servers_text() {
    let client = async |url: StreamUrl| {
        remote_command(&url, ALL, stream::pending(), futures::sink::drain()).await.unwrap_err()
    };
    let refuses = async |mut io: TcpStream| {
        let text = "HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\n\r\n404 page not found\n";
        let head = answer(&mut io, text).await;
        assert!(head.starts_with("POST /exec/token HTTP/1.1\r\n"), "{head}");
        let head = head.to_lowercase();
        for line in
            ["connection: upgrade", "upgrade: spdy/3.1", "x-stream-protocol-version: v4.channel.k8s.io"]
        {
            assert!(head.contains(line), "{head}");
        }
    };
    let error = with_server(client, refuses).await;
    assert_eq!(error.to_string(), "unable to upgrade connection: 404 page not found");
}

#[tokio::test]
async fn bytes_after_the_answer_are_not_lost() {
    use tokio::io::AsyncReadExt;
    let client = async |url: StreamUrl| {
        let answer = upgrade(&url, Method::GET, HeaderMap::new()).await.unwrap();
        let Answer::Switched { headers, mut io } = answer else { panic!("refused") };
        assert_eq!(headers["upgrade"], "SPDY/3.1");
        let mut text = String::new();
        io.read_to_string(&mut text).await.unwrap();
        text
    };
    let server = async |mut io: TcpStream| drop(answer(&mut io, &format!("{AGREED}first bytes")).await);
    assert_eq!(with_server(client, server).await, "first bytes");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_server_that_never_answers() {
    let client = async |url: StreamUrl| upgrade(&url, Method::GET, HeaderMap::new()).await.unwrap_err();
    let silent = async |io: TcpStream| {
        tokio::time::sleep(Duration::from_secs(31)).await;
        drop(io);
    };
    let error = with_server(client, silent).await;
    assert_eq!(error.to_string(), "the container runtime's streaming server has not answered within 30s");
}

//! A runtime's streaming server, for one session. For tests; never in the daemon.

use std::collections::HashMap;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::cri::StdStreams;
use crate::cri::fake::Exec;
use crate::spdy::fake::{Event, FakeServer};

/// Reads the head of a request, and answers it with `answer`. Returns the head.
pub async fn answer<T: AsyncRead + AsyncWrite + Unpin>(io: &mut T, answer: &str) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // A client that has left sends no more.
        let Ok(byte) = io.read_u8().await else { break };
        head.push(byte);
    }
    let _ = io.write_all(answer.as_bytes()).await;
    String::from_utf8_lossy(&head).into_owned()
}

/// The answer that agrees to a client's protocol.
pub const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
    X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";

/// Serves a command over `io`: agrees to the upgrade, prints each size of the terminal and repeats its input until that ends, then does
/// what `exec` says.
pub async fn serve<T: AsyncRead + AsyncWrite + Unpin>(mut io: T, streams: StdStreams, exec: &Exec) {
    answer(&mut io, AGREED).await;
    let mut server = FakeServer::new(io);
    let mut open: HashMap<String, u32> = HashMap::new();
    let others = [streams.stdin, streams.stdout, streams.stderr && !streams.tty, streams.tty];
    while open.len() < 1 + others.into_iter().filter(|is_wanted| *is_wanted).count() {
        let Some(event) = server.next().await else { return };
        if let Event::Open { stream, headers } = event {
            server.accept(stream).await;
            open.extend(headers.into_iter().next().map(|(_, kind)| (kind, stream)));
        }
    }
    let is = |kind: &str, stream| open.get(kind) == Some(&stream);
    let mut is_reading = streams.stdin;
    while is_reading {
        let Some(event) = server.next().await else { return };
        let Event::Data { stream, data, is_last } = event else { continue };
        if let Some(stdout) = open.get("stdout").filter(|_| is("stdin", stream) || is("resize", stream)) {
            server.send(*stdout, &data, false).await;
        }
        is_reading = !(is("stdin", stream) && is_last);
    }
    tokio::time::sleep(exec.takes).await;
    for (kind, printed) in [("stdout", &exec.output.stdout), ("stderr", &exec.output.stderr)] {
        if let Some(stream) = open.get(kind) {
            server.send(*stream, printed, true).await;
        }
    }
    if let Some(error) = open.get("error") {
        server.send(*error, report(exec.output.exit_code).as_bytes(), true).await;
    }
    // A client disconnects once it has read everything.
    while server.next().await.is_some() {}
}

/// The report of an exit code.
fn report(code: i32) -> String {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"}).to_string();
    }
    let causes = json!([{"reason": "ExitCode", "message": code.to_string()}]);
    let message = format!("command terminated with non-zero exit code: {code}");
    json!({
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": message,
        "details": {"causes": causes},
    })
    .to_string()
}

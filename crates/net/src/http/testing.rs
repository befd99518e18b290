//! Servers on the loopback interface that answer as scripted.

#![allow(
    clippy::unwrap_used,
    reason = "what fails in a test is to fail the test; clippy knows only cfg(test)"
)]

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What a server does after its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Close,
    Hang,
}

/// A server; it ends with this value.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<()>,
}

impl Server {
    /// Answers the requests, each on its own connection, in this order; the last answer is repeated.
    pub async fn answering(answers: Vec<Vec<u8>>, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut server = Self { port, requests: Arc::default(), tasks: JoinSet::new() };
        let requests = server.requests.clone();
        server.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for index in 0.. {
                let (connection, _) = listener.accept().await.unwrap();
                let answer = answers[index.min(answers.len() - 1)].clone();
                connections.spawn(converse(connection, answer, then, requests.clone()));
            }
        });
        server
    }

    /// Answers one request each with this text.
    pub async fn saying(answer: &str) -> Self {
        Self::answering(vec![answer.as_bytes().to_vec()], Then::Close).await
    }

    /// Handles each connection with this function.
    pub async fn handling<F: Future<Output = ()> + Send + 'static>(
        handle: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut server = Self { port, requests: Arc::default(), tasks: JoinSet::new() };
        server.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                connections.spawn(handle(connection));
            }
        });
        server
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

/// Reads one request, answers it, and closes or hangs.
pub(crate) async fn converse(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    answer: Vec<u8>,
    then: Then,
    requests: Arc<Mutex<Vec<String>>>,
) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    requests.lock().push(String::from_utf8_lossy(&request).into_owned());
    // The client may have enough before it is all.
    let _ = connection.write_all(&answer).await;
    let _ = connection.flush().await;
    match then {
        Then::Close => drop(connection.shutdown().await),
        Then::Hang => std::future::pending().await,
    }
}

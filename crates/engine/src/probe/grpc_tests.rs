//! gRPC probes against scripted servers on the loopback interface.

use std::time::Duration;

use bytes::Bytes;
use hostlet_net::http::testing::Server;
use http::Response;

use super::*;

/// How a server answers.
#[derive(Clone, Copy)]
enum Says {
    Status(i32),
    Code(u32, &'static str),
    Http(u16),
    Nothing,
}

async fn server(says: Says) -> Server {
    Server::handling(move |connection| async move {
        let Ok(mut connection) = h2::server::handshake(connection).await else { return };
        let mut kept = Vec::new();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            assert_eq!(request.headers()["user-agent"], "kube-probe/1.37");
            let head = Response::builder().header("content-type", "application/grpc");
            match says {
                Says::Status(status) => {
                    let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                    let message = HealthCheckResponse { status }.encode_to_vec();
                    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
                    body.send_data(Bytes::from([&[0], &length[..], &message].concat()), false).unwrap();
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    body.send_trailers(trailers).unwrap();
                }
                Says::Code(code, message) => {
                    let head = head.header("grpc-status", code).header("grpc-message", message);
                    respond.send_response(head.body(()).unwrap(), true).unwrap();
                }
                Says::Http(status) => {
                    respond
                        .send_response(Response::builder().status(status).body(()).unwrap(), true)
                        .unwrap();
                }
                Says::Nothing => kept.push(respond),
            }
        }
    })
    .await
}

async fn probe(port: u16, limit: Duration) -> Answer {
    let target = GrpcTarget {
        pod: "uid-1".into(),
        host: "127.0.0.1".to_owned(),
        port,
        service: "s".to_owned(),
        tls: false,
    };
    GrpcClient::default().probe(&target, "kube-probe/1.37", limit).await
}

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn answers_are_judged_as_upstream() {
    let no_protocol =
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health):";
    let failed = "error: health rpc probe failed: rpc error: code =";
    for (says, expected) in [
        (Says::Status(2), "service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
        (Says::Status(0), "service unhealthy (responded with \"UNKNOWN\")".to_owned()),
        (Says::Code(12, "unknown service"), format!("{no_protocol} unknown service")),
        (
            Says::Http(404),
            format!("{no_protocol} unexpected HTTP status code received from server: 404 (Not Found)"),
        ),
        (Says::Code(5, "unknown%20service"), format!("{failed} NotFound desc = unknown service")),
        (Says::Code(99, ""), format!("{failed} Code(99) desc = ")),
        (Says::Code(4, ""), "timeout: health rpc did not complete within 30s".to_owned()),
        (
            Says::Http(503),
            format!(
                "{failed} Unavailable desc = unexpected HTTP status code received from server: 503 (Service Unavailable)"
            ),
        ),
    ] {
        assert_eq!(probe(server(says).await.port, LONG).await, Answer::Failure(expected));
    }
    assert_eq!(probe(server(Says::Status(1)).await.port, LONG).await, Answer::Success);
}

#[tokio::test]
async fn a_server_that_is_not_there_or_says_nothing_times_out() {
    let not_connected = |port: u16| {
        let text = format!(
            "timeout: failed to connect service \"127.0.0.1:{port}\" within 200ms: context deadline exceeded"
        );
        Answer::Failure(text)
    };
    let free = server(Says::Nothing).await.port;
    tokio::task::yield_now().await;
    assert_eq!(probe(free, SHORT).await, not_connected(free));
    let silent = Server::handling(|_connection| std::future::pending()).await;
    assert_eq!(probe(silent.port, SHORT).await, not_connected(silent.port));
    let other = Server::saying("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    assert_eq!(probe(other.port, SHORT).await, not_connected(other.port));
    let slow = server(Says::Nothing).await;
    let text = "timeout: health rpc did not complete within 200ms".to_owned();
    assert_eq!(probe(slow.port, SHORT).await, Answer::Failure(text));
}

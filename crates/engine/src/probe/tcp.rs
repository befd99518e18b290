//! `tcpSocket` probes: success is a connection.

use std::time::Duration;

use hostlet_base::{PodUid, join_host_port};
use hostlet_net::http::PodDialer;
use tokio::time::timeout;

use super::answer::Answer;

/// Probes a port for a pod.
pub(super) async fn probe(
    dialer: &PodDialer,
    pod: &PodUid,
    host: &str,
    port: u16,
    limit: Duration,
) -> Answer {
    match timeout(limit, dialer.dial(pod, host, port)).await {
        Ok(Ok(_)) => Answer::Success,
        Ok(Err(error)) => Answer::Failure(error.to_string()),
        Err(_) => Answer::Failure(format!("dial tcp {}: i/o timeout", join_host_port(host, port))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[tokio::test]
    async fn a_connection_is_success_and_a_full_backlog_a_timeout() {
        let second = Duration::from_secs(1);
        let (dialer, pod) = (PodDialer::default(), PodUid::from("uid-1"));
        let probe = async |host, port, limit| probe(&dialer, &pod, host, port, limit).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(probe("127.0.0.1", port, second).await, Answer::Success);
        drop(listener);
        let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
        assert_eq!(probe("127.0.0.1", port, second).await, Answer::Failure(refused));

        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let full = socket.listen(0).unwrap();
        let port = full.local_addr().unwrap().port();
        let _first = dialer.dial(&pod, "127.0.0.1", port).await.unwrap();
        let text = format!("dial tcp 127.0.0.1:{port}: i/o timeout");
        assert_eq!(probe("127.0.0.1", port, Duration::from_millis(50)).await, Answer::Failure(text));
    }
}

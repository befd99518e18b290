//! TCP connections of probes and hooks, and the texts of their errors, which equal those of Go's `net`.
//!
//! Without upstream's SO_LINGER of a second: on Linux it changes nothing about TIME_WAIT, and lets `close` block the thread
//! (docs/decisions.md).

use std::io;
use std::net::{IpAddr, SocketAddr};

use nix::errno::Errno;
use tokio::net::TcpStream;

use hostlet_base::PodUid;
use hostlet_host::NameLookups;

/// Why there is no connection. `Display` is Go's text where it has one for the case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The name has no address.
    #[error("dial tcp: lookup {0}: no such host")]
    Lookup(String),
    /// The address does not take it.
    #[error("dial tcp {address}: {text}")]
    Dial {
        /// The address and port that the name resolved to.
        address: SocketAddr,
        /// Go's text of the system's error.
        text: String,
    },
    /// No TLS configuration could be made.
    #[error("tls: {0}")]
    Config(String),
    /// No certificate can be for the host's name.
    #[error("tls: {0}")]
    ServerName(String),
    /// The server does not speak TLS, but HTTP.
    #[error("http: server gave HTTP response to HTTPS client")]
    NoTls,
    /// The server closed the connection before TLS was negotiated.
    #[error("EOF")]
    Closed,
    /// The connection broke before that.
    #[error("{0}")]
    Broken(String),
    /// TLS could not be negotiated.
    #[error("tls: {0}")]
    Handshake(String),
}

/// Makes connections to pods and what they name. Clones share the lookups of names.
#[derive(Clone, Debug, Default)]
pub struct PodDialer {
    names: NameLookups,
}

impl PodDialer {
    /// Connects for a probe or hook of a pod. A lookup that hangs goes on when the future is dropped.
    pub async fn dial(&self, pod: &PodUid, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
        let failed = |address, error: &io::Error| ConnectError::Dial { address, text: connect_error(error) };
        if let Ok(ip) = host.parse::<IpAddr>() {
            let address = SocketAddr::new(ip, port);
            return TcpStream::connect(address).await.map_err(|error| failed(address, &error));
        }
        let found = self.names.lookup(pod.as_str(), host).await;
        let found = found.map_err(|_| ConnectError::Lookup(host.to_owned()))?;
        let mut last = ConnectError::Lookup(host.to_owned());
        for ip in found.iter() {
            let address = SocketAddr::new(*ip, port);
            match TcpStream::connect(address).await {
                Ok(connected) => return Ok(connected),
                Err(error) => last = failed(address, &error),
            }
        }
        Err(last)
    }
}

/// Go's text of a failed `connect`.
fn connect_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("connect: {}", errno_text(number)),
        None => error.to_string(),
    }
}

/// Go's text of an error number: the C library's, in lower case.
pub(super) fn errno_text(number: i32) -> String {
    Errno::from_raw(number).desc().to_lowercase()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn names_that_hang_leave_the_threads_for_files_free() {
        let (release, hang) = mpsc::channel::<()>();
        let hang = Mutex::new(hang);
        let names = NameLookups::new(move |_| {
            let _ = hang.lock().recv();
            Ok(Vec::new())
        });
        let dialer = PodDialer { names };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for pod in 0..20 {
                let uid = PodUid::from(format!("uid-{pod}"));
                let dialed = dialer.dial(&uid, "tarpit.example", 80);
                assert!(timeout(Duration::from_millis(1), dialed).await.is_err());
            }
            let file_work = tokio::task::spawn_blocking(|| 7);
            assert_eq!(timeout(Duration::from_secs(60), file_work).await.unwrap().unwrap(), 7);
        });
        drop(release);
    }

    #[tokio::test]
    async fn errors_are_those_of_go() {
        let dialer = PodDialer::default();
        let dial = async |host: &str, port| dialer.dial(&"uid-1".into(), host, port).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(dial("127.0.0.1", port).await.is_ok() && dial("localhost", port).await.is_ok());
        drop(listener);
        let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
        assert_eq!(dial("127.0.0.1", port).await.unwrap_err().to_string(), refused);
        assert_eq!(
            dial("no.such.invalid", 1).await.unwrap_err().to_string(),
            "dial tcp: lookup no.such.invalid: no such host"
        );
    }
}

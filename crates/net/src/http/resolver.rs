//! The names of servers and proxies for hyper's connector, looked up on threads of their own: hyper's own resolver would take those for
//! file work, one for each connection that is tried while no name server answers.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceExt};

use hostlet_host::NameLookups;

/// The owner of these lookups, beside the pods.
const OWNER: &str = "daemon";

/// Makes TCP connections to names and addresses.
pub(super) type TcpConnector = HttpConnector<Resolver>;

/// A connector for others than the API server's client.
pub fn tcp_dialer() -> BoxService<Uri, TokioIo<TcpStream>, BoxError> {
    Resolver::default().connector().map_err(BoxError::from).boxed()
}

/// Resolves names. Clones share the lookups.
#[derive(Clone, Debug, Default)]
pub struct Resolver(NameLookups);

impl Resolver {
    /// A connector for any scheme.
    pub fn connector(&self) -> TcpConnector {
        let mut tcp = HttpConnector::new_with_resolver(self.clone());
        tcp.enforce_http(false);
        tcp
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let lookups = self.0.clone();
        Box::pin(async move {
            let found = lookups.lookup(OWNER, name.as_str()).await?;
            // The connector sets the port.
            Ok(found.iter().map(|ip| SocketAddr::new(*ip, 0)).collect::<Vec<_>>().into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_name_is_connected_to_at_the_port_of_the_url() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connector = Resolver::default().connector();
        connector.oneshot(format!("https://localhost:{port}").parse().unwrap()).await.unwrap();
        let error = Resolver::default().connector().oneshot("http://no.such.invalid".parse().unwrap()).await;
        assert!(error.unwrap_err().to_string().contains("dns error"));
    }
}

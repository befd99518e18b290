//! Clients of HTTP for servers that hostlet does not know: one GET of an address that a pod names, and documents of URLs in the
//! configuration; and the ways to a server that the API server's client uses, too: proxies, lookups of names. What an answer means is the
//! caller's matter.

mod basic;
mod dial;
mod exchange;
mod fetch;
mod get;
#[cfg(test)]
mod get_tests;
mod headers;
mod proxy;
mod resolver;
mod stream;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;

pub use dial::{ConnectError, PodDialer};
pub use exchange::{alongside, read_stream};
pub use fetch::{FetchError, Fetcher};
pub use get::{HttpAnswer, HttpClient, HttpError, HttpProtocol, HttpRequest, unverified};
pub use proxy::{Proxy, ProxyDialer, ProxyEnvironment, ProxyError};
pub use resolver::{Resolver, tcp_dialer};
pub use stream::{Stream, Watched};

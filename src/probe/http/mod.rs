//! A client for one GET of an address that a pod names, as Go's `net/http` makes it for probes and hooks of the stock kubelet: a connection of
//! its own that ends with the answer, no proxy, no verification of certificates, HTTP/2 if TLS negotiates it, redirects on the same host, and
//! the texts of Go's errors. What an answer means is the caller's matter.

mod exchange;
mod get;
#[cfg(test)]
mod get_tests;
mod headers;
mod stream;

pub(super) use exchange::{alongside, read_stream};
pub(super) use get::unverified;
pub use get::{HttpAnswer, HttpClient, HttpError, HttpProtocol, HttpRequest};
pub(super) use stream::{Stream, Watched};

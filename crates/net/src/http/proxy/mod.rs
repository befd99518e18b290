//! Proxies between this node and a server: which one is used, by Go's rules, and connections through it. Knows no request.

mod address;
mod dialer;
mod environment;
mod no_proxy;

pub use address::{Proxy, ProxyError};
pub use dialer::ProxyDialer;
pub use environment::ProxyEnvironment;

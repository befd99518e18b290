//! Proxies between this node and the API server: which one is used, by client-go's rules, and connections through it. Knows no
//! request.

mod address;
mod dialer;
mod environment;
mod no_proxy;
#[cfg(test)]
mod tests;

pub(in crate::api) use address::Proxy;
pub use address::ProxyError;
pub(in crate::api) use dialer::Dialer;
pub use environment::ProxyEnvironment;

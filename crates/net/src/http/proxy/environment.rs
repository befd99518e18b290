//! The proxy for a server that the environment names, by the rules of Go's HTTP client.

use std::fmt;

use http::Uri;
use http::uri::Scheme;

use super::address::{Proxy, ProxyError};
use super::no_proxy::NoProxy;

/// The proxy variables of the daemon's environment; of each pair, the one in upper case takes precedence.
#[derive(Clone, Default)]
pub struct ProxyEnvironment {
    /// `HTTPS_PROXY`, for servers with TLS.
    pub https: String,
    /// `HTTP_PROXY`, for servers without.
    pub http: String,
    /// `NO_PROXY`: the servers that are reached directly, separated by commas.
    pub no_proxy: String,
}

/// Without the values, which may have passwords.
impl fmt::Debug for ProxyEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyEnvironment").field("no_proxy", &self.no_proxy).finish_non_exhaustive()
    }
}

/// The variable that names an unusable proxy.
pub(super) type Variable = &'static str;

impl ProxyEnvironment {
    /// Reads the environment of this process. Empty values count as unset.
    pub fn of_process() -> Self {
        let read = |name: &str| {
            let value = |name: String| std::env::var(name).ok().filter(|value| !value.is_empty());
            value(name.to_owned()).or_else(|| value(name.to_lowercase())).unwrap_or_default()
        };
        Self { https: read("HTTPS_PROXY"), http: read("HTTP_PROXY"), no_proxy: read("NO_PROXY") }
    }

    /// The proxy for requests to `server`; `None` if it is reached directly.
    ///
    /// # Errors
    /// The variable that applies is unusable. It is returned by its name in upper case.
    pub fn proxy(&self, server: &Uri) -> Result<Option<Proxy>, (Variable, ProxyError)> {
        let is_tls = server.scheme() == Some(&Scheme::HTTPS);
        let (name, text) = if is_tls { ("HTTPS_PROXY", &self.https) } else { ("HTTP_PROXY", &self.http) };
        let port = server.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let host = server.host().unwrap_or_default();
        if text.is_empty() || NoProxy::parse(&self.no_proxy).matches(host, port) {
            return Ok(None);
        }
        Proxy::parse(text).map(Some).map_err(|error| (name, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_depends_on_the_servers_scheme() {
        let environment = ProxyEnvironment {
            https: "p:1".to_owned(),
            http: "ftp://p:2".to_owned(),
            no_proxy: "10.0.0.0/8,other:443".to_owned(),
        };
        let shown = |server: &'static str| {
            let proxy = environment.proxy(&Uri::from_static(server));
            proxy.map(|proxy| proxy.map(|proxy| proxy.to_string())).map_err(|(name, _)| name)
        };
        assert_eq!(shown("https://api.example.com:6443"), Ok(Some("http://p:1".to_owned())));
        assert_eq!(shown("https://10.0.0.1:6443"), Ok(None));
        assert_eq!(shown("https://127.0.0.1:6443"), Ok(None));
        assert_eq!(shown("https://other"), Ok(None));
        assert_eq!(shown("https://other:6443"), Ok(Some("http://p:1".to_owned())));
        assert_eq!(shown("http://api.example.com"), Err("HTTP_PROXY"));
        let none = ProxyEnvironment::default().proxy(&Uri::from_static("https://a")).unwrap();
        assert_eq!(none, None);
    }
}

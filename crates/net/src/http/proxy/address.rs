//! The address of a proxy: its scheme, host, port and credentials. Pure.

use std::fmt;

use http::{HeaderValue, Uri};

use crate::http::basic;

/// Why a text is no address of a usable proxy. Never quotes the text, which may have a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProxyError {
    /// It cannot be parsed.
    #[error("it is not a URL; write it like http://proxy.example.com:3128")]
    Url,
    /// It has another scheme.
    #[error("the scheme {0:?} is not supported; use http, https or socks5")]
    Scheme(String),
    /// Its credentials cannot be sent.
    #[error("its user name or password has characters that HTTP does not permit")]
    Credentials,
}

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// HTTP CONNECT (RFC 9110).
    Http,
    /// HTTP CONNECT over TLS.
    Https,
    /// SOCKS version 5 (RFC 1928); the proxy resolves names.
    Socks5,
}

/// A proxy for HTTP clients. Shown without its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) scheme: Scheme,
    /// Its address, with scheme and port, without credentials.
    pub(super) uri: Uri,
    /// User name and password.
    credentials: Option<(String, String)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Without its credentials.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.uri.to_string();
        f.write_str(uri.trim_end_matches('/'))
    }
}

impl Proxy {
    /// Parses a URL. Without a scheme, it is `http`, as in Go.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let text = text.trim();
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let uri: Uri = with_scheme.parse().map_err(|_| ProxyError::Url)?;
        let (scheme, port) = match uri.scheme_str().unwrap_or_default() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            "socks5" | "socks5h" => (Scheme::Socks5, 1080),
            other => return Err(ProxyError::Scheme(other.to_owned())),
        };
        let authority = uri.authority().ok_or(ProxyError::Url)?;
        let host = authority.host();
        if host.is_empty() {
            return Err(ProxyError::Url);
        }
        let address = format!("{host}:{}", authority.port_u16().unwrap_or(port));
        let plain = Uri::builder().scheme(uri.scheme_str().unwrap_or_default()).authority(address);
        let credentials = basic::credentials_of(authority);
        let proxy = Self {
            scheme,
            uri: plain.path_and_query("/").build().map_err(|_| ProxyError::Url)?,
            credentials,
        };
        if proxy.credentials.is_some() && proxy.authorization().is_none() {
            return Err(ProxyError::Credentials);
        }
        Ok(proxy)
    }

    /// User name and password, if any.
    pub(super) fn credentials(&self) -> Option<(String, String)> {
        self.credentials.clone()
    }

    /// The `Proxy-Authorization` header, if it has credentials.
    pub(super) fn authorization(&self) -> Option<HeaderValue> {
        self.credentials.as_ref().and_then(basic::authorization)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_scheme_and_a_port() {
        for (text, scheme, shown) in [
            ("http://p:3128", Scheme::Http, "http://p:3128"),
            ("p.example.com", Scheme::Http, "http://p.example.com:80"),
            ("10.0.0.1:8080", Scheme::Http, "http://10.0.0.1:8080"),
            ("https://p/", Scheme::Https, "https://p:443"),
            ("socks5://[::1]", Scheme::Socks5, "socks5://[::1]:1080"),
        ] {
            let proxy = Proxy::parse(text).unwrap();
            assert_eq!((proxy.scheme, proxy.to_string().as_str()), (scheme, shown), "{text}");
            assert_eq!(proxy.authorization(), None, "{text}");
        }
        assert_eq!(Proxy::parse("ftp://p"), Err(ProxyError::Scheme("ftp".to_owned())));
        for text in ["", "http://", "http://:80", "http://a b"] {
            assert_eq!(Proxy::parse(text), Err(ProxyError::Url), "{text}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_not_shown() {
        let proxy = Proxy::parse("http://us%40er:p%3Ass@p:3128").unwrap();
        assert_eq!(proxy.credentials(), Some(("us@er".to_owned(), "p:ss".to_owned())));
        assert_eq!(proxy.authorization().unwrap(), "Basic dXNAZXI6cDpzcw==");
        assert_eq!(format!("{proxy} {proxy:?}"), "http://p:3128 Proxy(http://p:3128)");
    }
}

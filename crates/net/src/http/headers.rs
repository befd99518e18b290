//! The headers of a request, in Go's order and with its rules for what a pod's spec may override. Pure.

use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, REFERER, TRAILER, TRANSFER_ENCODING, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use hostlet_base::{HttpScheme, HttpUrl, go_quoted};

/// A header that cannot be sent. `Display` is Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("net/http: invalid header field name {}", go_quoted(.0))]
    Name(String),
    #[error("net/http: invalid header field value for {}", go_quoted(.0))]
    Value(String),
}

/// The headers that a pod's spec and the caller give.
#[derive(Clone, Debug, Default)]
pub(super) struct GivenHeaders {
    /// Sorted by name, without those that the client writes itself.
    others: Vec<(HeaderName, HeaderValue)>,
    /// None removes it.
    user_agent: Option<HeaderValue>,
    /// Instead of the address's.
    host: Option<HeaderValue>,
}

impl GivenHeaders {
    /// Headers by name. An empty `User-Agent` or `Accept` removes that header; `Host` is the host that the request names.
    pub(super) fn new(given: &[(String, String)], user_agent: &str) -> Result<Self, HeaderError> {
        let mut headers = Self { user_agent: HeaderValue::from_str(user_agent).ok(), ..Self::default() };
        let (mut first_agent, mut first_host, mut first_accept) = (None, None, None);
        for (name, value) in given {
            let name_of =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderError::Name(name.clone()))?;
            // Go trims what surrounds a value when it writes it.
            let value = HeaderValue::from_str(value.trim_matches([' ', '\t']))
                .map_err(|_| HeaderError::Value(name.clone()))?;
            if name_of == USER_AGENT {
                first_agent.get_or_insert(value);
            } else if name_of == HOST {
                first_host.get_or_insert(value);
            } else if ![CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER].contains(&name_of) {
                if name_of == ACCEPT {
                    first_accept.get_or_insert(value.clone());
                }
                headers.others.push((name_of, value));
            }
        }
        if let Some(agent) = first_agent {
            headers.user_agent = Some(agent).filter(|agent| !agent.is_empty());
        }
        headers.host = first_host.filter(|host| !host.is_empty());
        match first_accept {
            None => headers.others.push((ACCEPT, HeaderValue::from_static("*/*"))),
            Some(accept) if accept.is_empty() => headers.others.retain(|(name, _)| *name != ACCEPT),
            Some(_) => {}
        }
        headers.others.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        Ok(headers)
    }

    /// The headers without `Authorization`, for a server that was to be asked over TLS and cannot be.
    pub(super) fn without_authorization(mut self) -> Self {
        self.others.retain(|(name, _)| *name != AUTHORIZATION);
        self
    }

    /// The host that a request for `url` names. A redirect to another address, other than a relative one, forgets the given one.
    pub(super) fn host(&self, url: &HttpUrl, keeps_given: bool) -> Option<HeaderValue> {
        let given = self.host.clone().filter(|_| keeps_given);
        given.or_else(|| HeaderValue::from_str(&url.authority()).ok())
    }

    /// The headers of an HTTP/1.1 request, in order.
    pub(super) fn http1(&self, host: HeaderValue, referer: Option<&HttpUrl>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.others.len() + 4);
        headers.insert(HOST, host);
        self.append_to(&mut headers, referer);
        let closes =
            headers.get_all(CONNECTION).iter().any(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        if !closes {
            headers.append(CONNECTION, HeaderValue::from_static("close"));
        }
        headers
    }

    /// The headers of an HTTP/2 request, which has no headers of a connection.
    pub(super) fn http2(&self, referer: Option<&HttpUrl>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(self.others.len() + 2);
        self.append_to(&mut headers, referer);
        for name in ["connection", "proxy-connection", "keep-alive", "upgrade", "te"] {
            headers.remove(name);
        }
        headers
    }

    fn append_to(&self, headers: &mut HeaderMap, referer: Option<&HttpUrl>) {
        if let Some(agent) = &self.user_agent {
            headers.insert(USER_AGENT, agent.clone());
        }
        for (name, value) in &self.others {
            headers.append(name, value.clone());
        }
        let referer = referer.and_then(|from| HeaderValue::from_str(&from.to_string()).ok());
        if let Some(referer) = referer.filter(|_| !headers.contains_key(REFERER)) {
            headers.insert(REFERER, referer);
        }
    }
}

/// The address that a redirect to `to` names as its origin: never one that was asked over TLS to a server without it.
pub(super) fn referer<'u>(from: &'u HttpUrl, to: &HttpUrl) -> Option<&'u HttpUrl> {
    match (from.scheme, to.scheme) {
        (HttpScheme::Https, HttpScheme::Http) => None,
        (HttpScheme::Http | HttpScheme::Https, _) => Some(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(given: &[(&str, &str)]) -> Vec<String> {
        let given: Vec<_> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let headers = GivenHeaders::new(&given, "kube-probe/1.37").unwrap();
        let url = HttpUrl::new(HttpScheme::Http, "10.0.0.1", 80, "/");
        let map = headers.http1(headers.host(&url, true).unwrap(), None);
        map.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_request_has_gos_headers_in_its_order() {
        let standard =
            ["host: 10.0.0.1:80", "user-agent: kube-probe/1.37", "accept: */*", "connection: close"];
        assert_eq!(lines(&[]), standard);
        let given =
            [("X-B", "2"), ("X-A", " 1 "), ("Host", "example.org"), ("X-B", "3"), ("Content-Length", "5")];
        assert_eq!(
            lines(&given),
            [
                "host: example.org",
                "user-agent: kube-probe/1.37",
                "accept: */*",
                "x-a: 1",
                "x-b: 2",
                "x-b: 3",
                "connection: close"
            ]
        );
        let removed = lines(&[("user-agent", ""), ("ACCEPT", ""), ("Connection", "close"), ("Host", "")]);
        assert_eq!(removed, ["host: 10.0.0.1:80", "connection: close"]);
        assert_eq!(lines(&[("User-Agent", "me")])[1], "user-agent: me");
    }

    #[test]
    fn an_invalid_header_is_an_error() {
        let error = |name: &str, value: &str| {
            GivenHeaders::new(&[(name.into(), value.into())], "x").unwrap_err().to_string()
        };
        assert_eq!(error("X", "a\nb"), "net/http: invalid header field value for \"X\"");
        assert_eq!(error("a b", ""), "net/http: invalid header field name \"a b\"");
    }
}

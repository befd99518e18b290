//! The address of a request: what Go makes of the path in a pod's spec, and where a redirect leads. Pure.

use std::fmt;

use super::go_quoted;

/// `host:port`, with brackets around an IPv6 address (Go's `net.JoinHostPort`).
pub fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// A `Location` that leads nowhere. `Display` is Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It is no reference.
    #[error("failed to parse Location header {}", go_quoted(.0))]
    Malformed(String),
    /// It is not HTTP.
    #[error("unsupported protocol scheme {}", go_quoted(.0))]
    Scheme(String),
    /// It names no host.
    #[error("http: no Host in request URL")]
    NoHost,
}

/// The scheme of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpScheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl HttpScheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// An absolute URL. `Display` is Go's `URL.String`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl {
    /// Decides whether TLS is used, and the default port.
    pub scheme: HttpScheme,
    /// Name or address, without brackets.
    pub host: String,
    /// `None` if the URL does not name it.
    port: Option<u16>,
    /// Path and query, escaped.
    pub target: String,
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.as_str(), self.authority(), self.target)
    }
}

impl HttpUrl {
    /// The address of a path on a host, as Go's `url.Parse` and `URL.String` make it: a fragment is dropped, and what must not be in a path is
    /// escaped. A path that is no valid reference is escaped as a whole.
    pub fn new(scheme: HttpScheme, host: &str, port: u16, path: &str) -> Self {
        let (path, query) = match is_valid(path) {
            false => (escape(path.as_bytes()), None),
            true => {
                let reference = path.split('#').next().unwrap_or_default();
                let (path, query) = split_query(reference);
                (normal(without_authority(path)), query)
            }
        };
        Self { scheme, host: host.to_owned(), port: Some(port), target: target(&path, query) }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or_else(|| self.scheme.default_port())
    }

    /// Host and port, as a `Host` header has them.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => join_host_port(&self.host, port),
            None if self.host.contains(':') => format!("[{}]", self.host),
            None => self.host.clone(),
        }
    }

    /// Parses an absolute address. A user and a password in it are left out.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = split_scheme(text)?;
        let absolute = scheme.zip(rest.strip_prefix("//"));
        let (scheme, rest) = absolute.ok_or_else(|| LocationError::Malformed(text.to_owned()))?;
        Self::at_authority(scheme, rest, text)
    }

    /// Where a `Location` leads from here (RFC 3986, section 5.2).
    pub fn join(&self, location: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = split_scheme(location)?;
        if let Some(rest) = rest.strip_prefix("//") {
            return Self::at_authority(scheme.unwrap_or(self.scheme), rest, location);
        }
        let (path, query) = split_query(rest);
        let (own_path, own_query) = split_query(&self.target);
        let (path, query) = match path {
            "" => (own_path.to_owned(), query.or(own_query)),
            _ if path.starts_with('/') => (without_dots(&normal(path)), query),
            _ => {
                let folder = own_path.rfind('/').map_or("/", |slash| &own_path[..=slash]);
                (without_dots(&format!("{folder}{}", normal(path))), query)
            }
        };
        Ok(Self { target: target(&path, query), ..self.clone() })
    }

    /// The address with the authority, path and query in `rest`, which is part of `reference`.
    fn at_authority(scheme: HttpScheme, rest: &str, reference: &str) -> Result<Self, LocationError> {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split_port(authority);
        let malformed = |_| LocationError::Malformed(reference.to_owned());
        let port = port.map(str::parse).transpose().map_err(malformed)?;
        if host.is_empty() {
            return Err(LocationError::NoHost);
        }
        let (path, query) = split_query(rest);
        let path = if path.is_empty() { String::new() } else { without_dots(&normal(path)) };
        Ok(Self { scheme, host: host.to_owned(), port, target: target(&path, query) })
    }
}

/// The scheme of a reference, if it has one, and the rest without its fragment.
fn split_scheme(reference: &str) -> Result<(Option<HttpScheme>, &str), LocationError> {
    if !is_valid(reference) {
        return Err(LocationError::Malformed(reference.to_owned()));
    }
    let reference = reference.split('#').next().unwrap_or_default();
    match scheme_of(reference) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => Ok((Some(HttpScheme::Http), rest)),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => Ok((Some(HttpScheme::Https), rest)),
        Some((scheme, _)) => Err(LocationError::Scheme(scheme.to_lowercase())),
        None => Ok((None, reference)),
    }
}

fn split_query(text: &str) -> (&str, Option<&str>) {
    text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)))
}

fn target(path: &str, query: Option<&str>) -> String {
    let slash = if path.starts_with('/') || path.is_empty() { "" } else { "/" };
    // Nothing else could break the request line.
    let query = query.map(|query| query.replace(' ', "%20"));
    match query {
        Some(query) => format!("{slash}{path}?{query}"),
        None => format!("{slash}{path}"),
    }
}

/// Whether Go's `url.Parse` takes it: no control characters, and every `%` begins an escape.
fn is_valid(reference: &str) -> bool {
    let path = reference.split(['?', '#']).next().unwrap_or_default();
    let escapes = path.split('%').skip(1);
    reference.bytes().all(|byte| byte >= b' ' && byte != 0x7f)
        && escapes
            .map(str::as_bytes)
            .all(|rest| rest.iter().take(2).filter(|b| b.is_ascii_hexdigit()).count() == 2)
}

/// `//host/path` and `scheme://host/path` are the path alone: the request goes to the pod.
fn without_authority(path: &str) -> &str {
    let rest = scheme_of(path).map_or(path, |(_, rest)| rest);
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => path,
    }
}

fn scheme_of(reference: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = reference.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    (is_scheme && rest.starts_with("//")).then_some((scheme, rest))
}

fn split_port(authority: &str) -> (&str, Option<&str>) {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (host, rest.strip_prefix(':').filter(|port| !port.is_empty()));
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
        None => (authority, None),
    }
}

/// A path that is encoded validly is taken as it is; another is decoded and encoded anew (Go's `URL.EscapedPath`).
fn normal(path: &str) -> String {
    let is_fine = |byte: u8| byte == b'%' || is_plain(byte) || b"!'()*[]".contains(&byte);
    if path.bytes().all(is_fine) {
        return path.to_owned();
    }
    let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
    escape(&decoded)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

fn escape(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path {
        match is_plain(*byte) {
            true => escaped.push(char::from(*byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Resolves `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for part in path.split('/').skip(1) {
        ends_in_folder = matches!(part, "." | "..");
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let end = if ends_in_folder && !parts.is_empty() { "/" } else { "" };
    format!("/{}{end}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(path: &str) -> HttpUrl {
        HttpUrl::new(HttpScheme::Http, "10.0.0.1", 8080, path)
    }

    #[test]
    fn a_path_is_what_go_makes_of_it() {
        for (path, expected) in [
            ("/healthz", "/healthz"),
            ("", ""),
            ("healthz", "/healthz"),
            ("/a?b=c&d", "/a?b=c&d"),
            ("/a#b?c", "/a"),
            ("/a b", "/a%20b"),
            ("/a%20b", "/a%20b"),
            ("/é%41", "/%C3%A9A"),
            ("/%zz?x", "/%25zz%3Fx"),
            ("/a?b c", "/a?b%20c"),
            ("//other/x", "/x"),
            ("http://other/x?y", "/x?y"),
        ] {
            assert_eq!(at(path).to_string(), format!("http://10.0.0.1:8080{expected}"), "{path}");
        }
        let v6 = HttpUrl::new(HttpScheme::Https, "fd00::1", 443, "/");
        assert_eq!(v6.to_string(), "https://[fd00::1]:443/");
        assert_eq!([join_host_port("fd00::1", 80), join_host_port("a", 80)], ["[fd00::1]:80", "a:80"]);
    }

    #[test]
    fn a_location_is_resolved() {
        let from = at("/a/b?c");
        for (location, expected) in [
            ("/x/../y/./z", "http://10.0.0.1:8080/y/z"),
            ("d", "http://10.0.0.1:8080/a/d"),
            ("../d/", "http://10.0.0.1:8080/d/"),
            ("..", "http://10.0.0.1:8080/"),
            ("?e", "http://10.0.0.1:8080/a/b?e"),
            ("", "http://10.0.0.1:8080/a/b?c"),
            ("#f", "http://10.0.0.1:8080/a/b?c"),
            ("//h", "http://h"),
            ("https://h/i?j", "https://h/i?j"),
            ("HTTP://u:p@[fd00::1]:81/i", "http://[fd00::1]:81/i"),
        ] {
            assert_eq!(from.join(location).unwrap().to_string(), expected, "{location}");
        }
        let errors = ["ftp://h", "http:///x", "http://h:port/", "/%zz", "/\u{1}"];
        assert_eq!(errors.map(|location| from.join(location).is_err()), [true; 5]);
        assert_eq!([at("").port(), from.join("//h").unwrap().port()], [8080, 80]);
        assert_eq!(HttpUrl::parse("https://u:p@h/i?j#k").unwrap().to_string(), "https://h/i?j");
        assert_eq!(
            ["/x", "//h", "mailto:a", "http://h:x"].map(|text| HttpUrl::parse(text).is_err()),
            [true; 4]
        );
    }

    proptest! {
        /// A path comes from a manifest, a location from any server.
        #[test]
        fn any_text_is_an_address_or_an_error(path in any::<String>(), location in any::<String>(), part in "[a-z/.%?#:@\\[\\]é ]{0,20}") {
            for (path, location) in [(&path, &location), (&part, &part), (&location, &part)] {
                let from = at(path);
                let is_sent = |url: &HttpUrl| url.target.bytes().all(|byte| byte > b' ' || byte >= 0x80);
                prop_assert!(from.to_string().starts_with("http://10.0.0.1:8080") );
                prop_assert!(from.target.is_empty() || from.target.starts_with(['/', '?']), "{}", from.target);
                if let Ok(next) = from.join(location) {
                    prop_assert!(!next.host.is_empty());
                    prop_assert!(is_sent(&next) || !is_valid(path), "{next}");
                }
            }
        }
    }
}

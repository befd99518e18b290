//! Where a runtime serves a session. Pure.

use http::Uri;
use http::uri::Scheme;

use super::StreamUrlError;

/// Longest part of a runtime's answer in an error, in characters.
const MOST_SHOWN: usize = 200;

/// A URL from the runtime, which permits one session, once.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamUrl {
    /// Name or address, without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Path and query.
    pub(super) target: String,
}

impl std::fmt::Debug for StreamUrl {
    /// Without the path: who knows it can use the session.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StreamUrl({}:{})", self.host, self.port)
    }
}

impl StreamUrl {
    /// Reads a runtime's answer.
    ///
    /// # Errors
    /// It names no server, or one with TLS.
    pub fn parse(text: &str) -> Result<Self, StreamUrlError> {
        let malformed = || StreamUrlError::Malformed(text.chars().take(MOST_SHOWN).collect());
        let uri: Uri = text.parse().map_err(|_| malformed())?;
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => return Err(StreamUrlError::Tls),
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(_) | None => return Err(malformed()),
        }
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.is_empty() {
            return Err(malformed());
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { host: host.to_owned(), port: uri.port_u16().unwrap_or(80), target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtimes_url_names_a_server_and_a_session() {
        let parsed = |text| {
            let url = StreamUrl::parse(text)?;
            Ok((url.host, url.port, url.target))
        };
        let of = |host: &str, port, target: &str| Ok((host.to_owned(), port, target.to_owned()));
        assert_eq!(parsed("http://127.0.0.1:4711/exec/t0k?a=b"), of("127.0.0.1", 4711, "/exec/t0k?a=b"));
        assert_eq!(parsed("http://[::1]:4711/attach/t"), of("::1", 4711, "/attach/t"));
        assert_eq!(parsed("http://localhost"), of("localhost", 80, "/"));
        assert_eq!(parsed("https://127.0.0.1/exec/t"), Err(StreamUrlError::Tls));
        for text in ["", "/exec/t", "127.0.0.1:1/exec", "unix:///run/x", "http:///exec", "ftp://a/b"] {
            assert_eq!(parsed(text), Err(StreamUrlError::Malformed(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_session_is_not_logged() {
        let url = StreamUrl::parse("http://127.0.0.1:4711/exec/secret").unwrap();
        assert_eq!(format!("{url:?}"), "StreamUrl(127.0.0.1:4711)");
    }
}

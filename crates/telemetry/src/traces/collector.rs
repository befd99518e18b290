//! The address of a collector, in the syntax of gRPC's names (grpc/grpc, `doc/naming.md`) as upstream accepts it.

use std::path::PathBuf;
use std::str::FromStr;

use http::Uri;
use http::uri::Authority;

/// The port of a name without one, as of gRPC.
const DEFAULT_PORT: u16 = 443;

/// Where a collector listens. The connection has no TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collector {
    /// A host and port.
    Tcp(Uri),
    /// A Unix socket. One without a place in the filesystem has NUL before its name (unix(7), abstract).
    Unix(PathBuf),
}

/// Why a text is no address of a collector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    /// Another scheme.
    #[error("unsupported scheme {0}; options are none, dns, unix, or unix-abstract")]
    Scheme(String),
    /// No host, or something beside host and port.
    #[error("must be HOST:PORT, dns:///HOST:PORT, unix:///PATH or unix-abstract:NAME")]
    Address,
}

impl Default for Collector {
    /// OTLP's default.
    fn default() -> Self {
        Self::Tcp(Uri::from_static("http://localhost:4317"))
    }
}

impl FromStr for Collector {
    type Err = CollectorError;

    fn from_str(text: &str) -> Result<Self, CollectorError> {
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme @ ("dns" | "unix" | "unix-abstract"), rest)) => (scheme, rest),
            Some((scheme, rest)) if rest.starts_with("//") => {
                return Err(CollectorError::Scheme(scheme.to_owned()));
            }
            // A host, perhaps with its port.
            Some(_) | None => ("", text),
        };
        let path = || match rest.strip_prefix("//") {
            // Between the slashes is the authority, which only DNS has.
            Some(rest) => rest.find('/').map(|slash| &rest[slash..]).unwrap_or_default(),
            None => rest,
        };
        match scheme {
            "unix" => match path() {
                "" | "/" => Err(CollectorError::Address),
                path => Ok(Self::Unix(path.into())),
            },
            "unix-abstract" => match rest.trim_start_matches("//") {
                "" => Err(CollectorError::Address),
                name => Ok(Self::Unix(format!("\0{name}").into())),
            },
            "dns" => authority(path().trim_start_matches('/')),
            _ => authority(rest),
        }
    }
}

fn authority(text: &str) -> Result<Collector, CollectorError> {
    let authority: Authority = text.parse().map_err(|_| CollectorError::Address)?;
    if authority.host().is_empty() || text.contains('@') {
        return Err(CollectorError::Address);
    }
    let uri = match authority.port() {
        Some(port) if port.as_str().parse::<u16>().is_err() => return Err(CollectorError::Address),
        Some(_) => format!("http://{text}"),
        None => format!("http://{text}:{DEFAULT_PORT}"),
    };
    uri.parse().map(Collector::Tcp).map_err(|_| CollectorError::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Collector, CollectorError> {
        text.parse()
    }

    #[test]
    fn addresses_are_those_of_grpc() {
        for (text, address) in [
            ("localhost:4317", "localhost:4317"),
            ("collector.monitoring", "collector.monitoring:443"),
            ("[::1]:4317", "[::1]:4317"),
            ("dns:///collector:4317", "collector:4317"),
            ("dns://8.8.8.8/collector:4317", "collector:4317"),
            ("dns:collector:4317", "collector:4317"),
        ] {
            let uri = format!("http://{address}").parse().unwrap();
            assert_eq!(parse(text), Ok(Collector::Tcp(uri)), "{text}");
        }
        for text in ["unix:/run/otel.sock", "unix:///run/otel.sock"] {
            assert_eq!(parse(text), Ok(Collector::Unix("/run/otel.sock".into())), "{text}");
        }
        assert_eq!(parse("unix-abstract:otel"), Ok(Collector::Unix("\0otel".into())));
    }

    #[test]
    fn what_is_no_address_is_rejected() {
        assert_eq!(parse("http://localhost:4317"), Err(CollectorError::Scheme("http".to_owned())));
        for text in
            ["", ":4317", "a:b", "a:70000", "a/b", "u@a:1", "unix:", "unix://", "unix-abstract:", "dns:///"]
        {
            assert_eq!(parse(text), Err(CollectorError::Address), "{text}");
        }
    }
}

//! Locations that credentials apply to: a registry's host with an optional port and path, where `*` stands for any part of a host
//! label (Kubernetes docs, "Images", "Interpretation of config.json"). Pure.

/// A registry, or a path in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryLocation {
    /// Host and port, as written.
    host: String,
    /// The path with its leading slash; may be empty.
    path: String,
}

impl RegistryLocation {
    /// Parses `[scheme://]host[:port][/path]`; `None` if it is no URL. A path of `/v1/` or `/v2/` is the registry's API.
    pub fn of_config(text: &str) -> Option<Self> {
        let bare = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let Self { host, path } = Self::parse(bare)?;
        let api = path.starts_with("/v1/") || path.starts_with("/v2/");
        let path = path.get(3..).filter(|_| api).unwrap_or(&path).to_owned();
        let path = if path == "/" { String::new() } else { path };
        Some(Self { host, path })
    }

    /// Parses `host[:port][/path]`; `None` if it is no URL.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let is_legal =
            |b: u8| !b.is_ascii() || b.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&b);
        let port = host.rsplit_once(':').map_or("", |(_, port)| port);
        let legal = host.bytes().all(is_legal)
            && (host.ends_with(']') || port.bytes().all(|b| b.is_ascii_digit()))
            && !path.contains(|c: char| c.is_ascii_control());
        legal.then(|| Self { host: host.to_owned(), path: path.to_owned() })
    }

    /// Host, port and path: sorts the more specific of two locations in one registry last.
    pub fn key(&self) -> String {
        format!("{}{}", self.host, self.path)
    }

    /// Whether it covers the location `other`: the same number of host labels, each matched, the same port, and a path that the
    /// other's begins with.
    pub fn covers(&self, other: &Self) -> bool {
        let ((host, port), (other_host, other_port)) = (split_port(&self.host), split_port(&other.host));
        port == other_port
            && host.split('.').count() == other_host.split('.').count()
            && other.path.starts_with(&self.path)
            && host.split('.').zip(other_host.split('.')).all(|(glob, label)| matches(glob, label))
    }
}

/// Host and port. A host with several colons and no brackets has none.
fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if name.starts_with('[') && name.ends_with(']') => {
            (name.trim_start_matches('[').trim_end_matches(']'), port)
        }
        Some((name, port)) if !name.contains([':', '[', ']']) => (name, port),
        _ => (host, ""),
    }
}

/// Whether `text` has the form of `glob`, in which `*` stands for any text. Takes time proportional to the product of both lengths.
fn matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        // The first occurrence leaves the most for the others.
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

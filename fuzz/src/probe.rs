//! Redirects that a container answers a probe with: an accepted one makes a clean request line, and leads nowhere above its root.

use hostlet_base::{HttpScheme, HttpUrl};

/// Follows a `Location` from a probe's address, or rejects it with a message.
pub fn probe_location(data: &[u8]) {
    let Ok(location) = std::str::from_utf8(data) else { return };
    let url = HttpUrl::new(HttpScheme::Http, "10.0.0.1", 8080, "/a/b?c");
    match url.join(location) {
        Ok(next) => {
            let text = next.to_string();
            assert!(text.starts_with("http://") || text.starts_with("https://"), "{text:?}");
            let target =
                text.split("://").nth(1).and_then(|rest| rest.find(['/', '?']).map(|at| &rest[at..]));
            let target = target.unwrap_or_default();
            assert!(!target.contains(|c: char| c.is_ascii_control() || c == ' '), "{target:?}");
            let path = target.split('?').next().unwrap_or_default();
            assert!(path.split('/').all(|part| part != ".."), "{path:?}");
            assert_eq!(next.join("").as_ref(), Ok(&next), "it does not lead to itself");
        }
        // It quotes the location, which HTTP limits.
        Err(error) => assert!(!error.to_string().contains(char::is_control), "{error:?}"),
    }
}

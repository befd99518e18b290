//! The URL that serves static pods, and the headers of its requests: from the configuration's text to values. Pure.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

/// A URL that serves static pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPodUrl {
    /// An absolute URL of `http` or `https` (`staticPodURL`).
    pub url: Uri,
    /// Headers of its requests (`staticPodURLHeader`).
    pub headers: HeaderMap,
}

/// The rule that a URL or a header breaks. `Display` names no URL and no value: both may be secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StaticPodUrlError {
    #[error("must be an absolute URL of http or https, like https://example.com/pods.yaml")]
    Url,
    #[error("{0:?} is not the name of a header")]
    HeaderName(String),
    #[error("a value of {0} has characters that HTTP does not permit")]
    HeaderValue(String),
}

/// Parses a URL.
pub(super) fn parse_url(text: &str) -> Result<Uri, StaticPodUrlError> {
    let url: Uri = text.parse().map_err(|_| StaticPodUrlError::Url)?;
    let has_host = url.host().is_some_and(|host| !host.is_empty());
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    if has_host && is_http { Ok(url) } else { Err(StaticPodUrlError::Url) }
}

/// Parses headers.
pub(super) fn parse_headers(texts: &BTreeMap<String, Vec<String>>) -> Result<HeaderMap, StaticPodUrlError> {
    let mut headers = HeaderMap::new();
    for (name, values) in texts {
        let parsed: HeaderName = name.parse().map_err(|_| StaticPodUrlError::HeaderName(name.clone()))?;
        for value in values {
            let mut value =
                HeaderValue::from_str(value).map_err(|_| StaticPodUrlError::HeaderValue(name.clone()))?;
            value.set_sensitive(true);
            headers.append(parsed.clone(), value);
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_http_are_accepted() {
        assert_eq!(parse_url("https://u:p@h:8/a?b").unwrap().host(), Some("h"));
        for text in ["/pods", "h/pods", "ftp://h", "http://", "http://a b", "file:///m"] {
            assert!(parse_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_may_repeat_and_must_be_valid() {
        let of = |name: &str, values: &[&str]| {
            parse_headers(
                &[(name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())].into(),
            )
        };
        assert_eq!(of("X-A", &["1", "2"]).unwrap().get_all("x-a").iter().count(), 2);
        assert_eq!(of("X A", &["1"]), Err(StaticPodUrlError::HeaderName("X A".to_owned())));
        assert_eq!(of("X-A", &["secret\n"]), Err(StaticPodUrlError::HeaderValue("X-A".to_owned())));
    }
}

//! HTTP Basic authentication (RFC 7617) with the user and password in a URL. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use http::uri::Authority;
use percent_encoding::percent_decode_str;

/// The user name and the password in front of a host, decoded.
pub(super) fn credentials_of(authority: &Authority) -> Option<(String, String)> {
    let (user, _) = authority.as_str().rsplit_once('@')?;
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(name), decoded(password)))
}

/// The value of an `Authorization` header; `None` if it has characters that HTTP does not permit.
pub(super) fn authorization((name, password): &(String, String)) -> Option<HeaderValue> {
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    let mut header = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

//! Bearer tokens as a subprotocol of WebSocket, for browsers, which can set no other header (upstream `ProtocolAuthenticator`). Does not
//! know whose they are.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// What precedes the token, which is encoded.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// The token of a request for a WebSocket, if it has one; or why it cannot be read. The texts are upstream's.
pub(super) fn websocket_token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let is_websocket = words(headers, &UPGRADE).any(|word| word.eq_ignore_ascii_case("websocket"))
        && words(headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    if !is_websocket {
        return Ok(None);
    }
    let protocols = || words(headers, &SEC_WEBSOCKET_PROTOCOL);
    let mut tokens = protocols().filter_map(|protocol| protocol.strip_prefix(PREFIX));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err("multiple base64.bearer.authorization tokens specified");
    }
    let decoded = URL_SAFE_NO_PAD.decode(encoded);
    let decoded = decoded.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
    let token = String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?;
    // One protocol has to be left for the answer.
    let has_other = protocols().any(|protocol| !protocol.starts_with(PREFIX));
    match (token.is_empty(), has_other) {
        (true, _) => Ok(None),
        (false, false) => Err("missing additional subprotocol"),
        (false, true) => Ok(Some(token)),
    }
}

/// Removes the tokens from headers that go on to others, who would otherwise learn them (upstream's authenticator removes them, too).
pub(in crate::node_api) fn remove_tokens(headers: &mut HeaderMap) {
    let protocols = || words(headers, &SEC_WEBSOCKET_PROTOCOL);
    if !protocols().any(|protocol| protocol.starts_with(PREFIX)) {
        return;
    }
    let others: Vec<&str> = protocols().filter(|protocol| !protocol.starts_with(PREFIX)).collect();
    match HeaderValue::try_from(others.join(", ")) {
        Ok(others) if !others.is_empty() => headers.insert(SEC_WEBSOCKET_PROTOCOL, others),
        Ok(_) | Err(_) => headers.remove(SEC_WEBSOCKET_PROTOCOL),
    };
}

/// The words between the commas of a header.
fn words<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(upgrade: &str, protocols: &str) -> HeaderMap {
        let all =
            [(UPGRADE, upgrade), (CONNECTION, "keep-alive, Upgrade"), (SEC_WEBSOCKET_PROTOCOL, protocols)];
        all.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    #[test]
    fn tokens_are_read_as_upstream() {
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode("good"));
        let read = |protocols: &str| websocket_token(&headers("WebSocket", protocols));
        assert_eq!(read(&format!("{token}, v5.channel.k8s.io")), Ok(Some("good".to_owned())));
        assert_eq!(read("v5.channel.k8s.io"), Ok(None));
        assert_eq!(read(&format!("v5.channel.k8s.io,{PREFIX}")), Ok(None));
        assert_eq!(websocket_token(&headers("SPDY/3.1", &format!("{token}, x"))), Ok(None));
        for (protocols, expected) in [
            (token.clone(), "missing additional subprotocol"),
            (format!("{token}, {token}, x"), "multiple base64.bearer.authorization tokens specified"),
            (format!("{PREFIX}!, x"), "invalid base64.bearer.authorization token encoding"),
            (format!("{PREFIX}_w, x"), "invalid base64.bearer.authorization token"),
        ] {
            assert_eq!(read(&protocols), Err(expected), "{protocols}");
        }
    }

    #[test]
    fn only_tokens_are_removed() {
        let left = |protocols: &str| {
            let mut headers = headers("websocket", protocols);
            remove_tokens(&mut headers);
            headers.get(SEC_WEBSOCKET_PROTOCOL).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(
            left(&format!("chat,{PREFIX}Z29vZA , v4.channel.k8s.io")).unwrap(),
            "chat, v4.channel.k8s.io"
        );
        assert_eq!(left("chat,v4.channel.k8s.io").unwrap(), "chat,v4.channel.k8s.io");
        assert_eq!(left(&format!("{PREFIX}Z29vZA")), None);
    }
}

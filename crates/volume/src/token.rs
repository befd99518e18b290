//! Renewal of service account tokens, by the clock of this host whatever the API server's says, and reading an existing token from its
//! file. Pure except for that.

use std::fs;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use hostlet_base::json;
use hostlet_pod::objects::Token;

/// A token is renewed after this time, however long it is valid.
const MAX_USE: SignedDuration = SignedDuration::from_hours(24);
/// Maximum jitter by which tokens are renewed earlier, so that tokens issued together are not renewed together.
const MAX_JITTER: SignedDuration = SignedDuration::from_secs(10);
/// A token is used for at least this time, however short its lifetime, so that no server makes a node request tokens without a pause.
const MIN_USE: SignedDuration = SignedDuration::from_secs(30);

/// The token with the times of this host's clock, on which it was requested `at`: the API server's clock may be ahead or behind by more
/// than its lifetime.
pub(super) fn received(token: Token, at: Timestamp) -> Token {
    let expires = at.saturating_add(lifetime(&token)).unwrap_or(at);
    Token { issued: at, expires, ..token }
}

fn lifetime(token: &Token) -> SignedDuration {
    token.expires.duration_since(token.issued).max(MIN_USE)
}

/// When a token is due for renewal: after 80 % of its lifetime or 24 h, minus a jitter. `jitter` is from 0 to 1.
pub(super) fn refresh_at(token: &Token, jitter: f64) -> Timestamp {
    let life = lifetime(token);
    let used = (life / 5 * 4).min(MAX_USE);
    let earlier = SignedDuration::try_from_secs_f64(MAX_JITTER.as_secs_f64() * jitter.clamp(0.0, 1.0));
    let used = used - earlier.unwrap_or_default();
    token.issued.saturating_add(used.max(MIN_USE)).unwrap_or(token.expires)
}

/// Whether a token is due. One from the future is: the clock was set back, and its times are meaningless.
pub(super) fn is_due(token: &Token, now: Timestamp, jitter: f64) -> bool {
    now >= refresh_at(token, jitter) || now < token.issued
}

/// The claims with a token's lifetime (RFC 7519), in seconds since the epoch.
#[derive(Deserialize)]
struct Claims {
    iat: i64,
    exp: i64,
}

/// The token in the file at `path`, requested with a lifetime of `seconds`; `None` if there is none or it has no lifetime. The
/// API server may issue a longer lifetime, so the requested one is the bound.
pub(super) fn read_token(path: &Path, seconds: i64) -> Option<Token> {
    parse_token(fs::read_to_string(path).ok()?, seconds)
}

fn parse_token(value: String, seconds: i64) -> Option<Token> {
    let payload = URL_SAFE_NO_PAD.decode(value.split('.').nth(1)?).ok()?;
    let claims: Claims = json::from_slice(&payload).ok()?;
    let issued = Timestamp::from_second(claims.iat).ok()?;
    let requested = Duration::from_secs(u64::try_from(seconds).ok()?);
    let expires = Timestamp::from_second(claims.exp).ok()?.min(issued.saturating_add(requested).ok()?);
    Some(Token { value, issued, expires })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(life: i64) -> Token {
        let issued = Timestamp::from_second(1_000_000).unwrap();
        Token { value: String::new(), issued, expires: issued + SignedDuration::from_secs(life) }
    }

    fn after(token: &Token, jitter: f64) -> i64 {
        refresh_at(token, jitter).duration_since(token.issued).as_secs()
    }

    #[test]
    fn a_token_is_due_at_four_fifths_of_its_lifetime_or_after_a_day() {
        assert_eq!(after(&token(3600), 0.0), 2880);
        assert_eq!(after(&token(3600), 1.0), 2870);
        assert_eq!(after(&token(600), 0.5), 475);
        assert_eq!(after(&token(7 * 86_400), 0.0), 86_400);
        assert_eq!(after(&token(5), 1.0), 30);
        assert_eq!(after(&token(-5), 0.0), 30);
        let token = token(3600);
        let at = |seconds| token.issued + SignedDuration::from_secs(seconds);
        assert!(!is_due(&token, at(0), 1.0) && !is_due(&token, at(2869), 1.0));
        assert!(is_due(&token, at(2880), 0.0) && is_due(&token, at(-1), 0.0));
    }

    #[test]
    fn a_received_token_has_the_times_of_this_host() {
        let at = Timestamp::from_second(5_000_000).unwrap();
        let token = received(token(3600), at);
        assert_eq!((token.issued, token.expires.as_second()), (at, 5_003_600));
    }

    fn encoded(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_lifetime_is_read_from_the_token() {
        let read = |claims: &str| parse_token(encoded(claims), 3607);
        let token = read("{\"iat\": 1000000, \"exp\": 1003607, \"aud\": [\"x\"]}").unwrap();
        assert_eq!((token.issued.as_second(), token.expires.as_second()), (1_000_000, 1_003_607));
        // The API server extends it to a year for clients that do not reload the file.
        let token = read("{\"iat\": 1000000, \"exp\": 32536000}").unwrap();
        assert_eq!(token.expires.as_second(), 1_003_607);
        for other in ["{\"exp\": 1}", "{\"iat\": 99999999999999, \"exp\": 1}", "nonsense"] {
            assert_eq!(read(other), None, "{other}");
        }
        for other in ["", "a", "a.b", "..", "a.!.c", "opaque-token"] {
            assert_eq!(parse_token(other.to_owned(), 3607), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_token_is_replaced_while_it_is_valid(life in 60i64..10_000_000, jitter in 0.0f64..1.0) {
            let token = token(life);
            let at = refresh_at(&token, jitter);
            prop_assert!(at >= token.issued && at < token.expires);
        }
    }
}

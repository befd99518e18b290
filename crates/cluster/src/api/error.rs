//! Classifies errors of the API server for callers.

use std::time::Duration;

use kube::Error;

use hostlet_base::error_chain;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
    /// The object does not exist (404).
    NotFound,
    /// An object of this name exists (409 `AlreadyExists`).
    AlreadyExists,
    /// The object changed in between, or has another UID (409).
    Conflict,
    /// Not permitted (401 or 403): needs an administrator, or the node is not registered yet.
    Forbidden,
    /// The request is invalid (any other 4xx): repeating it cannot succeed.
    Invalid,
    /// The server asks to wait: 429, or a 5xx with Retry-After, which is limited to 30 s.
    TooMany(Option<Duration>),
    /// The server failed or cannot be reached: repeating the request may succeed.
    Unavailable,
}

/// Maximum Retry-After that is honored: a broken server or proxy may send years.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

impl ApiErrorKind {
    /// The pause before the next request: the server's Retry-After, or 1 s for a 429 without one; zero for other errors.
    pub(crate) fn retry_after(&self) -> Duration {
        match self {
            Self::TooMany(retry_after) => retry_after.unwrap_or(Duration::from_secs(1)),
            Self::NotFound
            | Self::AlreadyExists
            | Self::Conflict
            | Self::Forbidden
            | Self::Invalid
            | Self::Unavailable => Duration::ZERO,
        }
    }
}

/// How long the server asks to wait before the request is repeated, up to 30 s; `None` if it does not.
pub(crate) fn retry_after(error: &Error) -> Option<Duration> {
    let Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    (seconds > 0).then(|| Duration::from_secs(seconds.into()).min(MAX_RETRY_AFTER))
}

/// Classifies `error`.
pub(crate) fn error_kind(error: &Error) -> ApiErrorKind {
    let Error::Api(status) = error else { return ApiErrorKind::Unavailable };
    match status.code {
        404 => ApiErrorKind::NotFound,
        409 if status.is_already_exists() => ApiErrorKind::AlreadyExists,
        409 => ApiErrorKind::Conflict,
        401 | 403 => ApiErrorKind::Forbidden,
        429 => ApiErrorKind::TooMany(retry_after(error)),
        // A timeout on the server, reported with a 4xx code.
        408 => ApiErrorKind::Unavailable,
        400..500 => ApiErrorKind::Invalid,
        _ => match retry_after(error) {
            Some(pause) => ApiErrorKind::TooMany(Some(pause)),
            None => ApiErrorKind::Unavailable,
        },
    }
}

/// The message of `error`: the server's own, if any.
pub(crate) fn message(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // Its text repeats its cause.
        Error::Service(cause) => error_chain(&**cause),
        error => error_chain(error),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use kube::core::response::reason;

    use super::*;

    fn of(code: u16, reason: &str) -> ApiErrorKind {
        error_kind(&Error::Api(Status::failure("no", reason).with_code(code).boxed()))
    }

    #[test]
    fn responses_are_classified() {
        assert_eq!(of(404, reason::NOT_FOUND), ApiErrorKind::NotFound);
        assert_eq!(of(409, reason::ALREADY_EXISTS), ApiErrorKind::AlreadyExists);
        assert_eq!(of(409, reason::CONFLICT), ApiErrorKind::Conflict);
        assert_eq!(of(403, reason::FORBIDDEN), ApiErrorKind::Forbidden);
        assert_eq!(of(401, reason::UNAUTHORIZED), ApiErrorKind::Forbidden);
        assert_eq!(of(422, reason::INVALID), ApiErrorKind::Invalid);
        assert_eq!(of(429, reason::TOO_MANY_REQUESTS), ApiErrorKind::TooMany(None));
        let mut busy = Status::failure("no", reason::TOO_MANY_REQUESTS).with_code(429);
        let details =
            |seconds: u32| serde_json::from_value(serde_json::json!({"retryAfterSeconds": seconds})).unwrap();
        for (requested, kept) in [(3, 3), (u32::MAX, 30)] {
            busy.details = Some(details(requested));
            let kept = Some(Duration::from_secs(kept));
            assert_eq!(error_kind(&Error::Api(busy.clone().boxed())), ApiErrorKind::TooMany(kept));
        }
        busy.code = 503;
        let pause = Some(Duration::from_secs(30));
        assert_eq!(error_kind(&Error::Api(busy.boxed())), ApiErrorKind::TooMany(pause), "as client-go");
        assert_eq!(of(408, reason::TIMEOUT), ApiErrorKind::Unavailable);
        assert_eq!(of(500, reason::INTERNAL_ERROR), ApiErrorKind::Unavailable);
        assert_eq!(error_kind(&Error::TlsRequired), ApiErrorKind::Unavailable);
    }
}

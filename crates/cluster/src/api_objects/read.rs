//! One request for an object, and why it failed.

use std::fmt::Debug;
use std::time::Duration;

use hostlet_pod::objects::ObjectError;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use crate::api::{ApiErrorKind, TypedApi, Wire, error_kind, message, pause};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often a request is sent while the server asks for a later one.
const ATTEMPTS: u32 = 3;

/// Reads an object.
pub(super) async fn get<K>(objects: &TypedApi<K>, name: &str) -> Result<K, ObjectError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    request(|| objects.get(name)).await.map(|Wire(object)| object)
}

/// Sends a request, and again after the server's Retry-After. Callers have pauses of their own for all other failures.
pub(super) async fn request<T, F>(send: impl Fn() -> F) -> Result<T, ObjectError>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let mut attempt = 1;
    loop {
        let error = match timeout(TIMEOUT, send()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_elapsed) => {
                let text = format!("the API server did not answer within {} s", TIMEOUT.as_secs());
                return Err(ObjectError::Unavailable(text));
            }
        };
        match error_kind(&error) {
            kind @ ApiErrorKind::TooMany(_) if attempt < ATTEMPTS => {
                sleep(pause(Duration::ZERO, kind.retry_after(), rand::random())).await;
            }
            kind => return Err(object_error(kind, message(&error))),
        }
        attempt += 1;
    }
}

/// The error of a request as users of objects see it.
pub(super) fn object_error(error_kind: ApiErrorKind, message: String) -> ObjectError {
    match error_kind {
        ApiErrorKind::NotFound => ObjectError::NotFound(message),
        ApiErrorKind::Forbidden => ObjectError::Forbidden(message),
        ApiErrorKind::AlreadyExists
        | ApiErrorKind::Conflict
        | ApiErrorKind::Invalid
        | ApiErrorKind::TooMany(_)
        | ApiErrorKind::Unavailable => ObjectError::Unavailable(message),
    }
}

#[cfg(test)]
mod tests {
    use hostlet_base::WallClock;
    use k8s_openapi::api::core::v1::PersistentVolume;
    use tokio::time::Instant;

    use super::*;
    use crate::api::fake::{ApiFault, ApiRule, FakeApi};

    #[tokio::test(start_paused = true)]
    async fn the_servers_pause_is_kept_and_an_overload_ends_as_unavailable() {
        let api = FakeApi::new(WallClock::system());
        let busy = ApiFault::Reject { code: 429, reason: "TooManyRequests", retry_after: 2 };
        api.fail(ApiRule { times: 5, ..ApiRule::always("GET", "/persistentvolumes", busy) });
        let volumes = TypedApi::<PersistentVolume>::all(api.client());
        let begin = Instant::now();
        assert!(matches!(get(&volumes, "a").await, Err(ObjectError::Unavailable(_))));
        assert_eq!(api.requests().len(), 3);
        assert!(begin.elapsed() >= Duration::from_secs(4), "{:?}", begin.elapsed());
        assert!(matches!(get(&volumes, "a").await, Err(ObjectError::NotFound(_))));
        assert_eq!(api.requests().len(), 6);
    }
}

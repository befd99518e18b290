//! Reads one object, and says why it is not available.

use std::fmt::Debug;
use std::time::Duration;

use hostlet_pod::objects::ObjectError;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::api::{ApiErrorKind, TypedApi, Wire, error_kind, message};

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads an object.
pub(super) async fn get<K>(objects: &TypedApi<K>, name: &str) -> Result<K, ObjectError>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    match timeout(TIMEOUT, objects.get(name)).await {
        Ok(Ok(Wire(object))) => Ok(object),
        Ok(Err(error)) => Err(object_error(error_kind(&error), message(&error))),
        Err(_) => {
            let text = format!("the API server did not answer within {} s", TIMEOUT.as_secs());
            Err(ObjectError::Unavailable(text))
        }
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

//! The seam to a driver: what is asked of it, and what it answers, in terms of this crate. Owns no behavior.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tonic::Code;

use crate::device::Device;

/// A ResourceClaim, as drivers know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A call failed as a whole. The text is upstream's, of gRPC for Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {} desc = {message}", code_name(*code))]
pub struct CallError {
    /// The status that the driver, or the connection to it, gave.
    pub code: Code,
    /// One line.
    pub message: String,
}

/// A driver could not do what was asked of a claim. The text is the driver's, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClaimFailed(pub String);

/// What a driver answered about each claim, by the claim's UID: why it failed, or what it is now. A claim that is missing was not done.
pub type Answers<T> = BTreeMap<String, Result<T, ClaimFailed>>;

/// An instance of a driver that is registered. Each call has a deadline of its own, and may be repeated.
#[async_trait]
pub trait DriverService: Send + Sync + 'static {
    /// Prepares claims. Returns the devices of each.
    async fn prepare(&self, claims: &[ClaimRef]) -> Result<Answers<Vec<Device>>, CallError>;

    /// The reverse.
    async fn unprepare(&self, claims: &[ClaimRef]) -> Result<Answers<()>, CallError>;
}

/// The name of a code in gRPC for Go.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

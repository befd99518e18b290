//! The seam to a driver: what is asked of it, and what it answers, in terms of this crate. Owns no behavior.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hostlet_plugins::code_name;
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

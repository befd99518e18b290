//! How getting an image fails, in the words a pod's status carries.

use std::time::Duration;

use super::ReferenceError;
use crate::types::go_quoted;

/// An image that could not be had. `Display` is the container's waiting message, [`ImageError::reason`] its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image's name makes no sense; only a new spec helps.
    #[error(
        "Failed to apply default image tag {0}: couldn't parse image name {0}: {problem}",
        go_quoted(image)
    )]
    InvalidName {
        /// As in the spec.
        image: String,
        /// What is wrong with it.
        problem: ReferenceError,
    },
    /// The runtime could not say whether it has the image.
    #[error("Failed to inspect image {}: {message}", go_quoted(image))]
    Inspect {
        /// As in the spec.
        image: String,
        /// What the runtime says.
        message: String,
    },
    /// The runtime does not have the image, and the policy forbids a pull.
    #[error("Container image {} is not present with pull policy of Never", go_quoted(image))]
    NeverPull {
        /// As in the spec.
        image: String,
    },
    /// The pull failed.
    #[error("{message}")]
    Pull {
        /// What the runtime says.
        message: String,
    },
    /// The pull failed, says the runtime, because the registry does not answer.
    #[error("image pull failed for {image} because the registry is unavailable{detail}")]
    RegistryUnavailable {
        /// As in the spec.
        image: String,
        /// What the runtime adds, with its separator.
        detail: String,
    },
    /// The pull failed, says the runtime, because the image's signature is not valid.
    #[error("image pull failed for {image} because the signature validation failed{detail}")]
    SignatureValidation {
        /// As in the spec.
        image: String,
        /// What the runtime adds, with its separator.
        detail: String,
    },
    /// An earlier pull for this pod failed, and it is too early for the next.
    #[error("Back-off pulling image {}: {last_reason}: {last_message}", go_quoted(image))]
    BackOff {
        /// As in the spec.
        image: String,
        /// Reason of the failure.
        last_reason: &'static str,
        /// Message of the failure.
        last_message: String,
        /// How long until a pull is tried again.
        remaining: Duration,
    },
}

impl ImageError {
    /// The waiting reason; clients match on it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "InvalidImageName",
            Self::Inspect { .. } => "ImageInspectError",
            Self::NeverPull { .. } => "ErrImageNeverPull",
            Self::Pull { .. } => "ErrImagePull",
            Self::RegistryUnavailable { .. } => "RegistryUnavailable",
            Self::SignatureValidation { .. } => "SignatureValidationFailed",
            Self::BackOff { .. } => "ImagePullBackOff",
        }
    }

    /// The error of a failed pull. A runtime says by a prefix that it knows the cause (CRI API, `errors`).
    pub(super) fn of_pull(image: &str, message: String) -> Self {
        if let Some(detail) = message.strip_prefix("RegistryUnavailable") {
            Self::RegistryUnavailable { image: image.to_owned(), detail: detail.to_owned() }
        } else if let Some(detail) = message.strip_prefix("SignatureValidationFailed") {
            Self::SignatureValidation { image: image.to_owned(), detail: detail.to_owned() }
        } else {
            Self::Pull { message }
        }
    }
}

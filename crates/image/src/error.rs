//! Image errors, with upstream's reasons and messages for the container status.

use std::time::Duration;

use hostlet_base::{ImageReferenceError, go_quoted, reasons};

/// Why an image is not available. `Display` is the container's waiting message, [`ImageError::reason`] its reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image reference is invalid; only a new spec helps.
    #[error(
        "Failed to apply default image tag {0}: couldn't parse image name {0}: {problem}",
        go_quoted(image)
    )]
    InvalidName {
        /// As in the spec.
        image: String,
        /// The parse error.
        problem: ImageReferenceError,
    },
    /// The runtime failed to inspect the image.
    #[error("Failed to inspect image {}: {message}", go_quoted(image))]
    Inspect {
        /// As in the spec.
        image: String,
        /// The runtime's error.
        message: String,
    },
    /// The image is not present and the pull policy is `Never`.
    #[error("Container image {} is not present with pull policy of Never", go_quoted(image))]
    NeverPull {
        /// As in the spec.
        image: String,
    },
    /// A pull Secret is invalid. The stock kubelet has this text as the reason, too.
    #[error("{message}")]
    Credentials {
        /// What is wrong with it.
        message: String,
    },
    /// The pull failed.
    #[error("{message}")]
    Pull {
        /// The runtime's error.
        message: String,
    },
    /// The pull failed because the registry is unavailable, according to the runtime.
    #[error("image pull failed for {image} because the registry is unavailable{detail}")]
    RegistryUnavailable {
        /// As in the spec.
        image: String,
        /// Details from the runtime, including the separator.
        detail: String,
    },
    /// The pull failed because the image's signature is invalid, according to the runtime.
    #[error("image pull failed for {image} because the signature validation failed{detail}")]
    SignatureValidation {
        /// As in the spec.
        image: String,
        /// Details from the runtime, including the separator.
        detail: String,
    },
    /// An earlier pull for this pod failed and its back-off has not expired.
    #[error("Back-off pulling image {}: {last_reason}: {last_message}", go_quoted(image))]
    BackOff {
        /// As in the spec.
        image: String,
        /// Reason of the failure.
        last_reason: &'static str,
        /// Message of the failure.
        last_message: String,
        /// Time until the next pull.
        remaining: Duration,
    },
}

impl ImageError {
    /// The waiting reason. Clients match on it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => reasons::INVALID_IMAGE_NAME,
            Self::Inspect { .. } => reasons::IMAGE_INSPECT_ERROR,
            Self::NeverPull { .. } => reasons::ERR_IMAGE_NEVER_PULL,
            Self::Credentials { .. } | Self::Pull { .. } => reasons::ERR_IMAGE_PULL,
            Self::RegistryUnavailable { .. } => reasons::REGISTRY_UNAVAILABLE,
            Self::SignatureValidation { .. } => reasons::SIGNATURE_VALIDATION_FAILED,
            Self::BackOff { .. } => reasons::IMAGE_PULL_BACK_OFF,
        }
    }

    /// Classifies a failed pull. The runtime marks a known cause with a prefix (CRI API, package `errors`).
    pub(super) fn of_pull(image: &str, message: String) -> Self {
        if let Some(detail) = message.strip_prefix(reasons::REGISTRY_UNAVAILABLE) {
            Self::RegistryUnavailable { image: image.to_owned(), detail: detail.to_owned() }
        } else if let Some(detail) = message.strip_prefix(reasons::SIGNATURE_VALIDATION_FAILED) {
            Self::SignatureValidation { image: image.to_owned(), detail: detail.to_owned() }
        } else {
            Self::Pull { message }
        }
    }
}

//! Values of the configuration for crates that must not know the configuration. Says nothing about how they are read or validated.

mod credential_providers;
mod eviction;
mod graceful_shutdown;
mod image_gc;
mod image_verification;
mod log_limits;
mod reserved;

pub use credential_providers::{CredentialProvider, CredentialProviders, TokenAttributes};
pub use eviction::{EvictionSettings, EvictionThreshold, StallLimits};
pub use graceful_shutdown::GracefulShutdown;
pub use image_gc::ImageGcPolicy;
pub use image_verification::ImageVerification;
pub use log_limits::LogLimits;
pub use reserved::{Daemons, EnforcedReservation, Reserved};

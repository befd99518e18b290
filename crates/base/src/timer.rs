//! A sleep with an optional deadline.

use tokio::time::Instant;

/// Sleeps until this time; forever without one. Cancel-safe.
pub async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

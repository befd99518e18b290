//! A pause that may have no end.

use tokio::time::Instant;

/// Waits until this moment; for ever if there is none. Cancel-safe.
pub async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

//! Gives the daemon's free memory back to the host. Bursts leave much of it between what is in use: of the heap after 500 pods started,
//! a third.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::sys::{file_work, return_free_memory};

/// Time between two returns: by then a burst is over.
const PERIOD: Duration = Duration::from_secs(30);

/// Returns it twice a minute, until `cancel`.
pub async fn return_memory(cancel: CancellationToken) {
    while cancel.run_until_cancelled(sleep(PERIOD)).await.is_some() {
        // It cannot panic, and the next one is soon.
        let _ = file_work(return_free_memory).await;
    }
}

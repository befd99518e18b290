//! Releases the daemon's free heap memory to the kernel. Bursts fragment the heap: after the start of 500 pods, a third of it is free.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use hostlet_host::{file_work, trim_heap};

/// Time between two trims: by then a burst is over.
const PERIOD: Duration = Duration::from_secs(30);

/// Trims the heap twice a minute, until `cancel`.
pub async fn trim_heap_regularly(cancel: CancellationToken) {
    while cancel.run_until_cancelled(sleep(PERIOD)).await.is_some() {
        // It cannot panic, and the next one is soon.
        let _ = file_work(trim_heap).await;
    }
}

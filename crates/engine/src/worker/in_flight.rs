//! Calls to the runtime that survive the cancellation of their work. Decides nothing about pods.
//!
//! When a caller disconnects while the runtime creates a sandbox or starts a container, the runtime gives up midway and may
//! leave its parts behind forever: containerd 2.1 sometimes leaves a shim, and counts the container as failed. So a call in
//! flight continues for up to four seconds when its work is cancelled.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;

/// How long a call continues. A healthy runtime needs less, and the daemon's shutdown allows more.
const PATIENCE: Duration = Duration::from_secs(4);

/// The calls in flight of a worker's cancelled work. Clones share one list.
#[derive(Clone, Default)]
pub(super) struct InFlightCalls {
    calls: Arc<Mutex<Vec<BoxFuture<'static, ()>>>>,
}

impl fmt::Debug for InFlightCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InFlightCalls")
    }
}

impl InFlightCalls {
    /// Awaits `call`. If the returned future is dropped before it completes, the call is kept for [`finish`](Self::finish).
    pub(super) fn keep<T: 'static>(&self, call: impl Future<Output = T> + Send + 'static) -> InFlightCall<T> {
        InFlightCall { call: Some(call.boxed()), in_flight: self.clone() }
    }

    /// Awaits the kept calls for up to four seconds, then drops them.
    pub(super) async fn finish(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        if !calls.is_empty() {
            let ended = tokio::time::timeout(PATIENCE, join_all(calls)).await;
            tracing::debug!(in_time = ended.is_ok(), "cancelled in the middle of a call to the runtime");
        }
    }
}

/// A call that survives being dropped.
pub(super) struct InFlightCall<T: 'static> {
    /// None once it completed.
    call: Option<BoxFuture<'static, T>>,
    in_flight: InFlightCalls,
}

impl<T> Future for InFlightCall<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        // Taken out, so that a call that panics is not kept.
        let Some(mut call) = self.call.take() else { return Poll::Pending };
        let ended = call.poll_unpin(context);
        if ended.is_pending() {
            self.call = Some(call);
        }
        ended
    }
}

impl<T> Drop for InFlightCall<T> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            // Nothing else would catch its panic, which would kill the worker.
            let call = AssertUnwindSafe(call).catch_unwind().map(drop).boxed();
            self.in_flight.calls.lock().push(call);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    fn call(seconds: u64, ended: &Arc<AtomicUsize>) -> impl Future<Output = u8> + Send + 'static {
        let ended = ended.clone();
        async move {
            sleep(Duration::from_secs(seconds)).await;
            ended.fetch_add(1, Ordering::Relaxed);
            7
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_ends_is_not_kept() {
        let (in_flight, ended) = (InFlightCalls::default(), Arc::default());
        assert_eq!(in_flight.keep(call(3, &ended)).await, 7);
        let end = Instant::now();
        in_flight.finish().await;
        assert_eq!((ended.load(Ordering::Relaxed), end.elapsed()), (1, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_call_goes_on_but_not_for_ever() {
        let (in_flight, ended) = (InFlightCalls::default(), Arc::default());
        let start = Instant::now();
        for seconds in [3, 3600] {
            assert!(timeout(Duration::from_secs(1), in_flight.keep(call(seconds, &ended))).await.is_err());
        }
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        in_flight.finish().await;
        assert_eq!((ended.load(Ordering::Relaxed), start.elapsed()), (1, Duration::from_secs(2) + PATIENCE));
        in_flight.finish().await;
        assert_eq!(start.elapsed(), Duration::from_secs(2) + PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_panics_harms_only_its_caller() {
        let in_flight = InFlightCalls::default();
        let call = async {
            sleep(Duration::from_secs(2)).await;
            panic!("on purpose")
        };
        let caught = AssertUnwindSafe(in_flight.keep::<()>(call)).catch_unwind().await;
        assert!(caught.is_err() && in_flight.calls.lock().is_empty());
        let call = async {
            sleep(Duration::from_secs(2)).await;
            panic!("on purpose")
        };
        assert!(timeout(Duration::from_secs(1), in_flight.keep::<()>(call)).await.is_err());
        in_flight.finish().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_never_begun_is_not_made() {
        let (in_flight, ended) = (InFlightCalls::default(), Arc::default());
        let work = async { in_flight.keep(call(1, &ended)).await };
        drop(work);
        in_flight.finish().await;
        assert_eq!(ended.load(Ordering::Relaxed), 0);
    }
}

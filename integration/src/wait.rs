//! Waits for a state: level-triggered, with a timeout and a report of the last observation. Never sleeps for a fixed time.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Poll interval: short compared with the awaited changes, long compared with the cost of a check.
const PAUSE: Duration = Duration::from_millis(100);

/// The result of one check.
#[derive(Debug)]
pub enum Look<T> {
    /// The awaited result.
    Done(T),
    /// Not yet; the text describes the current state.
    NotYet(String),
}

/// Repeats a check until it succeeds, and returns its result. After `timeout`, fails with `what` and the last description.
/// A check that fails counts as "not yet": the checked program may be starting.
pub async fn wait_for<T>(
    what: &str,
    timeout: Duration,
    mut look: impl AsyncFnMut() -> Result<Look<T>>,
) -> Result<T> {
    let end = Instant::now() + timeout;
    let mut seen = "nothing".to_owned();
    loop {
        seen = match tokio::time::timeout_at(end, look()).await {
            Ok(Ok(Look::Done(found))) => return Ok(found),
            Ok(Ok(Look::NotYet(seen))) => seen,
            Ok(Err(error)) => format!("error: {error:#}"),
            Err(_) => format!("a look that did not end; before it: {seen}"),
        };
        if Instant::now() >= end {
            bail!("not within {timeout:?}: {what}; last seen: {seen}");
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn returns_the_awaited_value() {
        let mut looks = 0;
        let found = wait_for("three looks", Duration::from_secs(60), async || {
            looks += 1;
            Ok(if looks == 3 { Look::Done(looks) } else { Look::NotYet(format!("{looks}")) })
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_timeout_reports_the_last_state() {
        let look = async || Ok(Look::<()>::NotYet("two of three".to_owned()));
        let error = wait_for("three pods", Duration::ZERO, look).await.unwrap_err().to_string();
        assert!(error.contains("three pods") && error.contains("two of three"), "{error}");
    }

    #[tokio::test]
    async fn a_failed_check_is_the_last_state() {
        let look = async || Err::<Look<()>, _>(anyhow::anyhow!("no socket"));
        let error = wait_for("an answer", Duration::ZERO, look).await.unwrap_err().to_string();
        assert!(error.contains("no socket"), "{error}");
    }
}

//! Waiting for a state: level-triggered, bounded, and telling what was seen last. Never sleeps for a fixed time and hopes.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep};

/// Between two looks: short against what is waited for, long against what a look costs.
const PAUSE: Duration = Duration::from_millis(100);

/// What one look at the world found.
#[derive(Debug)]
pub enum Look<T> {
    /// What was waited for.
    Done(T),
    /// Not there yet; the text says what is there instead.
    NotYet(String),
}

/// Looks until it finds what it waits for and returns that. After `timeout` fails with `what` and the last look's text.
/// A look that fails counts as "not yet": the world may be starting.
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

//! Repeats questions to the API server that failed for the moment.

use std::time::Duration;

use super::ReviewError;

/// The pause after the first failure; each further one is half as long again (upstream `DefaultAuthWebhookRetryBackoff`).
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// How often it is asked.
const ATTEMPTS: u32 = 5;

/// Asks until there is an answer, or a failure that stays.
///
/// # Errors
/// The last failure.
pub(super) async fn with_retries<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ReviewError>
where
    F: Future<Output = Result<T, ReviewError>>,
{
    let (mut pause, mut attempt) = (FIRST_PAUSE, 1);
    loop {
        match ask().await {
            Err(error) if error.is_temporary() && attempt < ATTEMPTS => {
                tokio::time::sleep(pause).await;
                pause = pause * 3 / 2;
                attempt += 1;
            }
            answer => return answer,
        }
    }
}

//! Watch channels: waits in a `select!` that do not wake when the sender is dropped, and sending only what changed.

use tokio::sync::watch;

/// Waits for an unseen value; forever once the sender is dropped. Cancel-safe: the value is marked as seen only when this
/// returns.
pub async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending().await
    }
}

/// Waits for a value that satisfies `predicate`; forever once the sender is dropped. Cancel-safe: the value is marked as seen
/// only when this returns.
pub async fn becomes<T>(watched: &mut watch::Receiver<T>, predicate: impl FnMut(&T) -> bool) {
    if watched.wait_for(predicate).await.is_err() {
        std::future::pending().await
    }
}

/// Publishes a value if it differs from the last one.
pub fn publish<T: PartialEq>(known: &watch::Sender<T>, now: T) {
    known.send_if_modified(|known| {
        let is_changed = *known != now;
        *known = now;
        is_changed
    });
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::sync::watch;

    use super::{becomes, changed};

    #[tokio::test]
    async fn changes_wake_a_receiver_and_a_dropped_sender_does_not() {
        let (writer, mut reader) = watch::channel(0);
        assert_eq!(changed(&mut reader).now_or_never(), None);
        writer.send_replace(1);
        changed(&mut reader).await;
        becomes(&mut reader, |value| *value == 1).await;
        assert_eq!(becomes(&mut reader, |value| *value == 2).now_or_never(), None);
        drop(writer);
        assert_eq!(changed(&mut reader).now_or_never(), None);
        assert_eq!(becomes(&mut reader, |value| *value == 2).now_or_never(), None);
    }
}

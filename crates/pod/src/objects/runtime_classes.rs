//! The cluster's RuntimeClasses: which handler of the runtime each stands for (Kubernetes docs, "Runtime Class"). Only names and
//! handlers.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use hostlet_base::watching;

/// How long after start-up a pod waits for the first list before its class counts as missing.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no handler for a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeClassError {
    /// The class does not exist. The text is upstream's.
    #[error("runtimeclass.node.k8s.io {0:?} not found")]
    NotFound(String),
    /// The API server has not listed the classes, and an earlier daemon did not know this one.
    #[error("failed to lookup RuntimeClass {0}: the runtime classes have not been read yet")]
    Unread(String),
}

/// The runtime classes that are known, from the API server or from an earlier daemon.
#[derive(Debug, Default)]
pub struct KnownClasses {
    /// Handlers by the name of their class.
    pub handlers: BTreeMap<Box<str>, Box<str>>,
    /// Whether they were listed, so that a class that is not here does not exist.
    pub is_listed: bool,
}

/// The known classes. Clones share them.
#[derive(Clone, Debug)]
pub struct RuntimeClasses {
    known: watch::Receiver<KnownClasses>,
    /// Deadline of the wait for the first list.
    deadline: Instant,
}

impl RuntimeClasses {
    /// The classes as they become known. Until the first list they are those that an earlier daemon knew.
    pub fn new(known: watch::Receiver<KnownClasses>) -> Self {
        Self { known, deadline: Instant::now() + FIRST_LIST_TIMEOUT }
    }

    /// The classes of a standalone host: none.
    pub fn none() -> Self {
        let known =
            watch::Sender::new(KnownClasses { is_listed: true, ..KnownClasses::default() }).subscribe();
        Self { known, deadline: Instant::now() }
    }

    /// The handler of a class. If it is not known, waits for the first list, up to a deadline after start-up. Cancel-safe.
    pub async fn handler(&self, class: &str) -> Result<String, RuntimeClassError> {
        let settled = |known: &KnownClasses| known.is_listed || known.handlers.contains_key(class);
        // The lookup reports what is still unknown.
        let _ = timeout_at(self.deadline, watching::becomes(&mut self.known.clone(), settled)).await;
        let known = self.known.borrow();
        match known.handlers.get(class) {
            Some(handler) => Ok(handler.to_string()),
            None if known.is_listed => Err(RuntimeClassError::NotFound(class.to_owned())),
            None => Err(RuntimeClassError::Unread(class.to_owned())),
        }
    }

    /// Waits until the class is known. Cancel-safe.
    pub async fn appears(&self, class: &str) {
        let appeared = |known: &KnownClasses| known.handlers.contains_key(class);
        watching::becomes(&mut self.known.clone(), appeared).await;
    }

    /// The handler of a class, if it is known now.
    pub fn known(&self, class: &str) -> Option<String> {
        self.known.borrow().handlers.get(class).map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standalone_host_has_no_classes() {
        let error = RuntimeClasses::none().handler("kata").await.unwrap_err();
        assert_eq!(error, RuntimeClassError::NotFound("kata".to_owned()));
    }
}

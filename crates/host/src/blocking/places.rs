//! Bounds for work that may take long on behalf of others: so much for each owner, and so much in total. Does no work, and does not know
//! what an owner is.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of places that one owner takes at the same time.
pub(super) const PER_OWNER: usize = 4;

/// Maximum number of places in total. It only bounds memory: more than all pods of a node of default size take with [`PER_OWNER`].
const TOTAL: usize = 512;

/// The places. Clones share them.
#[derive(Clone, Debug)]
pub struct Places {
    total: Arc<Semaphore>,
    owners: Arc<Mutex<BTreeMap<String, Arc<Semaphore>>>>,
}

/// A place, taken until it is dropped.
#[derive(Debug)]
pub struct Place {
    _own: OwnedSemaphorePermit,
    _of_total: OwnedSemaphorePermit,
}

impl Default for Places {
    fn default() -> Self {
        Self { total: Arc::new(Semaphore::new(TOTAL)), owners: Arc::default() }
    }
}

impl Places {
    /// Waits for a place. An owner that waits for one of its own keeps none from others. Cancel-safe.
    pub async fn take(&self, owner: &str) -> Option<Place> {
        let own = self.owner(owner).acquire_owned().await.ok()?;
        let of_total = self.total.clone().acquire_owned().await.ok()?;
        Some(Place { _own: own, _of_total: of_total })
    }

    fn owner(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        // Entries whose places are neither taken nor waited for.
        owners.retain(|_, places| Arc::strong_count(places) > 1);
        owners.entry(owner.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(PER_OWNER))).clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn an_owner_takes_so_many_places_and_leaves_the_others_theirs() {
        let places = Places::default();
        let take = |owner| places.take(owner).now_or_never().flatten();
        let taken: Vec<_> = (0..PER_OWNER).map(|_| take("a").unwrap()).collect();
        assert!(take("a").is_none());
        let other = take("b").unwrap();
        drop((taken, other));
        assert!(take("a").is_some());
        assert!(take("c").is_some());
        assert!(places.owners.lock().len() <= 1, "owners without places are forgotten");
    }
}

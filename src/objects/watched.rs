//! The objects that one thing needs, watched for as long as it needs them. Decides nothing about what they are for.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{FutureExt, join_all, pending, select_all};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{ObjectRef, ObjectSource, ObjectState};
use crate::types::watching;

/// How long an object is waited for after it was asked for, before whoever needs it is told to be without.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// What is known of each object.
pub type Objects = BTreeMap<ObjectRef, ObjectState>;

#[derive(Debug)]
struct One {
    known: watch::Receiver<ObjectState>,
    /// Until when a first answer is worth waiting for.
    patience: Instant,
}

/// Objects that are watched; none at first.
#[derive(Debug, Default)]
pub struct Watched(BTreeMap<ObjectRef, One>);

impl Watched {
    /// Watches `wanted`, and nothing else.
    pub fn follow(&mut self, wanted: &[ObjectRef], source: &dyn ObjectSource) {
        self.0.retain(|object, _| wanted.contains(object));
        for object in wanted {
            if !self.0.contains_key(object) {
                let one = One { known: source.watch(object), patience: Instant::now() + FIRST_ANSWER };
                self.0.insert(object.clone(), one);
            }
        }
    }

    /// Waits for objects that nothing is known of yet, for a while after they were asked for. Cancel-safe.
    pub async fn first_answers(&mut self) {
        join_all(self.0.values_mut().map(|one| async move {
            // Neither the end of the wait nor that of the source is worth a word: what is known then is all there is.
            let _ =
                timeout_at(one.patience, one.known.wait_for(|known| *known != ObjectState::Pending)).await;
        }))
        .await;
    }

    /// What is known now. Later news wake [`Watched::changed`].
    pub fn snapshot(&mut self) -> Objects {
        let known =
            |(object, one): (&ObjectRef, &mut One)| (object.clone(), one.known.borrow_and_update().clone());
        self.0.iter_mut().map(known).collect()
    }

    /// Waits for news of an object. Cancel-safe: news stay news until they were told or are in a snapshot.
    pub async fn changed(&mut self) {
        let news: Vec<_> = self.0.values_mut().map(|one| watching::changed(&mut one.known).boxed()).collect();
        if news.is_empty() {
            return pending().await;
        }
        select_all(news).await;
    }
}

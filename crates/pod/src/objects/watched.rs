//! A set of watched objects or claims, e.g. all that one pod's volumes need. Does not know what they are for.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::{FutureExt, join_all, pending, select_all};
use hostlet_base::watching;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{ObjectRef, ObjectState};

/// How long to wait for the first state of an object after the request.
const FIRST_ANSWER: Duration = Duration::from_secs(10);

/// The state of each object.
pub type ObjectStates = BTreeMap<ObjectRef, ObjectState>;

#[derive(Clone, Debug)]
struct One<S> {
    known: watch::Receiver<S>,
    /// Deadline of the wait for the first states.
    deadline: Instant,
}

/// The watched objects; initially none. The default state is that nothing is known yet.
#[derive(Clone, Debug)]
pub struct Watched<K = ObjectRef, S = ObjectState>(BTreeMap<K, One<S>>);

impl<K, S> Default for Watched<K, S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone, S: Clone + Default + PartialEq + Send + Sync> Watched<K, S> {
    /// Watches exactly the objects in `desired`. `watch` starts to watch one. Returns whether there are new ones.
    pub fn follow(&mut self, desired: &[K], watch: impl Fn(&K) -> watch::Receiver<S>) -> bool {
        let mut is_more = false;
        self.0.retain(|object, _| desired.contains(object));
        for object in desired {
            if !self.0.contains_key(object) {
                let one = One { known: watch(object), deadline: Instant::now() + FIRST_ANSWER };
                self.0.insert(object.clone(), one);
                is_more = true;
            }
        }
        is_more
    }

    /// Waits for the first state of every object, up to the deadline. Cancel-safe.
    pub async fn first_answers(&mut self) {
        join_all(self.0.values_mut().map(|one| async move {
            // A timeout or a closed source is no error: the caller works with what is known.
            let _ = timeout_at(one.deadline, one.known.wait_for(|known| *known != S::default())).await;
        }))
        .await;
    }

    /// The current states, which count as unseen if they did before.
    pub fn known(&self) -> BTreeMap<K, S> {
        let known = |(object, one): (&K, &One<S>)| (object.clone(), one.known.borrow().clone());
        self.0.iter().map(known).collect()
    }

    /// The current states. Later changes wake [`Watched::changed`].
    pub fn snapshot(&mut self) -> BTreeMap<K, S> {
        let known =
            |(object, one): (&K, &mut One<S>)| (object.clone(), one.known.borrow_and_update().clone());
        self.0.iter_mut().map(known).collect()
    }

    /// Waits for a change of any object. Cancel-safe: a change stays pending until returned or included in a snapshot.
    pub async fn changed(&mut self) {
        let news: Vec<_> = self.0.values_mut().map(|one| watching::changed(&mut one.known).boxed()).collect();
        if news.is_empty() {
            return pending().await;
        }
        select_all(news).await;
    }
}

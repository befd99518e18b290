//! Lookups of host names, on threads of their own. The C library's resolver keeps its thread until it gives up, tens of seconds for
//! a name server that does not answer, and pods choose the names: in the pool for file work, a few of them would stop the daemon.
//! The resolver stays the C library's, so that `/etc/hosts` and `/etc/nsswitch.conf` apply.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::places::{Place, Places};

/// The addresses of a name, or the resolver's error, which all who wait for it get.
type Answer = Result<Arc<[IpAddr]>, Arc<io::Error>>;

/// The answer of a lookup, once there is one.
type Pending = watch::Receiver<Option<Answer>>;

/// Resolves a name. Blocking.
type Resolve = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Looks up names. Clones share the lookups: at most one is in progress for a name.
#[derive(Clone)]
pub struct NameLookups {
    resolve: Arc<Resolve>,
    places: Places,
    pending: Arc<Mutex<HashMap<String, Pending>>>,
}

impl Default for NameLookups {
    fn default() -> Self {
        Self::new(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl std::fmt::Debug for NameLookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NameLookups").finish_non_exhaustive()
    }
}

/// Held by a thread until it has the answer, also if it panics.
struct InProgress {
    name: String,
    lookups: NameLookups,
    _place: Place,
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.lookups.pending.lock().remove(&self.name);
    }
}

impl NameLookups {
    /// Lookups with another resolver than the C library's.
    pub fn new(resolve: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self { resolve: Arc::new(resolve), places: Places::default(), pending: Arc::default() }
    }

    /// The addresses of `name`. Of one owner, a few names are looked up at the same time; further ones wait. Has no time limit of
    /// its own: a caller that stops waiting leaves the lookup to the others and to itself, the next time. Cancel-safe.
    ///
    /// # Errors
    /// The name cannot be resolved, or no thread could be started.
    pub async fn lookup(&self, owner: &str, name: &str) -> io::Result<Arc<[IpAddr]>> {
        let known = self.pending.lock().get(name).cloned();
        let mut pending = match known {
            Some(pending) => pending,
            None => {
                let place = self.places.take(owner).await;
                self.begin(name, place.ok_or_else(|| io::Error::other("no more names are looked up"))?)?
            }
        };
        let answered = pending.wait_for(Option::is_some).await;
        match answered.as_deref() {
            Ok(Some(Ok(addresses))) => Ok(addresses.clone()),
            Ok(Some(Err(error))) => Err(io::Error::new(error.kind(), error.to_string())),
            Ok(None) | Err(_) => Err(io::Error::other("the lookup panicked")),
        }
    }

    /// Begins a lookup, unless one for the name has begun while its caller waited.
    fn begin(&self, name: &str, place: Place) -> io::Result<Pending> {
        let mut all = self.pending.lock();
        if let Some(pending) = all.get(name) {
            return Ok(pending.clone());
        }
        let (answer, pending) = watch::channel(None);
        all.insert(name.to_owned(), pending.clone());
        drop(all);
        let in_progress = InProgress { name: name.to_owned(), lookups: self.clone(), _place: place };
        let look = move || {
            let found = (in_progress.lookups.resolve)(&in_progress.name);
            drop(in_progress);
            answer.send_replace(Some(found.map(Arc::from).map_err(Arc::new)));
        };
        // With the default size of a stack, as modules of the name service switch may need it.
        thread::Builder::new().name("name-lookup".to_owned()).spawn(look)?;
        Ok(pending)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::time::timeout;

    use super::super::places::PER_OWNER;
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(50);

    /// Lookups of which those with `lost` in their name hang until the sender is dropped, and how many have begun.
    fn lookups() -> (NameLookups, mpsc::Sender<()>, Arc<AtomicUsize>) {
        let (release, hang) = mpsc::channel();
        let (hang, begun) = (Mutex::new(hang), Arc::new(AtomicUsize::new(0)));
        let count = begun.clone();
        let lookups = NameLookups::new(move |name| {
            count.fetch_add(1, Ordering::SeqCst);
            if name.contains("lost") {
                let _ = hang.lock().recv();
                return Err(io::Error::other("no name server answers"));
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        });
        (lookups, release, begun)
    }

    #[tokio::test]
    async fn names_that_hang_keep_only_their_owner_waiting() {
        let (lookups, release, begun) = lookups();
        for owner in 0..20 {
            for name in 0..2 * PER_OWNER {
                let name = format!("{owner}.{name}.lost");
                assert!(timeout(SHORT / 50, lookups.lookup(&owner.to_string(), &name)).await.is_err());
            }
        }
        let found = timeout(PATIENCE, lookups.lookup("other", "here")).await.unwrap().unwrap();
        assert_eq!(*found, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
        assert!(begun.load(Ordering::SeqCst) <= 20 * PER_OWNER + 1);
        // The owner of hanging lookups gets its answers once they end.
        assert!(timeout(SHORT, lookups.lookup("0", "here")).await.is_err());
        drop(release);
        timeout(PATIENCE, lookups.lookup("0", "here")).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn all_who_ask_for_a_name_wait_for_one_lookup() {
        let (lookups, release, begun) = lookups();
        assert!(timeout(SHORT, lookups.lookup("a", "lost")).await.is_err());
        let ask = async |owner| lookups.lookup(owner, "lost").await.unwrap_err().to_string();
        let asked = join_all([ask("a"), ask("b"), ask("c")]);
        let (errors, ()) = tokio::join!(asked, async {
            tokio::task::yield_now().await;
            drop(release);
        });
        assert_eq!(errors, vec!["no name server answers"; 3]);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        timeout(PATIENCE, ask("a")).await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 2, "no answer is kept");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_of_one_lookup() {
        let lookups = NameLookups::new(|_| panic!("on purpose"));
        for _ in 0..2 {
            let error = timeout(PATIENCE, lookups.lookup("a", "x")).await.unwrap().unwrap_err();
            assert_eq!(error.to_string(), "the lookup panicked");
        }
    }

    #[tokio::test]
    async fn the_hosts_own_names_are_resolved() {
        let found = NameLookups::default().lookup("", "localhost").await.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty(), "{found:?}");
    }
}

//! The task that follows the health of devices: a stream per driver that reports it, opened again until the driver is deregistered.
//! Decides nothing.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use hostlet_base::{sleep_until, watching};
use hostlet_plugins::InstanceId;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::shared::HealthServices;
use crate::Claims;
use crate::client::{HealthService, WatchError};
use crate::health::{DeviceId, HealthStore};

/// Pause before a stream is opened again, as upstream.
const PAUSE: Duration = Duration::from_secs(5);

/// Shortest time between two writes of the file.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

/// The task, which the app runs.
pub struct HealthTask {
    services: watch::Receiver<HealthServices>,
    store: HealthStore,
    /// Whose pods use the devices; `None` until it is known.
    claims: Option<Claims>,
}

/// A driver's stream.
struct Follower {
    driver: String,
    service: Arc<dyn HealthService>,
    store: HealthStore,
    claims: Option<Claims>,
}

impl HealthTask {
    pub(super) fn new(services: watch::Receiver<HealthServices>, store: HealthStore) -> Self {
        Self { services, store, claims: None }
    }

    /// Tells the pods of these claims about changes.
    pub(crate) fn for_claims(self, claims: Claims) -> Self {
        Self { claims: Some(claims), ..self }
    }

    /// Runs until cancelled.
    pub async fn run(mut self, cancel: CancellationToken) {
        let mut streams = JoinSet::new();
        let mut running: HashMap<String, (InstanceId, AbortHandle)> = HashMap::new();
        loop {
            self.adjust(&mut running, &mut streams);
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: the value is marked as seen only when this returns.
                () = watching::changed(&mut self.services) => {}
                // Cancel-safe: only a clock.
                () = sleep_until(self.store.next_expiry()) => {
                    for (driver, devices) in self.store.expire() {
                        notify(self.claims.as_ref(), &driver, &devices);
                    }
                    self.store.save().await;
                }
                // Cancel-safe: a notification is consumed only when returned.
                () = self.store.changed() => {
                    self.store.save().await;
                    // Its changes in the meantime are written together.
                    sleep(WRITE_PAUSE).await;
                }
                // Cancel-safe: a finished stream leaves the set only when returned.
                Some(_) = streams.join_next() => {}
            }
        }
    }

    /// Opens streams of the serving instances, and closes all others.
    fn adjust(&self, running: &mut HashMap<String, (InstanceId, AbortHandle)>, streams: &mut JoinSet<()>) {
        let serving = self.services.borrow().clone();
        running.retain(|driver, (id, stream)| {
            let serves = serving.get(driver).is_some_and(|(serving, _)| serving == id);
            if !serves {
                stream.abort();
                notify(self.claims.as_ref(), driver, &self.store.clear(driver));
            }
            serves
        });
        for (driver, (id, service)) in serving {
            if let Entry::Vacant(vacant) = running.entry(driver) {
                let (driver, store, claims) = (vacant.key().clone(), self.store.clone(), self.claims.clone());
                let follower = Follower { driver, service, store, claims };
                vacant.insert((id, streams.spawn(follower.run())));
            }
        }
    }
}

impl Follower {
    /// Follows the driver until it says that it does not report the health of devices.
    async fn run(self) {
        loop {
            let ended = self.follow().await;
            notify(self.claims.as_ref(), &self.driver, &self.store.clear(&self.driver));
            match ended {
                Err(WatchError::Unimplemented) => {
                    tracing::info!(
                        driver = self.driver,
                        "a DRA driver does not report the health of devices"
                    );
                    return;
                }
                Err(error @ WatchError::Failed(_)) => {
                    tracing::debug!(driver = self.driver, %error, "cannot follow the health of devices");
                }
                Ok(()) => {}
            }
            sleep(PAUSE).await;
        }
    }

    async fn follow(&self) -> Result<(), WatchError> {
        let mut stream = self.service.watch().await?;
        while let Some(message) = stream.next().await {
            let changed = self.store.update(&self.driver, message?);
            notify(self.claims.as_ref(), &self.driver, &changed);
        }
        Ok(())
    }
}

/// Has the statuses of pods that use these devices reported again.
fn notify(claims: Option<&Claims>, driver: &str, devices: &BTreeSet<DeviceId>) {
    if let Some(claims) = claims.filter(|_| !devices.is_empty()) {
        claims.notify_users(driver, devices);
    }
}

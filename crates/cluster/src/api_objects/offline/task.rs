//! The task that removes copies with their last user, and tries again what has failed. Does not make copies.

use std::time::Duration;

use hostlet_base::watching::changed;
use hostlet_pod::DesiredPods;
use hostlet_pod::objects::VolumeNeeds;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::objects::{OfflineObjects, OfflineUsers};

/// Pause before something is tried again that failed.
const RETRY: Duration = Duration::from_secs(60);

/// The task; run by the app.
pub struct OfflineObjectsTask {
    objects: OfflineObjects,
    desired_pods: watch::Receiver<DesiredPods>,
    volume_needs: watch::Receiver<VolumeNeeds>,
}

impl OfflineObjectsTask {
    /// The task for copies that these pods use. Copies are made from now on.
    pub fn new(objects: OfflineObjects, users: OfflineUsers) -> Self {
        let (desired_pods, volume_needs) = (users.desired_pods.clone(), users.volume_needs.clone());
        objects.set_users(users);
        Self { objects, desired_pods, volume_needs }
    }

    /// Runs until cancelled. The copies stay.
    pub async fn run(mut self, cancel: CancellationToken) {
        let objects = self.objects.clone();
        let complete = async {
            while !objects.complete().await {
                sleep(RETRY).await;
            }
            std::future::pending::<()>().await;
        };
        let remove = async {
            loop {
                self.objects.remove_unused();
                tokio::select! {
                    // Cancel-safe, both: a watch marks its value seen only when it returns.
                    () = changed(&mut self.desired_pods) => {}
                    () = changed(&mut self.volume_needs) => {}
                }
            }
        };
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: an attempt is complete at any time.
            () = complete => {}
            // Cancel-safe: rows are removed without a wait.
            () = remove => {}
        }
    }
}

//! The handle: a pod's claims are prepared, read and released through it. Reads ResourceClaims; the task calls the drivers.

use std::collections::BTreeSet;
use std::sync::Arc;

use hostlet_base::{Conflated, PodUid};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceStatus};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::drivers::Services;
use crate::health::{DeviceId, HealthStore};
use crate::ledger::{AllocatedClaim, ForgetError, Operation};
use crate::metrics::ClaimMetrics;
use crate::pod_claims::{Use, has_claims, uses};
use crate::shared::{Request, Shared, State};
use crate::source::allocated_claims;
use crate::{ClaimView, Device, NoClaims, PrepareError, ReleaseError};

/// The claims of this node's pods. Clones share the task.
#[derive(Clone)]
pub struct Claims {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) shared: Arc<Shared>,
}

impl Claims {
    /// Of a host on which no driver can be registered: pods with claims do not start, and there is nothing to release.
    pub fn none() -> Self {
        let shared = Shared {
            state: Mutex::new(State { is_recorded: true, ..State::default() }),
            source: Arc::new(NoClaims),
            services: watch::channel(Services::new()).1,
            health: HealthStore::none(),
            metrics: ClaimMetrics::default(),
            news: Conflated::default(),
        };
        // Without a receiver.
        Self { requests: mpsc::channel(1).0, shared: Arc::new(shared) }
    }

    /// Prepares all claims of a pod, unless they are prepared. Dropping the future stops waiting, not the work: whatever it leaves,
    /// [`Claims::release`] undoes.
    ///
    /// # Errors
    /// A claim may not be used, or a driver fails or is not registered. Then retry, at once when [`Claims::changed`] returns the pod.
    pub async fn prepare(&self, pod: &Pod) -> Result<(), PrepareError> {
        if !has_claims(pod) || self.is_prepared(pod) {
            return Ok(());
        }
        let began = Instant::now();
        let prepared = self.prepare_now(pod).await;
        self.shared.metrics.ended(Operation::Prepare, prepared.is_err(), began.elapsed());
        prepared
    }

    async fn prepare_now(&self, pod: &Pod) -> Result<(), PrepareError> {
        let claims = allocated_claims(&*self.shared.source, pod).await?;
        let pod = PodUid::from(pod.metadata.uid.as_deref().unwrap_or_default());
        self.require_drivers(&pod, &claims)?;
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Prepare { pod, claims, reply }).await;
        sent.map_err(|_| PrepareError::Ended)?;
        answer.await.unwrap_or(Err(PrepareError::Ended))
    }

    /// Fails before anything of the pod is recorded if a driver is not here: as long as nothing was prepared, the pod can be deleted
    /// without the driver.
    fn require_drivers(&self, pod: &PodUid, claims: &[AllocatedClaim]) -> Result<(), PrepareError> {
        let services = self.shared.services.borrow();
        let missing = |driver: &&str| !services.contains_key(*driver);
        let drivers = claims.iter().flat_map(AllocatedClaim::preparing_drivers);
        let missing: BTreeSet<String> = drivers.filter(missing).map(str::to_owned).collect();
        let Some(first) = missing.first().cloned() else { return Ok(()) };
        self.shared.state.lock().waiting.insert(pod.clone(), missing);
        Err(PrepareError::NotRegistered(first))
    }

    /// Whether all claims of a pod are prepared for it, and recorded.
    fn is_prepared(&self, pod: &Pod) -> bool {
        let state = self.shared.state.lock();
        state.is_recorded && state.all_of(pod, |claim| claim.is_prepared())
    }

    /// Whether all claims of a pod are known to be used by it, by whichever daemon they were prepared.
    pub fn holds(&self, pod: &Pod) -> bool {
        !has_claims(pod) || self.shared.state.lock().all_of(pod, |_| true)
    }

    /// The CDI names of the devices that a container gets.
    ///
    /// # Errors
    /// A claim is not prepared.
    pub fn cdi_devices(&self, pod: &Pod, container: &Container) -> Result<Vec<String>, PrepareError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let state = self.shared.state.lock();
        let mut names = Vec::new();
        for Use { claim, request, .. } in uses(pod, container)? {
            let known = state.ledger.get(namespace, &claim).ok_or_else(|| {
                PrepareError::Driver(format!(
                    "ResourceClaim {claim} in namespace {namespace} is not prepared"
                ))
            })?;
            let devices = known.devices(request.as_deref()).flat_map(|(_, device)| &device.cdi_device_ids);
            for name in devices {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        Ok(names)
    }

    /// The claims that a container uses, by name, with their devices and the drivers of these. One that is not prepared is left out.
    pub fn used(&self, pod: &Pod, container: &Container) -> Vec<(String, Vec<(String, Device)>)> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let names: BTreeSet<String> =
            uses(pod, container).into_iter().flatten().map(|used| used.claim).collect();
        let state = self.shared.state.lock();
        let known = names.into_iter().filter_map(|name| {
            let claim = state.ledger.get(namespace, &name)?;
            let devices = claim.devices(None).map(|(driver, device)| (driver.to_owned(), device.clone()));
            Some((name, devices.collect()))
        });
        known.collect()
    }

    /// The health of the devices that a container uses (KEP-4680).
    pub fn health(&self, pod: &Pod, container: &Container) -> Vec<ResourceStatus> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        if !has_claims(pod) {
            return Vec::new();
        }
        let Ok(uses) = uses(pod, container) else { return Vec::new() };
        let state = self.shared.state.lock();
        let statuses = uses.into_iter().filter_map(|used| {
            let claim = state.ledger.get(namespace, &used.claim)?;
            self.shared.health.status(claim, &used)
        });
        statuses.collect()
    }

    /// Unprepares the claims that a pod used last, and records that it uses none. None of its containers may run. Succeeds for pods without
    /// claims. Dropping the future stops waiting, not the work.
    ///
    /// # Errors
    /// A driver fails or is not registered. Then retry, at once when [`Claims::changed`] returns the pod.
    pub async fn release(&self, pod: &PodUid) -> Result<(), ReleaseError> {
        if self.is_released(pod) {
            return Ok(());
        }
        let began = Instant::now();
        let (reply, answer) = oneshot::channel();
        let sent = self.requests.send(Request::Release { pod: pod.clone(), reply }).await;
        let released = match sent {
            Ok(()) => answer.await.unwrap_or(Err(ReleaseError::Ended)),
            Err(_) => Err(ReleaseError::Ended),
        };
        self.shared.metrics.ended(Operation::Unprepare, released.is_err(), began.elapsed());
        released
    }

    /// Whether nothing is left of a pod's claims. That it waited is forgotten then.
    pub fn is_released(&self, pod: &PodUid) -> bool {
        let mut state = self.shared.state.lock();
        let is_released = state.is_recorded && state.ledger.of_pod(pod).next().is_none();
        if is_released {
            state.forget(pod);
        }
        is_released
    }

    /// The pods that use claims, by whichever daemon these were prepared.
    pub fn pods(&self) -> BTreeSet<PodUid> {
        let state = self.shared.state.lock();
        state.ledger.claims().values().flat_map(|claim| claim.pods.iter().cloned()).collect()
    }

    /// Gives up what drivers that are not registered have of a claim whose pods have ended. Returns these drivers.
    ///
    /// # Errors
    /// There is nothing to give up.
    pub async fn forget(&self, namespace: &str, name: &str) -> Result<Vec<String>, ForgetError> {
        let (reply, answer) = oneshot::channel();
        let key = (namespace.to_owned(), name.to_owned());
        let unknown = || ForgetError::Unknown(format!("{namespace}/{name}"));
        let sent = self.requests.send(Request::Forget { key, reply }).await;
        sent.map_err(|_| unknown())?;
        answer.await.unwrap_or_else(|_| Err(unknown()))
    }

    /// The claims of this node.
    pub fn views(&self) -> Vec<ClaimView> {
        let state = self.shared.state.lock();
        state.ledger.claims().iter().map(|(key, claim)| ClaimView::of(key, claim)).collect()
    }

    /// Has pods that use these devices of a driver look at them again.
    pub(crate) fn notify_users(&self, driver: &str, devices: &BTreeSet<DeviceId>) {
        let state = self.shared.state.lock();
        for claim in state.ledger.claims().values() {
            let mut own = claim.parts.get(driver).into_iter().flat_map(|part| &part.devices);
            if own.any(|device| devices.contains(&(device.pool_name.clone(), device.device_name.clone()))) {
                claim.pods.iter().for_each(|pod| self.shared.news.push(pod, |()| ()));
            }
        }
    }

    /// The next pod with news: a driver that it waits for was registered, a claim is free, a device's health changed. Has one reader.
    /// Cancel-safe.
    pub async fn changed(&self) -> PodUid {
        self.shared.news.next().await.0
    }
}

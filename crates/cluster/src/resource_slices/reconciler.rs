//! Makes the slices of the API server what the drivers said last, and deletes slices of drivers that serve no pod here. Retries
//! forever; `plan` and [`Driver`] decide.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_base::{Backoff, BackoffPolicy, sleep_until, watching};
use hostlet_telemetry::Changed;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::device::{Device, Inventory};
use super::driver::{Driver, Goal};
use super::encode::{Digest, ListForm, ObservedSlice, Pool, Version, device, left_out, name_key};
use super::handler::Dra;
use super::observed::Observed;
use super::plan::{Desired, Plan, StoredForms, Write, plan};
use super::pool::{pool_name, slice_name};
use super::settings::DraSettings;
use super::shared::Publishing;
use super::slices::{NodeOwner, SliceApi, SliceError};
use crate::api::{ApiErrorKind, follow, pause};

/// Interval of a new list, which repairs whatever a watch missed; the stock kubelet's resync period.
const RESYNC: Duration = Duration::from_secs(600);

/// Pauses between attempts to reach the API server.
const OUTAGE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
    reset_after: Duration::MAX,
};

/// Pauses before a server that does not serve ResourceSlices is looked at again: it rarely begins to.
const ABSENCE: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(300),
    reset_after: Duration::MAX,
};

/// The reconciler of all drivers.
pub(super) struct Reconciler {
    dra: Dra,
    node_name: String,
    pool: String,
    client: Client,
    node: watch::Receiver<Option<Arc<Node>>>,
    events: NodeEvents,
    publishes: bool,
    observed: Mutex<Observed>,
    /// Whether the server stores lists; `None` until a driver has one.
    stores_lists: Mutex<Option<bool>>,
    /// What the server stored differently.
    stored: Mutex<StoredForms>,
}

/// A driver's devices and the form in which they are published. They are encoded a slice at a time: all of them at once would be
/// many times as large as the inventory.
struct Encoding<'i> {
    devices: &'i [Device],
    lists: ListForm,
    keys: Vec<u64>,
    most: usize,
}

impl Encoding<'_> {
    /// The devices with these indices, in the form of v1.
    fn values(&self, indices: &[usize]) -> impl Iterator<Item = Value> {
        indices.iter().map(|index| device(&self.devices[*index], self.lists))
    }
}

impl Reconciler {
    pub(super) fn new(
        dra: &Dra,
        settings: DraSettings,
        client: Client,
        node: watch::Receiver<Option<Arc<Node>>>,
        events: NodeEvents,
    ) -> Self {
        let pool = pool_name(&settings.node);
        Self {
            dra: dra.clone(),
            observed: Mutex::new(Observed::new(settings.node.clone(), pool.clone())),
            node_name: settings.node,
            pool,
            client,
            node,
            events,
            publishes: settings.publishes,
            stores_lists: Mutex::new(None),
            stored: Mutex::new(StoredForms::new()),
        }
    }

    /// Runs forever.
    pub(super) async fn run(self) {
        let mut said = Changed::new();
        loop {
            let version = self.discover(&mut said).await;
            self.follow_and_work(version).await;
        }
    }

    /// Runs forever without publishing: removes the slices of hostlet's pool, which an earlier run published, and slices of drivers
    /// that are deregistered or rejected, or cannot be reached. Sends nothing while there is none of these.
    pub(super) async fn run_without_publishing(self) {
        loop {
            self.remove_unserved().await;
            self.dra.shared.registered.notified().await;
        }
    }

    async fn remove_unserved(&self) {
        let mut backoff = None;
        loop {
            match self.served().await {
                Ok(None) => {
                    self.dra
                        .shared
                        .with(|state| state.drivers.retain(|_, driver| driver.serving().is_some()));
                    return;
                }
                Ok(Some(version)) => {
                    self.follow_and_work(version).await;
                    if self.is_done() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot look for ResourceSlices; trying again");
                    sleep(next_pause(&OUTAGE, &mut backoff, error.retry_after())).await;
                }
            }
        }
    }

    /// Whether there is no slice of hostlet's pool, and no driver that is deregistered, rejected or cannot be reached, whose slices
    /// must be watched.
    fn is_done(&self) -> bool {
        let observed = self.observed.lock();
        let is_empty = observed.listed().is_some() && observed.drivers().is_empty();
        is_empty && self.dra.shared.with(|state| state.drivers.values().all(Driver::is_reachable))
    }

    /// The newest version that the server and hostlet know.
    async fn served(&self) -> Result<Option<Version>, SliceError> {
        for version in Version::ALL {
            if self.api(version).is_served().await? {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    fn api(&self, version: Version) -> SliceApi {
        SliceApi::new(self.client.clone(), self.node_name.clone(), version)
    }

    /// Waits until the server serves ResourceSlices.
    async fn discover(&self, said: &mut Changed<String>) -> Version {
        let mut backoff = None;
        loop {
            let (problem, policy, retry_after) = match self.served().await {
                Ok(Some(version)) => {
                    if said.see(version.to_string()) {
                        tracing::info!(
                            "publishing devices of DRA drivers as ResourceSlices of resource.k8s.io/{version}"
                        );
                    }
                    self.set_publishing(Publishing::On, None);
                    return version;
                }
                Ok(None) => {
                    let versions = Version::ALL.map(|version| version.to_string()).join(", ");
                    let problem =
                        format!("the API server serves no ResourceSlices (resource.k8s.io {versions})");
                    (problem, &ABSENCE, Duration::ZERO)
                }
                Err(error) => (error.to_string(), &OUTAGE, error.retry_after()),
            };
            if said.see(problem.clone()) {
                tracing::warn!(problem, "cannot publish devices of DRA drivers; trying again");
            }
            self.set_publishing(Publishing::Unavailable, Some(&problem));
            sleep(next_pause(policy, &mut backoff, retry_after)).await;
        }
    }

    fn set_publishing(&self, publishing: Publishing, problem: Option<&str>) {
        self.dra.shared.with(|state| {
            state.publishing = publishing;
            for driver in state.drivers.values_mut().filter(|_| problem.is_some()) {
                driver.publish_error = problem.map(str::to_owned);
            }
        });
    }

    /// Works until another list is needed, or the server does not have this version any more.
    async fn follow_and_work(&self, version: Version) {
        self.observed.lock().restart(version);
        // The server may have been upgraded.
        *self.stores_lists.lock() = None;
        let api = self.api(version);
        tokio::select! {
            // Cancel-safe: everything seen was recorded.
            () = self.follow(&api) => {}
            // Cancel-safe: a dropped write may have taken effect; the next list shows it.
            () = self.work(&api) => {}
        }
    }

    /// Follows the slices of this node.
    async fn follow(&self, api: &SliceApi) {
        let objects = |client| api.objects(client);
        follow(self.client.clone(), objects, api.config(), |event| {
            match event {
                Ok(event) => {
                    let is_listed = matches!(event, Event::InitDone);
                    let changed = self.observed.lock().watched(event, Instant::now());
                    self.mark(changed);
                    if is_listed {
                        self.mark_all();
                    }
                }
                Err(error) if error.error_kind == ApiErrorKind::NotFound => return ControlFlow::Break(()),
                Err(error) => {
                    tracing::debug!(?error, "cannot follow ResourceSlices; trying again");
                    if self.observed.lock().listed().is_none() {
                        let problem = format!("cannot list ResourceSlices: {}", error.message);
                        self.set_publishing(Publishing::Unavailable, Some(&problem));
                    }
                }
            }
            ControlFlow::Continue(())
        })
        .await;
    }

    /// Marks drivers whose slices changed. One that is unknown has slices of an earlier run, and may still register.
    fn mark(&self, changed: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        self.dra.shared.with(|state| {
            for driver in changed {
                state.drivers.entry(driver).or_insert_with(|| Driver::deregistered(now)).pace.changed(now);
            }
        });
        self.dra.shared.due.notify_one();
    }

    fn mark_all(&self) {
        let now = Instant::now();
        self.dra.shared.with(|state| state.drivers.values_mut().for_each(|driver| driver.pace.changed(now)));
        self.dra.shared.due.notify_one();
    }

    /// Reconciles drivers that are due, one after the other. Ends when the slices must be listed again.
    async fn work(&self, api: &SliceApi) {
        let mut node = self.node.clone();
        let mut owner = self.owner(&mut node);
        loop {
            let now = Instant::now();
            let listed = self.observed.lock().listed();
            if listed.is_some() {
                self.set_publishing_on();
            }
            if let Some(driver) = listed.and_then(|_| self.next(now)) {
                if self.reconcile(api, owner.as_ref(), &driver).await.is_break() {
                    return;
                }
                continue;
            }
            if !self.publishes && self.is_done() {
                return;
            }
            let resync = listed.map(|listed| listed + RESYNC);
            tokio::select! {
                // Cancel-safe: a notification is consumed only when returned.
                () = self.dra.shared.due.notified() => {}
                // Cancel-safe: a sleep. Without a complete list only the watch can continue.
                () = sleep_until(listed.and_then(|_| self.next_due(now))) => {}
                // Cancel-safe: a sleep.
                () = sleep_until(resync) => return,
                // Cancel-safe: a watch marks its value seen only when it returns.
                () = watching::changed(&mut node) => {
                    let new = self.owner(&mut node);
                    if new.is_some() && new != owner {
                        // The slices of a Node that was deleted are deleted with it.
                        self.mark_all();
                    }
                    owner = new;
                }
            }
        }
    }

    fn set_publishing_on(&self) {
        self.dra.shared.with(|state| {
            if state.publishing == Publishing::Unavailable {
                state.publishing = Publishing::On;
            }
        });
    }

    fn owner(&self, node: &mut watch::Receiver<Option<Arc<Node>>>) -> Option<NodeOwner> {
        let uid = node.borrow_and_update().as_ref().and_then(|node| node.metadata.uid.clone());
        uid.map(|uid| NodeOwner { name: self.node_name.clone(), uid })
    }

    /// A driver that is due.
    fn next(&self, now: Instant) -> Option<String> {
        self.dra.shared.with(|state| {
            let is_due = |driver: &Driver| driver.due().is_some_and(|due| due <= now);
            // The one that waits longest first, so that none is starved.
            let due_ones = state.drivers.iter().filter(|(_, driver)| is_due(driver));
            due_ones.min_by_key(|(_, driver)| driver.due()).map(|(name, _)| name.clone())
        })
    }

    /// When the next driver is due.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        // At least a little later: what is due now was handled.
        let later = now + Duration::from_millis(1);
        self.dra
            .shared
            .with(|state| state.drivers.values().filter_map(Driver::due).min())
            .map(|due| due.max(later))
    }

    /// Reconciles the slices of a driver. Breaks if the slices must be listed again first.
    async fn reconcile(&self, api: &SliceApi, owner: Option<&NodeOwner>, name: &str) -> ControlFlow<()> {
        let now = Instant::now();
        let plan = self.dra.shared.driver(name, |driver| {
            driver.pace.started(now);
            (driver.goal(now), driver.is_expired(now))
        });
        let Some((goal, is_expired)) = plan else { return ControlFlow::Continue(()) };
        let goal = if self.publishes { goal } else { Goal::Nothing };
        let mut result = match goal {
            Goal::Leave => Ok(()),
            Goal::Nothing => self.write(api, owner, name, &Inventory::default()).await,
            Goal::Devices(inventory) => self.write(api, owner, name, &inventory).await,
        };
        if result.is_ok() && is_expired {
            result = self.wipe(api, name).await;
        }
        self.record(name, result)
    }

    /// Deletes the slices that a driver published by itself: no instance of it serves pods here.
    async fn wipe(&self, api: &SliceApi, name: &str) -> Result<(), SliceError> {
        let slices = self.observed.lock().own_of_driver(name);
        for (slice, uid) in &slices {
            let result = api.delete(slice, uid).await;
            self.dra.writes.count(name, "delete", result.is_err());
            result?;
            self.observed.lock().deleted(slice);
        }
        if !slices.is_empty() {
            tracing::info!(
                driver = name,
                slices = slices.len(),
                "deleted the ResourceSlices of a DRA driver that is not registered or cannot be reached"
            );
            self.dra.shared.driver(name, |driver| driver.wiped(Instant::now()));
        }
        Ok(())
    }

    /// Records the result of a reconciliation.
    fn record(&self, name: &str, result: Result<(), SliceError>) -> ControlFlow<()> {
        let now = Instant::now();
        let (slices, own_slices) = {
            let observed = self.observed.lock();
            (observed.of_driver(name).len(), observed.own_of_driver(name).len())
        };
        let (mut is_new, mut must_list) = (false, false);
        let error = result.err();
        self.dra.shared.with(|state| {
            let Some(driver) = state.drivers.get_mut(name) else { return };
            (driver.slices, driver.own_slices) = (slices, own_slices);
            let text = error.as_ref().map(ToString::to_string);
            is_new = text.is_some() && driver.publish_error != text;
            driver.publish_error = text;
            match &error {
                None => driver.pace.succeeded(),
                Some(error) => {
                    must_list = error.may_have_created();
                    driver.pace.failed(now, error.retry_after(), rand::random());
                }
            }
            if error.is_none() && driver.is_forgotten(now) {
                state.drivers.remove(name);
            }
        });
        if let Some(error) = error.filter(|_| is_new) {
            let is_race = matches!(error.kind(), ApiErrorKind::Conflict | ApiErrorKind::NotFound);
            if is_race {
                tracing::debug!(driver = name, %error, "the slices changed meanwhile; trying again");
            } else {
                tracing::warn!(driver = name, %error, "cannot publish the devices of a DRA driver; trying again");
                let message = format!("DRA driver {name}: {error}");
                (self.events)(NodeEvent::warning("ResourceSlicesNotPublished", message));
            }
        }
        if must_list { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Writes what is needed to make the slices of a driver these devices.
    async fn write(
        &self,
        api: &SliceApi,
        owner: Option<&NodeOwner>,
        driver: &str,
        inventory: &Inventory,
    ) -> Result<(), SliceError> {
        let nobody = NodeOwner { name: self.node_name.clone(), uid: String::new() };
        // Slices of devices need an owner; the change of the Node marks the driver again.
        let owner = match owner {
            Some(owner) => owner,
            None if inventory.devices.is_empty() => &nobody,
            None => return Ok(()),
        };
        let encoding = self.encoding(api, driver, inventory).await?;
        let observed = self.observed.lock().of_driver(driver);
        let desired = Desired { keys: &encoding.keys, most: encoding.most, owner: &owner.uid };
        let stored = self.stored.lock().clone();
        let digest = |devices: &[usize]| Digest::of(encoding.values(devices));
        let plan = plan(&observed, desired, &stored, digest);
        for write in &plan.writes {
            self.carry_out(api, owner, driver, *write, &plan, &observed, &encoding).await?;
        }
        Ok(())
    }

    async fn encoding<'i>(
        &self,
        api: &SliceApi,
        driver: &str,
        inventory: &'i Inventory,
    ) -> Result<Encoding<'i>, SliceError> {
        let has_lists = inventory.has_lists();
        let lists = if has_lists && self.stores_lists(api, driver).await? {
            ListForm::Native
        } else {
            ListForm::Joined
        };
        let left_out = left_out(&inventory.devices, lists);
        self.dra.shared.driver(driver, |known| {
            if known.left_out != left_out {
                for problem in left_out.lines() {
                    tracing::warn!(driver, problem, "a part of the driver's devices cannot be published");
                }
                known.left_out = left_out;
            }
        });
        Ok(Encoding {
            devices: &inventory.devices,
            lists,
            keys: inventory.devices.iter().map(|device| name_key(&device.name)).collect(),
            most: lists.devices_max(has_lists),
        })
    }

    /// Whether the server stores lists, which is found out once per list of the slices.
    async fn stores_lists(&self, api: &SliceApi, driver: &str) -> Result<bool, SliceError> {
        let known = *self.stores_lists.lock();
        if let Some(stores) = known {
            return Ok(stores);
        }
        let stores = api.stores_lists(driver, &self.pool).await?;
        *self.stores_lists.lock() = Some(stores);
        tracing::info!(driver, stores, "found out whether the API server stores attributes with lists");
        Ok(stores)
    }

    #[expect(clippy::too_many_arguments, reason = "one write of a plan, with everything the plan is about")]
    async fn carry_out(
        &self,
        api: &SliceApi,
        owner: &NodeOwner,
        driver: &str,
        write: Write,
        plan: &Plan,
        observed: &[ObservedSlice],
        encoding: &Encoding<'_>,
    ) -> Result<(), SliceError> {
        let pool = Pool {
            name: self.pool.clone(),
            generation: plan.generation,
            resource_slice_count: i64::try_from(plan.targets.len()).unwrap_or(i64::MAX),
        };
        let devices =
            |target: usize| -> Vec<Value> { encoding.values(&plan.targets[target].devices).collect() };
        let (verb, target, result) = match write {
            Write::Create { target } => {
                let name = slice_name(&self.node_name, driver, rand::random());
                (
                    "create",
                    Some(target),
                    api.create(name, driver, pool, devices(target), owner).await.map(Some),
                )
            }
            Write::Update { base, target } => {
                let update = api.update(&observed[base], pool, devices(target), owner);
                ("update", Some(target), update.await.map(Some))
            }
            Write::SetOwner { base } => {
                ("update", None, api.set_owner(&observed[base], owner).await.map(Some))
            }
            Write::Delete { base } => {
                let slice = &observed[base];
                ("delete", None, api.delete(&slice.name, &slice.uid).await.map(|()| None))
            }
        };
        self.dra.writes.count(driver, verb, result.is_err());
        let mut known = self.observed.lock();
        match (result, write) {
            (Ok(Some(slice)), _) => {
                let stored = ObservedSlice::of(slice.clone(), api.version());
                known.store(slice, Instant::now());
                if let Some(sent) = target.map(|target| plan.digests[target]) {
                    self.remember_stored(driver, sent, stored.digest);
                }
                Ok(())
            }
            (Ok(None), Write::Delete { base }) => {
                known.deleted(&observed[base].name);
                Ok(())
            }
            (Ok(None), Write::Create { .. } | Write::Update { .. } | Write::SetOwner { .. }) => Ok(()),
            (Err(error), Write::Update { base, .. } | Write::SetOwner { base }) => {
                if error.kind() == ApiErrorKind::NotFound {
                    known.forget(&observed[base].name);
                }
                Err(error)
            }
            (Err(error), Write::Create { .. } | Write::Delete { .. }) => Err(error),
        }
    }

    /// Remembers a difference between what was sent and what the server stored: sending it again would change nothing.
    fn remember_stored(&self, driver: &str, sent: Digest, is: Digest) {
        /// Number of differences remembered; more than the slices of any driver that hostlet publishes.
        const MOST: usize = 256;
        let mut stored = self.stored.lock();
        if sent == is {
            stored.remove(&sent);
            return;
        }
        if stored.insert(sent, is) != Some(is) {
            tracing::warn!(
                driver,
                "the API server did not store everything that was sent about the driver's devices"
            );
        }
        while stored.len() > MOST {
            stored.pop_first();
        }
    }
}

/// The pause after another failure of discovery.
fn next_pause(
    policy: &BackoffPolicy,
    backoff: &mut Option<Backoff<Instant>>,
    retry_after: Duration,
) -> Duration {
    let now = Instant::now();
    let next = Backoff::next(*backoff, policy, now, now);
    *backoff = Some(next);
    pause(next.delay, retry_after, rand::random())
}

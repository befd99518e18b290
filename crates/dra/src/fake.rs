//! A driver and an API server in memory for tests. The driver does what it is scripted to, remembers each call, and says what broke the
//! rules of its interface.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::Conflated;
use hostlet_pod::objects::ObjectError;
use k8s_openapi::api::resource::v1::ResourceClaim;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::sleep;
use tonic::Code;

use crate::drivers::Services;
use crate::health::HealthStore;
use crate::{
    Answers, CallError, ClaimFailed, ClaimRef, ClaimSource, Claims, ClaimsSettings, ClaimsTask, Device,
    DriverService, Operation,
};

/// How long a call that hangs lasts: the deadline of each call.
const DEADLINE: Duration = Duration::from_secs(45);

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It fails, and was not done.
    Fails,
    /// It fails for each claim, and was not done.
    FailsClaims,
    /// It is done, and nothing is said of any claim.
    SaysNothing,
    /// It is done, and the answer is lost.
    Lost,
    /// Nothing happens until the deadline.
    Hangs,
    /// It is done, and answered late.
    Late,
}

/// A driver. Clones share it.
#[derive(Clone)]
pub struct FakeDriver(Arc<Mutex<Inner>>);

struct Inner {
    name: String,
    prepared: BTreeSet<String>,
    under_way: BTreeSet<String>,
    script: VecDeque<Outcome>,
    calls: Vec<(Operation, String)>,
    wrong: Vec<String>,
}

impl FakeDriver {
    /// A driver that does what it is asked to.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            name: name.to_owned(),
            prepared: BTreeSet::new(),
            under_way: BTreeSet::new(),
            script: VecDeque::new(),
            calls: Vec::new(),
            wrong: Vec::new(),
        })))
    }

    /// Adds what becomes of a next call.
    pub fn next(&self, outcome: Outcome) {
        self.0.lock().script.push_back(outcome);
    }

    /// From now on all calls are done.
    pub fn heal(&self) {
        self.0.lock().script.clear();
    }

    /// The claims that are prepared, by UID.
    pub fn prepared(&self) -> BTreeSet<String> {
        self.0.lock().prepared.clone()
    }

    /// The host booted: nothing is prepared anymore.
    pub fn reboot(&self) {
        self.0.lock().prepared.clear();
    }

    /// The calls so far, a claim's UID each.
    pub fn calls(&self) -> Vec<(Operation, String)> {
        self.0.lock().calls.clone()
    }

    /// What must not have happened.
    pub fn wrong(&self) -> Vec<String> {
        self.0.lock().wrong.clone()
    }

    /// Takes a call, and keeps those of one claim apart until the guard is dropped.
    fn begin(&self, operation: Operation, claims: &[ClaimRef]) -> (Option<Outcome>, UnderWay) {
        let mut inner = self.0.lock();
        for claim in claims {
            if !inner.under_way.insert(claim.uid.clone()) {
                inner.wrong.push(format!("two calls about claim {} at once", claim.uid));
            }
            inner.calls.push((operation, claim.uid.clone()));
        }
        let claims = claims.iter().map(|claim| claim.uid.clone()).collect();
        (inner.script.pop_front(), UnderWay { driver: self.clone(), claims })
    }

    /// What becomes of the call; `None` if the answer is complete.
    async fn perform(&self, outcome: Option<Outcome>, work: impl FnOnce(&mut Inner)) -> Option<CallError> {
        let error = |code: Code| Some(CallError { code, message: "scripted".to_owned() });
        match outcome {
            Some(Outcome::Fails) => return error(Code::Internal),
            Some(Outcome::Hangs) => {
                sleep(DEADLINE).await;
                return error(Code::DeadlineExceeded);
            }
            Some(Outcome::Late) => sleep(DEADLINE / 2).await,
            Some(Outcome::FailsClaims) => return None,
            Some(Outcome::SaysNothing | Outcome::Lost) | None => {}
        }
        work(&mut self.0.lock());
        if outcome == Some(Outcome::Lost) { error(Code::Unavailable) } else { None }
    }
}

/// Calls under way.
struct UnderWay {
    driver: FakeDriver,
    claims: BTreeSet<String>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.driver.0.lock().under_way.retain(|claim| !self.claims.contains(claim));
    }
}

/// The answers about claims, as far as the outcome lets the driver say something.
fn answers<T>(claims: &[ClaimRef], outcome: Option<Outcome>, answer: impl Fn(&ClaimRef) -> T) -> Answers<T> {
    let answer = |claim: &ClaimRef| {
        let fails = outcome == Some(Outcome::FailsClaims);
        if fails { Err(ClaimFailed("no device".to_owned())) } else { Ok(answer(claim)) }
    };
    let said = claims.iter().filter(|_| outcome != Some(Outcome::SaysNothing));
    said.map(|claim| (claim.uid.clone(), answer(claim))).collect()
}

#[async_trait]
impl DriverService for FakeDriver {
    async fn prepare(&self, claims: &[ClaimRef]) -> Result<Answers<Vec<Device>>, CallError> {
        let (outcome, _under_way) = self.begin(Operation::Prepare, claims);
        let uids = claims.iter().map(|claim| claim.uid.clone());
        let failed = self.perform(outcome, |inner| inner.prepared.extend(uids)).await;
        let name = self.0.lock().name.clone();
        let device = |claim: &ClaimRef| {
            vec![Device {
                pool_name: "pool".to_owned(),
                device_name: format!("device-{}", claim.uid),
                share_id: None,
                request_names: vec!["r".to_owned()],
                cdi_device_ids: vec![format!("{name}/device={}", claim.uid)],
            }]
        };
        failed.map_or_else(|| Ok(answers(claims, outcome, device)), Err)
    }

    async fn unprepare(&self, claims: &[ClaimRef]) -> Result<Answers<()>, CallError> {
        let (outcome, _under_way) = self.begin(Operation::Unprepare, claims);
        let work = |inner: &mut Inner| {
            for claim in claims {
                inner.prepared.remove(&claim.uid);
            }
        };
        let failed = self.perform(outcome, work).await;
        failed.map_or_else(|| Ok(answers(claims, outcome, |_| ())), Err)
    }
}

/// An API server that has the same claims in each namespace. Clones share it.
#[derive(Clone, Default)]
pub struct FakeClaims(Arc<Mutex<BTreeMap<String, ResourceClaim>>>);

impl FakeClaims {
    /// Stores a claim, which was allocated devices of these drivers and is reserved for these pods.
    pub fn set(&self, name: &str, uid: &str, drivers: &[&str], pods: &[&str]) {
        let device = |driver: &&str| json!({"driver": driver, "pool": "pool", "device": "d", "request": "r"});
        let user = |pod: &&str| json!({"resource": "pods", "name": pod, "uid": pod});
        let claim = json!({
            "metadata": {"name": name, "uid": uid},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": drivers.iter().map(device).collect::<Vec<_>>()}},
                "reservedFor": pods.iter().map(user).collect::<Vec<_>>(),
            },
        });
        if let Ok(claim) = serde_json::from_value(claim) {
            self.0.lock().insert(name.to_owned(), claim);
        }
    }

    /// All devices of a claim skip these operations.
    pub fn skip(&self, name: &str, operations: &[&str]) {
        let mut claims = self.0.lock();
        let status = claims.get_mut(name).and_then(|claim| claim.status.as_mut());
        let devices = status.and_then(|status| status.allocation.as_mut()?.devices.as_mut());
        for result in devices.into_iter().flat_map(|devices| devices.results.iter_mut().flatten()) {
            let operations = operations.iter().map(|operation| (*operation).to_owned());
            result.skip_node_operations = Some(operations.collect());
        }
    }
}

#[async_trait]
impl ClaimSource for FakeClaims {
    async fn claim(&self, namespace: &str, name: &str) -> Result<ResourceClaim, ObjectError> {
        let mut found = self.0.lock().get(name).cloned();
        if let Some(claim) = &mut found {
            claim.metadata.namespace = Some(namespace.to_owned());
        }
        found.ok_or_else(|| {
            ObjectError::NotFound(format!("resourceclaims.resource.k8s.io {name:?} not found"))
        })
    }
}

/// A driver, an API server, and the claims of a node that has them, for tests of other crates.
pub struct FakeDevices {
    /// The API server.
    pub api: FakeClaims,
    /// The driver.
    pub driver: FakeDriver,
    name: String,
    services: watch::Sender<Services>,
}

impl FakeDevices {
    /// A driver of this name that is not registered, and what a test runs beside it. The files of claims are in `root`.
    pub fn new(root: &Path, name: &str) -> (Self, Claims, ClaimsTask) {
        let (api, services) = (FakeClaims::default(), watch::Sender::default());
        let settings =
            ClaimsSettings { root: root.to_owned(), boot: "boot".to_owned(), source: Arc::new(api.clone()) };
        let (task, claims) =
            Claims::with_services(settings, services.subscribe(), HealthStore::none(), Conflated::default());
        (Self { api, driver: FakeDriver::new(name), name: name.to_owned(), services }, claims, task)
    }

    /// The driver registers.
    pub fn register(&self) {
        let service: Arc<dyn DriverService> = Arc::new(self.driver.clone());
        self.services.send_modify(|services| drop(services.insert(self.name.clone(), service)));
    }

    /// The driver is deregistered.
    pub fn deregister(&self) {
        self.services.send_modify(BTreeMap::clear);
    }
}

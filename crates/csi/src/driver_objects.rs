//! The cluster's CSIDriver objects: what drivers want of a kubelet (Kubernetes docs, "CSIDriver"). Only their specs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::watching;
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// How long after start-up a volume waits for the first list before its driver counts as one without an object.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// What a kubelet uses of a spec. The rest is for the scheduler.
pub fn used_of_spec(spec: CSIDriverSpec) -> CSIDriverSpec {
    CSIDriverSpec { storage_capacity: None, prevent_pod_scheduling_if_missing: None, ..spec }
}

/// The CSIDriver objects that are known, from the API server, from an earlier daemon or from manifests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownDrivers {
    /// Specs by the driver's name.
    pub specs: BTreeMap<Box<str>, Arc<CSIDriverSpec>>,
    /// Whether they were listed, so that a driver that is not here has no object.
    pub is_listed: bool,
}

/// The known CSIDriver objects. Clones share them.
#[derive(Clone, Debug)]
pub struct DriverObjects {
    known: watch::Receiver<KnownDrivers>,
    /// Deadline of the wait for the first list.
    deadline: Instant,
}

impl DriverObjects {
    /// The objects as they become known.
    pub fn new(known: watch::Receiver<KnownDrivers>) -> Self {
        Self { known, deadline: Instant::now() + FIRST_LIST_TIMEOUT }
    }

    /// Those of a host without any.
    pub fn none() -> Self {
        let known = watch::Sender::new(KnownDrivers { is_listed: true, ..KnownDrivers::default() });
        Self::new(known.subscribe())
    }

    /// Waits for the first list of the objects, up to a deadline after start-up, unless all of `drivers` are known. Cancel-safe.
    pub async fn settled(&self, drivers: &[String]) {
        let settled = |known: &KnownDrivers| {
            known.is_listed || drivers.iter().all(|driver| known.specs.contains_key(driver.as_str()))
        };
        // What is still unknown then counts as missing.
        let _ = timeout_at(self.deadline, watching::becomes(&mut self.known.clone(), settled)).await;
    }

    /// What is known now.
    pub fn now(&self) -> KnownDrivers {
        self.known.borrow().clone()
    }

    /// A receiver of changes.
    pub fn subscribe(&self) -> watch::Receiver<KnownDrivers> {
        self.known.clone()
    }
}

//! What everything on the node uses, for all who ask: measured when somebody asks, once for all who ask within a second.

use std::sync::{Arc, Once};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::accounting::Accounting;
use super::collect::{Host, Measurement};
use super::error::MeasureError;
use super::node_usage::NodeUsage;
use super::rates::Rates;
use super::recent::Recent;
use super::settings::UsageSettings;
use super::usage::Detail;
use crate::pleg::Cache;
use hostlet_base::WallClock;
use hostlet_host::cgroup::CgroupError;
use hostlet_host::file_work;

/// How long a measurement is used again.
const AGE: Duration = Duration::from_secs(1);

type Measured = Result<Arc<NodeUsage>, Arc<MeasureError>>;

/// The handle. Clones share measurements.
#[derive(Clone)]
pub struct UsageStats(Arc<Shared>);

struct Shared {
    source: Arc<Source>,
    recent: Recent<Measured>,
}

/// What measurements are made of.
struct Source {
    host: Host,
    observed: Cache,
    clock: WallClock,
    rates: Mutex<Rates>,
    /// The warning about the runtime's cgroup.
    no_runtime: Once,
}

impl UsageStats {
    /// The handle. Nothing is measured before somebody asks.
    pub fn new(settings: UsageSettings) -> Self {
        let UsageSettings { cgroups, observed, proc, root_dir, memory, swap, booted_at, system, clock } =
            settings;
        let accounting = Accounting::of(&cgroups);
        let host = Host { cgroups, accounting, proc, root_dir, memory, swap, booted_at, system };
        let source = Source { host, observed, clock, rates: Mutex::default(), no_runtime: Once::new() };
        Self(Arc::new(Shared { source: Arc::new(source), recent: Recent::new(AGE) }))
    }

    /// What everything on the node uses, as of at most a second ago.
    pub async fn usage(&self, detail: Detail) -> Measured {
        let shared = &*self.0;
        let source = shared.source.clone();
        let measure = || -> BoxFuture<'static, Measured> {
            Box::pin(async move { measure(source, detail).await.map(Arc::new).map_err(Arc::new) })
        };
        shared.recent.get(detail, Result::is_ok, measure).await
    }
}

async fn measure(source: Arc<Source>, detail: Detail) -> Result<NodeUsage, MeasureError> {
    let measured = file_work(move || source.measure(detail)).await;
    let measured = measured.map_err(|source| MeasureError::Panicked { source })?;
    measured.map_err(|source| MeasureError::Cgroups { source })
}

impl Source {
    /// Measures everything. Blocking.
    fn measure(&self, detail: Detail) -> Result<NodeUsage, CgroupError> {
        // Only one measurement at a time, and each begins after the one before it.
        let mut rates = self.rates.lock();
        let measurement = Measurement::new(&self.host, &mut rates, detail, self.clock.now());
        let usage = measurement.measure(&self.observed.last_known())?;
        if let (Some(cgroup), None) = (&self.host.system.runtime, &usage.runtime) {
            self.no_runtime.call_once(|| {
                tracing::warn!(
                    cgroup,
                    "the cgroup of --runtime-cgroups does not exist; it has no statistics"
                );
            });
        }
        Ok(usage)
    }
}

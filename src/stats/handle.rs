//! What everything on the node uses, for all who ask: measured when somebody asks, once for all who ask within a second.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::accounting::Accounting;
use super::collect::{Host, Measurement};
use super::error::MeasureError;
use super::node_usage::NodeUsage;
use super::rates::Rates;
use super::recent::Recent;
use super::usage::Detail;
use crate::cgroup::Cgroups;
use crate::pleg::Cache;
use crate::sys::file_work;
use crate::types::WallClock;

/// How long a measurement is used again.
const AGE: Duration = Duration::from_secs(1);

/// Dependencies of the measurements.
#[derive(Clone)]
pub struct UsageSettings {
    /// The cgroups of pods.
    pub cgroups: Arc<Cgroups>,
    /// The observed pods.
    pub observed: Cache,
    /// Mount point of procfs, `/proc` outside tests.
    pub proc: PathBuf,
    /// The daemon's directory.
    pub root_dir: PathBuf,
    /// Memory of the host, bytes.
    pub memory: u64,
    /// Swap of the host, bytes.
    pub swap: u64,
    /// When the host booted.
    pub booted_at: Timestamp,
    /// The runtime's cgroup (`--runtime-cgroups`).
    pub runtime_cgroup: Option<String>,
    /// The wall clock.
    pub clock: WallClock,
}

type Measured = Result<Arc<NodeUsage>, Arc<MeasureError>>;

/// The handle. Clones share measurements.
#[derive(Clone)]
pub struct UsageStats(Arc<Shared>);

struct Shared {
    host: Arc<Host>,
    observed: Cache,
    clock: WallClock,
    rates: Arc<Mutex<Rates>>,
    all: Recent<Measured>,
    cpu_and_memory: Recent<Measured>,
}

impl UsageStats {
    /// The handle. Nothing is measured before somebody asks.
    pub fn new(settings: UsageSettings) -> Self {
        let UsageSettings {
            cgroups,
            observed,
            proc,
            root_dir,
            memory,
            swap,
            booted_at,
            runtime_cgroup,
            clock,
        } = settings;
        let accounting = Accounting::of(&cgroups);
        let host = Host { cgroups, accounting, proc, root_dir, memory, swap, booted_at, runtime_cgroup };
        Self(Arc::new(Shared {
            host: Arc::new(host),
            observed,
            clock,
            rates: Arc::default(),
            all: Recent::new(AGE),
            cpu_and_memory: Recent::new(AGE),
        }))
    }

    /// What everything on the node uses, as of at most a second ago.
    pub async fn usage(&self, detail: Detail) -> Measured {
        let shared = &*self.0;
        let recent = match detail {
            Detail::All => &shared.all,
            Detail::CpuAndMemory => match shared.all.current() {
                // What has more has this.
                Some(all) => return all.await,
                None => &shared.cpu_and_memory,
            },
        };
        let measured = recent.get(Result::is_ok, || {
            let (host, rates) = (shared.host.clone(), shared.rates.clone());
            let (observed, clock) = (shared.observed.clone(), shared.clock.clone());
            Box::pin(async move {
                let work = move || {
                    let now = (clock.now(), Instant::now());
                    let observed = observed.last_known();
                    // Only one measurement at a time.
                    let mut rates = rates.lock();
                    Measurement::new(&host, &mut rates, detail, now).measure(&observed)
                };
                match file_work(work).await {
                    Ok(Ok(usage)) => Ok(Arc::new(usage)),
                    Ok(Err(source)) => Err(Arc::new(MeasureError::Cgroups { source })),
                    Err(source) => Err(Arc::new(MeasureError::Panicked { source })),
                }
            })
        });
        measured.await
    }
}

//! Metrics of the kernel's log. Counts only what the observer reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hostlet_telemetry::{Metrics, Reading};
use parking_lot::Mutex;

use super::conditions::KernelCondition;
use super::problems::KernelProblems;

/// What was read since the daemon started.
#[derive(Debug)]
pub(super) struct KernelCounts {
    problems: BTreeMap<&'static str, AtomicU64>,
    overwritten: AtomicU64,
    is_read: AtomicBool,
    /// The conditions that hold.
    holding: Mutex<Vec<KernelCondition>>,
}

impl Default for KernelCounts {
    fn default() -> Self {
        Self {
            problems: KernelProblems::reasons().map(|reason| (reason, AtomicU64::default())).collect(),
            overwritten: AtomicU64::default(),
            is_read: AtomicBool::default(),
            holding: Mutex::default(),
        }
    }
}

impl KernelCounts {
    pub(super) fn problem(&self, reason: &str) {
        if let Some(count) = self.problems.get(reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn overwritten(&self, records: u64) {
        self.overwritten.fetch_add(records, Ordering::Relaxed);
    }

    pub(super) fn set_read(&self, is_read: bool) {
        self.is_read.store(is_read, Ordering::Relaxed);
    }

    pub(super) fn set_holding(&self, conditions: impl Iterator<Item = KernelCondition>) {
        *self.holding.lock() = conditions.collect();
    }

    pub(super) fn register(self: &Arc<Self>, metrics: &Metrics) {
        let counts = self.clone();
        let help = "Problems that the kernel logged, by the reason of their events, with those whose events were suppressed.";
        metrics.register_counter("hostlet_kernel_problems", help, move || {
            let reading = |(reason, count): (&&str, &AtomicU64)| {
                (vec![("reason", (*reason).to_owned())], count.load(Ordering::Relaxed))
            };
            counts.problems.iter().map(reading).collect()
        });
        let counts = self.clone();
        let help = "Whether a problem that the kernel logged lasts since the host booted, by the condition of the Node. Without series while the log cannot be read.";
        metrics.register_gauge("hostlet_kernel_condition", help, move || counts.conditions());
        let counts = self.clone();
        let help = "Records of the kernel's log that the kernel overwrote before they were read.";
        metrics.register_counter("hostlet_kernel_log_overwritten", help, move || {
            vec![(Vec::new(), counts.overwritten.load(Ordering::Relaxed))]
        });
        let counts = self.clone();
        let help = "Whether the kernel's log can be read.";
        metrics.register_gauge("hostlet_kernel_log_readable", help, move || {
            vec![(Vec::new(), counts.is_read.load(Ordering::Relaxed).into())]
        });
    }

    fn conditions(&self) -> Vec<Reading> {
        if !self.is_read.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let holding = self.holding.lock();
        let reading = |condition: KernelCondition| {
            (vec![("condition", condition.name().to_owned())], holding.contains(&condition).into())
        };
        KernelCondition::ALL.map(reading).into()
    }
}

//! How many certificates are in which state, for upstream's metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_telemetry::{Metrics, Reading};
use parking_lot::Mutex;

use super::state::Counted;

/// The counted certificates. Clones share them.
#[derive(Clone, Default)]
pub(super) struct CertificateCounts(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    /// Number of certificates ever counted.
    last: u64,
    /// Signer and state of each.
    all: BTreeMap<u64, (String, Counted)>,
}

impl CertificateCounts {
    /// Adds the metric, by the steady clock.
    pub(super) fn register(&self, metrics: &Metrics, clock: WallClock) {
        let counts = self.clone();
        metrics.register_gauge(
            "kubelet_podcertificate_states",
            "Gauge vector reporting the number of pod certificate projected volume sources, faceted by signer_name and state.",
            move || counts.read(&clock),
        );
    }

    /// Counts one more.
    pub(super) fn add(&self, signer: &str) -> CountedCertificate {
        let mut inner = self.0.lock();
        inner.last += 1;
        let number = inner.last;
        inner.all.insert(number, (signer.to_owned(), Counted::NotYetIssued));
        CountedCertificate { counts: self.clone(), number }
    }

    fn read(&self, clock: &WallClock) -> Vec<Reading> {
        let now = clock.steady();
        let mut numbers: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for (signer, counted) in self.0.lock().all.values() {
            *numbers.entry((signer.clone(), counted.label(now))).or_default() += 1;
        }
        let labels = |signer, state: &str| vec![("signer_name", signer), ("state", state.to_owned())];
        numbers.into_iter().map(|((signer, state), number)| (labels(signer, state), number)).collect()
    }
}

/// A counted certificate, until it is dropped.
pub(super) struct CountedCertificate {
    counts: CertificateCounts,
    number: u64,
}

impl CountedCertificate {
    /// Sets its state.
    pub(super) fn set(&self, counted: Counted) {
        if let Some((_, known)) = self.counts.0.lock().all.get_mut(&self.number) {
            *known = counted;
        }
    }
}

impl Drop for CountedCertificate {
    fn drop(&mut self) {
        self.counts.0.lock().all.remove(&self.number);
    }
}

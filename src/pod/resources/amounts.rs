//! CPU and memory amounts of containers and pods. Quantities were validated when the pod was read; one that cannot be
//! read counts as unset.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::pod::view::PodView;
use crate::types::Quantity;

const MIN_SHARES: i64 = 2;
const MAX_SHARES: i64 = 262_144;
const MIN_QUOTA_MICROS: i64 = 1000;

/// CPU and memory of one list of requests or limits; none when not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a CPU.
    pub milli_cpu: Option<i64>,
    /// Bytes.
    pub memory: Option<i64>,
}

impl Amounts {
    /// The amounts in a list of resources.
    pub fn of(list: Option<&BTreeMap<String, ApiQuantity>>) -> Self {
        let quantity = |name: &str| Quantity::parse(&list?.get(name)?.0).ok();
        Self {
            milli_cpu: quantity("cpu").map(|cpu| cpu.milli_value()),
            memory: quantity("memory").map(|memory| memory.value()),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.merge(other, i64::saturating_add)
    }

    fn max(self, other: Self) -> Self {
        self.merge(other, i64::max)
    }

    fn merge(self, other: Self, merge: impl Fn(i64, i64) -> i64) -> Self {
        let both = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (Some(a), Some(b)) => Some(merge(a, b)),
            (a, b) => a.or(b),
        };
        Self { milli_cpu: both(self.milli_cpu, other.milli_cpu), memory: both(self.memory, other.memory) }
    }
}

/// CPU shares of an amount of CPU, within what the kernel takes.
pub fn milli_cpu_to_shares(milli_cpu: i64) -> i64 {
    (milli_cpu.saturating_mul(1024) / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// CFS quota of an amount of CPU, in microseconds per period; 0, for none, when the amount is 0.
pub fn milli_cpu_to_quota(milli_cpu: i64, period_micros: i64) -> i64 {
    if milli_cpu == 0 { 0 } else { (milli_cpu.saturating_mul(period_micros) / 1000).max(MIN_QUOTA_MICROS) }
}

/// What the pod's containers request together, without overhead.
pub fn pod_requests(pod: &Pod) -> Amounts {
    let view = PodView::from(pod);
    let own = view.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    total(view, own, |container| container.resources.as_ref()?.requests.as_ref())
}

/// The sum of the limits that the pod's containers have, without overhead.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let view = PodView::from(pod);
    let own = view.spec.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    total(view, own, |container| container.resources.as_ref()?.limits.as_ref())
}

/// Regular containers and sidecars run together; an init container runs beside the sidecars started before it. What the
/// pod sets itself wins.
fn total<'a>(
    pod: PodView<'a>,
    own: Option<&BTreeMap<String, ApiQuantity>>,
    list: impl Fn(&'a Container) -> Option<&'a BTreeMap<String, ApiQuantity>>,
) -> Amounts {
    let mut sidecars = Amounts::default();
    let mut init_peak = Amounts::default();
    for container in pod.init_containers() {
        let amounts = Amounts::of(list(container));
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(amounts);
            init_peak = init_peak.max(sidecars);
        } else {
            init_peak = init_peak.max(sidecars.plus(amounts));
        }
    }
    let regular = pod.spec.containers.iter().map(|container| Amounts::of(list(container)));
    let together = regular.fold(sidecars, Amounts::plus).max(init_peak);
    let own = Amounts::of(own);
    Amounts { milli_cpu: own.milli_cpu.or(together.milli_cpu), memory: own.memory.or(together.memory) }
}

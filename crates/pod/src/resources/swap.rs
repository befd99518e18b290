//! Which containers may swap (KEP-2400). Pure.

use hostlet_base::QosClass;
use k8s_openapi::api::core::v1::{Container, Pod};

use super::amounts::Amounts;
use super::qos_class;
use crate::is_critical;

/// Whether a container swaps where `swapBehavior` is `LimitedSwap`: only one of a burstable pod that requests memory, less than its
/// limit, and none of a critical pod.
pub fn may_swap(pod: &Pod, container: &Container) -> bool {
    let own = container.resources.as_ref();
    let (requests, limits) = (Amounts::requested(own), Amounts::limited(own));
    let has_range = requests.memory.unwrap_or(0) != limits.memory.unwrap_or(0);
    has_range && qos_class(pod) == QosClass::Burstable && !is_critical(pod)
}

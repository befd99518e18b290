//! When pods are evicted because the node runs out of a resource. Says nothing about how that is observed.

use std::time::Duration;

use crate::node::{Signal, Threshold};

/// A threshold of a signal, with what follows when it is crossed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionThreshold {
    /// What is observed.
    pub signal: Signal,
    /// What has to be left.
    pub value: Threshold,
    /// How long less has to be left before a pod is evicted. Zero for a hard threshold, as upstream, which knows no other difference.
    pub grace: Duration,
    /// How much more has to be left before the threshold counts as no longer crossed (`evictionMinimumReclaim`).
    pub min_reclaim: Option<Threshold>,
}

impl EvictionThreshold {
    /// Whether pods are evicted at once.
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// Shares of time for which tasks may wait for memory, in percent; `None` if they do not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallLimits {
    /// While some tasks wait (`evictionStallSome`).
    pub some: Option<u8>,
    /// While all tasks wait (`evictionStallFull`).
    pub full: Option<u8>,
}

/// When pods are evicted, and how. Names in parentheses are fields of KubeletConfiguration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvictionSettings {
    /// The thresholds (`evictionHard`, `evictionSoft`), hard ones first.
    pub thresholds: Vec<EvictionThreshold>,
    /// How long a pressure is reported after it was last there (`evictionPressureTransitionPeriod`).
    pub pressure_transition: Duration,
    /// Longest grace period of a pod at a soft threshold, seconds (`evictionMaxPodGracePeriod`).
    pub max_pod_grace_seconds: i64,
    /// Whether the kernel reports that a threshold of memory may be crossed, before the next look (`kernelMemcgNotification`).
    pub kernel_notifies: bool,
    /// How long tasks may wait for memory before a pod is evicted whatever is available (HostletConfiguration).
    pub stalls: StallLimits,
    /// Whether memory in huge pages is not available to others (feature gate `HugepageAwareEviction`).
    pub knows_huge_pages: bool,
    /// Whether images and writable layers may be on different filesystems (feature gate `KubeletSeparateDiskGC`).
    pub may_split_disks: bool,
}

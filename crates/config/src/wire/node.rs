//! The small objects of the document: shutdown, memory, swap, user namespaces, back-off, tracing.

use std::collections::BTreeMap;

use hostlet_base::GoDuration;
use serde::{Deserialize, Serialize};

use super::policies::SwapBehavior;
use super::scalars::{QuantityText, blank_is_unset};

/// `memorySwap`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct MemorySwap {
    #[serde(deserialize_with = "blank_is_unset")]
    pub(crate) swap_behavior: Option<SwapBehavior>,
}

/// `crashLoopBackOff`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct CrashLoopBackOff {
    pub(crate) max_container_restart_period: Option<GoDuration>,
}

/// An item of `shutdownGracePeriodByPodPriority`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct PriorityShutdown {
    pub priority: Option<i32>,
    pub(crate) shutdown_grace_period_seconds: Option<i64>,
}

/// An item of `reservedMemory`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct MemoryReservation {
    pub(crate) numa_node: Option<i32>,
    pub limits: BTreeMap<String, QuantityText>,
}

/// `tracing`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Tracing {
    pub endpoint: Option<String>,
    pub(crate) sampling_rate_per_million: Option<i32>,
}

/// `userNamespaces`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct UserNamespaces {
    pub ids_per_pod: Option<i64>,
}

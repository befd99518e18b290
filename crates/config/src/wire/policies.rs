//! Fields with a fixed set of values.

use serde::{Deserialize, Serialize};

/// `cgroupDriver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CgroupDriver {
    Cgroupfs,
    Systemd,
}

/// `configMapAndSecretChangeDetectionStrategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChangeDetection {
    Get,
    Cache,
    Watch,
}

/// `cpuManagerPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CpuManagerPolicy {
    None,
    Static,
}

/// `imagePullCredentialsVerificationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CredentialsVerification {
    NeverVerify,
    NeverVerifyPreloadedImages,
    NeverVerifyAllowlistedImages,
    AlwaysVerify,
}

/// `hairpinMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HairpinMode {
    PromiscuousBridge,
    HairpinVeth,
    None,
}

/// `memoryManagerPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemoryManagerPolicy {
    None,
    Static,
    BestEffort,
}

/// `memoryReservationPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MemoryReservationPolicy {
    None,
    TieredReservation,
}

/// `memorySwap.swapBehavior`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SwapBehavior {
    NoSwap,
    LimitedSwap,
}

/// `tlsMinVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TlsVersion {
    VersionTLS10,
    VersionTLS11,
    VersionTLS12,
    VersionTLS13,
}

/// `topologyManagerPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyManagerPolicy {
    /// NUMA nodes are not looked at.
    None,
    /// The best of them are used.
    BestEffort,
    /// Pods that do not get the best ones are rejected.
    Restricted,
    /// Pods that need several are rejected.
    SingleNumaNode,
}

/// `topologyManagerScope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyManagerScope {
    /// For each container.
    Container,
    /// For each pod.
    Pod,
}

//! Which endpoints the node's API has besides those that it always has.

use super::gates;
use super::wire::KubeletConfiguration;

/// The endpoints of the debugging handlers that can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// `/logs/` (`enableSystemLogHandler`).
    pub system_logs: bool,
    /// The logs of services at `/logs/` (`enableSystemLogQuery`).
    pub system_log_query: bool,
    /// `/debug/pprof/` (`enableProfilingHandler`).
    pub profiling: bool,
    /// `/debug/flags/v` (`enableDebugFlagsHandler`).
    pub debug_flags: bool,
    /// `/statusz` (gate `ComponentStatusz`).
    pub statusz: bool,
    /// `/flagz` (gate `ComponentFlagz`).
    pub flagz: bool,
    /// `/checkpoint` (gate `ContainerCheckpoint`).
    pub checkpoints: bool,
    /// `/allocatedPods` (gate `KubeletAllocatedPodsEndpoint`).
    pub allocated_pods: bool,
}

impl Endpoints {
    pub(super) fn new(kubelet: &KubeletConfiguration) -> Self {
        let gate = |gate| gates::enabled(gate, kubelet.feature_gates.as_ref());
        Self {
            system_logs: kubelet.enable_system_log_handler.unwrap_or_default(),
            system_log_query: kubelet.enable_system_log_query.unwrap_or_default(),
            profiling: kubelet.enable_profiling_handler.unwrap_or_default(),
            debug_flags: kubelet.enable_debug_flags_handler.unwrap_or_default(),
            statusz: gate(gates::STATUSZ),
            flagz: gate(gates::FLAGZ),
            checkpoints: gate(gates::CHECKPOINTS),
            allocated_pods: gate(gates::ALLOCATED_PODS),
        }
    }
}

//! What the node says of itself: its configuration and flags, its process, its logs, checkpoints of its containers, and the switches of its
//! log. All of it is part of the debugging handlers.

use axum::Router;
use hostlet_config::EffectiveConfig;

use super::checkpoint::Checkpoints;
use super::configz;
use super::debug::DebugHandlers;
use super::system_logs::SystemLogs;
use super::zpages::ZPages;

/// What these endpoints need.
#[derive(Clone)]
pub struct NodePages {
    /// `/configz`.
    pub configuration: EffectiveConfig,
    /// `/statusz` and `/flagz`.
    pub zpages: ZPages,
    /// `/logs/`.
    pub logs: SystemLogs,
    /// `/checkpoint`; `None` without the gate `ContainerCheckpoint`.
    pub checkpoints: Option<Checkpoints>,
    /// `/debug`.
    pub debug: DebugHandlers,
}

impl NodePages {
    /// The endpoints.
    pub(super) fn routes(self) -> Router {
        let checkpoints = self.checkpoints.map(Checkpoints::routes).unwrap_or_default();
        configz::routes(self.configuration)
            .merge(self.zpages.routes())
            .merge(self.logs.routes())
            .merge(checkpoints)
            .merge(self.debug.routes())
    }
}

//! The endpoints of the pages, as far as they are enabled.

use std::collections::BTreeMap;

use axum::Router;
use hostlet_base::WallClock;
use jiff::Timestamp;

use super::{flagz, statusz};

/// What the pages show.
#[derive(Clone)]
pub struct ZPages {
    /// When the process started.
    pub started: Timestamp,
    /// The time of day.
    pub clock: WallClock,
    /// Whether there is `/statusz` (gate `ComponentStatusz`).
    pub has_status: bool,
    /// The values of all flags; `None` if there is no `/flagz` (gate `ComponentFlagz`).
    pub flags: Option<BTreeMap<String, String>>,
}

impl ZPages {
    /// Both endpoints.
    pub(in crate::node_api) fn routes(self) -> Router {
        let status = if self.has_status { statusz::routes(self.started, self.clock) } else { Router::new() };
        status.merge(self.flags.map(flagz::routes).unwrap_or_default())
    }
}

//! Where a worker publishes what it does. No logic.

use hostlet_base::WallClock;
use hostlet_observe::status::timeline::Timeline;
use hostlet_observe::status::{PodActivities, StatusCache, StatusHandle};
use hostlet_pod::PodEvents;

/// Destinations of reports. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ReportSinks {
    /// The statuses so far.
    pub status_cache: StatusCache,
    /// Shows what workers are doing.
    pub activities: PodActivities,
    /// Receives the steps of pods.
    pub timeline: Timeline,
    /// Receives the facts of pod statuses.
    pub statuses: StatusHandle,
    /// Receives events, in addition to the log and the timeline.
    pub events: PodEvents,
    /// The time of day.
    pub clock: WallClock,
}

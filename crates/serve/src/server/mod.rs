//! The daemon's server for users and programs on this host.

mod claims;
mod control;
mod devices;
mod error;
mod events;
mod exec;
mod explain;
mod find;
mod http;
mod images;
mod logs;
mod metrics;
mod node;
mod pods;
mod problems;
mod pulls;
mod restart;
mod socket;
#[cfg(test)]
mod tests;
mod timeline;
mod unused_images;
mod usage;
mod view;
mod volumes;

pub use claims::{ClaimsEndpoint, ForgetQuery, ForgottenView};
pub use control::ControlServer;
pub use devices::{DevicesEndpoint, DevicesView};
pub use events::{EventsEndpoint, EventsQuery};
pub use exec::{ExecEndpoint, ExecQuery, ExecView};
pub use explain::ExplainEndpoint;
pub use find::{DEFAULT_CONTAINER, PodFinder};
pub use images::ImageEndpoints;
pub use logs::{LogsEndpoint, LogsQuery};
pub use metrics::MetricsEndpoints;
pub use node::{ApiContact, NodeEndpoints, NodeReport};
pub use pods::PodsEndpoint;
pub use problems::{HostProblems, ImageArchives, RuntimeHealth};
pub use pulls::ImagePulls;
pub use restart::{RestartEndpoint, RestartQuery, RestartView};
pub use socket::ControlError;
pub use timeline::{TimelineEndpoint, TimelineView};
pub use unused_images::{
    FailedRemovalView, ImageFilesystemView, KeptView, PruneView, RemovedImageView, UnusedImageView,
    UnusedImagesView,
};
pub use usage::{PodUsedView, UsageEndpoint, UsageView, UsedView};
pub use view::{CertificateView, HungCallView, ImageView, PodsView, Problem, PullView, PullsView};
pub use volumes::VolumesEndpoint;

//! Volumes of CSI drivers on this node: which drivers there are, calls to them, and what is staged and published. Knows volumes, not
//! pods: does not read a pod's spec, and does not decide whether a pod runs.
//!
//! [`CsiVolumes`] is the entry point: whoever sets up a pod's volumes requests them ([`CsiVolumes::publish`]) and follows their states
//! ([`CsiVolumes::follow`]); whoever tears them down releases them ([`CsiVolumes::release`]). Behind it each volume has a worker
//! (`lifecycle`), which performs one step at a time: waits for the attachment and the driver, stages once, publishes for each pod,
//! unpublishes and unstages. Each call is recorded before it begins, in the store and in upstream's files (`lifecycle::layout`).
//!
//! Three traits are implemented elsewhere: [`Attachments`], the cluster's view of attached volumes, [`Expansions`], what it says of their
//! sizes, and [`NodeService`], the calls to a driver.

mod attachments;
mod call;
mod client;
mod driver_objects;
mod drivers;
mod expansions;
#[cfg(any(test, feature = "fakes"))]
pub mod fake;
#[cfg(test)]
mod fake_tests;
mod id;
mod lifecycle;
mod request;
#[cfg(feature = "fakes")]
mod stand_in;
mod view;
mod volumes;

pub use attachments::{AttachError, Attachments, NoAttachments};
pub use call::{
    AccessMode, CallError, Capability, ExpandCall, Form, NodeCapabilities, NodeInfo, NodeService,
    PublishCall, Secrets, StageCall, Usage, UsageUnit, VolumeStats,
};
pub use driver_objects::{DriverObjects, KnownDrivers, used_of_spec};
pub use drivers::{CsiHandler, NodeInfoTask, NodeInfos};
pub use expansions::{
    ClaimUpdateError, Expansions, GrowError, Growth, LOOK_PERIOD, LOOK_TIMEOUT, Look, Moment, NodeSize,
    Protocol,
};
pub use id::{VolumeId, ephemeral_handle};
pub use lifecycle::{VolumesOnDisk, found_on_disk};
pub use request::{ClaimOfPod, MissingSecret, Publish, PublishState, Published};
#[cfg(feature = "fakes")]
pub use stand_in::StandIn;
pub use view::{VolumePhase, VolumePod, VolumeView};
pub use volumes::{CsiSettings, CsiTask, CsiVolumes, PodStates, ReleaseError, Services};

#[cfg(test)]
hostlet_host::work_in_place!();

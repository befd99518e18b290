//! A host made of real parts: network namespace, containerd, the daemon. Needs root; leaves nothing behind.

mod belongings;
mod containerd;
mod cri;
mod disk;
mod distribution;
mod hanging_filesystem;
mod host;
mod leftovers;
mod netns;
mod processes;
mod registry;
mod trap;
mod uncancelled;

pub use crate::daemon::Daemon;
pub use containerd::{containerd_version, pause_archive};
pub use cri::{Cri, CriSandbox};
pub use disk::Disk;
pub use distribution::{Distribution, LargeImages};
pub use hanging_filesystem::HangingFilesystem;
pub(crate) use host::Dirs;
pub use host::{AfterReboot, ArchiveForm, RealHost};
pub use leftovers::leftovers;
pub(crate) use leftovers::remove;
pub(crate) use netns::Netns;
pub use processes::ContainerProcess;
pub use registry::{Manner, Registry};
pub use trap::{Moment, Trap};

/// The sandbox image of every [`RealHost`]: a process that waits.
pub const PAUSE_IMAGE: &str = "hostlet.local/pause:1";
/// The container image of every [`RealHost`]: busybox with all its applets.
pub const BUSYBOX_IMAGE: &str = "hostlet.local/busybox:1";

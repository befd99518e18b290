//! The Node object: registers the node, keeps its status current, and renews its lease. Never touches a pod.

mod description;
mod facts;
mod health;
mod inputs;
mod kernel;
mod latest;
mod lease;
mod metrics;
mod observe;
mod own;
mod pace;
mod pod_cidr;
mod register;
mod request;
mod settings;
mod status;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(any(test, feature = "fakes"))]
#[doc(hidden)]
pub mod testing;
mod volumes_in_use;

pub use description::{NodeDescriber, NodeDescription};
pub use facts::{HostFacts, NodeFacts, RuntimeFacts};
pub use inputs::NodeInputs;
pub use kernel::{
    KernelCondition, KernelConditions, KernelFinding, KernelObserver, KernelObserverDeps, KernelProblem,
    KernelProblems, OomKill, OomReports,
};
pub use latest::{ApiNodeReader, LatestNode, watch_node};
pub use lease::LeaseTask;
pub use metrics::{register_identity, register_process, register_start};
pub use observe::{AddressObserver, HostObserver, observe_runtime};
pub use own::own_node;
pub use pod_cidr::PodCidrTask;
pub use register::FormerDevices;
pub(crate) use request::{RequestError, within};
pub use settings::NodeSettings;
pub use status::{absent_cpus, overdrawn};
pub use task::NodeStatusTask;
pub use volumes_in_use::VolumesInUse;

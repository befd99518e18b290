//! Which NUMA nodes a container or pod is to use: the hints of everything that is allocated, and the policy that chooses. Pure.

mod hint;
mod intersections;
mod merge;
mod options;
mod policy;

pub(crate) use hint::prefer_narrow;
pub use hint::{Hint, ProviderHints};
pub use options::{MAX_NUMA_NODES, TopologyOptionError, TopologyOptions};
pub use policy::{Topology, TopologyError, TopologyPolicy, TopologyScope};

//! Configuration: the KubeletConfiguration v1beta1 file, drop-in directory and flags, merged into one validated struct. Does
//! not know its users.

mod breach;
mod credential_providers;
mod defaults;
mod endpoints;
mod error;
mod eviction;
mod files;
mod flag_table;
mod flag_value;
mod flags;
mod gate_table;
mod gates;
mod hostlet;
#[cfg(test)]
mod kubeadm_tests;
mod layers;
pub mod load;
mod log_limits;
mod merge;
mod node;
mod node_api;
mod numa;
mod reservations;
mod served;
mod settings;
mod show;
mod shown_flags;
mod spelling;
mod static_pod_url;
#[cfg(test)]
mod table_of_fields;
mod validate;
mod values;
mod wire;

pub use defaults::Membership;
pub use endpoints::Endpoints;
pub use error::{ConfigError, ConfigErrors, ConfigWarning, Place};
pub use flags::{FieldFlags, KubeletFlags, ProcessFlags, VersionForm, is_called_kubelet, with_plain_names};
pub use load::{Loaded, control_socket, load};
pub use node::Node;
pub use node_api::{CertificateFiles, NodeApi, ServingCertificate};
pub use numa::{Numa, OptionGates};
pub use settings::{
    Cgroups, ClusterConfig, Config, Dns, HostRules, ImagePulls, Logging, ParallelPulls, PodDefaults,
    Projections, Runtime, Sources,
};
pub use show::EffectiveConfig;
pub use shown_flags::GivenFlags;
pub use static_pod_url::StaticPodUrl;
pub use wire::{TopologyManagerPolicy, TopologyManagerScope};

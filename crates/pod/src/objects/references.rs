//! What a pod needs of its source of objects, so that others know which of them are in use. No logic.

use std::collections::{BTreeMap, BTreeSet};

use hostlet_base::PodUid;

use super::object::ObjectRef;
use super::source::TokenRequest;
use super::trust_bundles::TrustBundleRef;

/// The objects, tokens and trust bundles that a pod needs to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectReferences {
    /// The ConfigMaps and Secrets of its volumes, its environment and its image pulls.
    pub objects: BTreeSet<ObjectRef>,
    /// The tokens in its volumes.
    pub tokens: BTreeSet<TokenRequest>,
    /// The trust bundles in its volumes.
    pub trust_bundles: BTreeSet<TrustBundleRef>,
}

/// The Secrets that the PersistentVolumes of pods need, which only these name.
pub type VolumeSecrets = BTreeMap<PodUid, BTreeSet<ObjectRef>>;

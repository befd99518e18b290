//! What a pod needs of its source of objects, so that others know which of them are in use.

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

impl ObjectReferences {
    /// Adds what is needed as well.
    pub fn extend(&mut self, more: Self) {
        let Self { objects, tokens, trust_bundles } = more;
        self.objects.extend(objects);
        self.tokens.extend(tokens);
        self.trust_bundles.extend(trust_bundles);
    }
}

/// What volumes of pods need and the pods do not name: the Secrets of PersistentVolumes, and tokens for CSI drivers.
pub type VolumeNeeds = BTreeMap<PodUid, ObjectReferences>;

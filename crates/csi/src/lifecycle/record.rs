//! The state of a volume on this node that survives the daemon: a row of the store, written before the call that it describes. A call
//! without a response may have taken effect, so each fact is `No`, `Maybe` or `Yes`. Pure.

use hostlet_base::PodUid;
use serde::{Deserialize, Serialize};

use crate::{Form, Publish, VolumeId};

/// Whether a driver has done something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Done {
    /// Certainly not.
    No,
    /// The call's outcome is unknown, or it succeeded in an earlier boot of the host.
    Maybe,
    /// Yes, in this boot.
    Yes,
}

/// A volume that is published for a pod, or may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Publication {
    /// The pod's UID.
    pub(crate) pod: String,
    /// The name of the PersistentVolume, or of the pod's volume.
    pub(crate) spec_name: String,
    /// Whether it is published: never `No`.
    pub(crate) published: Done,
}

/// A volume on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    /// The volume.
    pub(crate) id: VolumeId,
    /// The name of the PersistentVolume, by which a block device is staged.
    pub(crate) spec_name: String,
    /// Whether it is a block device.
    pub(crate) is_block: bool,
    /// Whether a controller attaches it, and must not detach it now.
    pub(crate) is_attached: bool,
    /// Whether it is staged.
    pub(crate) staged: Done,
    /// The boot of the host in which that was.
    pub(crate) boot: String,
    /// Where it is published.
    pub(crate) publications: Vec<Publication>,
}

impl Record {
    /// That of a volume of which nothing was done yet.
    pub(crate) fn new(desired: &Publish, boot: &str) -> Self {
        Self {
            id: desired.id.clone(),
            spec_name: desired.spec_name.clone(),
            is_block: desired.form == Form::Block,
            is_attached: desired.is_attached,
            staged: Done::No,
            boot: boot.to_owned(),
            publications: Vec::new(),
        }
    }

    /// The same after a reboot: nothing is mounted any more, and drivers may or may not know of it.
    pub(crate) fn in_boot(mut self, boot: &str) -> Self {
        if self.boot != boot {
            boot.clone_into(&mut self.boot);
            if self.staged == Done::Yes {
                self.staged = Done::Maybe;
            }
            for publication in &mut self.publications {
                publication.published = Done::Maybe;
            }
        }
        self
    }

    /// Whether it is published for a pod under a name.
    pub(crate) fn published(&self, pod: &PodUid, spec_name: &str) -> Done {
        let own = self.publications.iter().find(|own| own.is(pod, spec_name));
        own.map_or(Done::No, |own| own.published)
    }

    /// Notes that it is published for a pod, or that it is not.
    pub(crate) fn set_published(&mut self, pod: &PodUid, spec_name: &str, published: Done) {
        self.publications.retain(|other| !other.is(pod, spec_name));
        if published != Done::No {
            let (pod, spec_name) = (pod.as_str().to_owned(), spec_name.to_owned());
            self.publications.push(Publication { pod, spec_name, published });
        }
    }
}

impl Publication {
    /// Whether it is that of a pod under a name.
    pub(crate) fn is(&self, pod: &PodUid, spec_name: &str) -> bool {
        self.pod == pod.as_str() && self.spec_name == spec_name
    }
}

//! What the node can free before a pod has to end for it: dead containers, unused images. What frees them is given.

use async_trait::async_trait;
use hostlet_base::node::Signal;
use hostlet_observe::stats::DiskLayout;

/// What is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reclaims {
    /// Containers that do not run, with their writable layers.
    Containers,
    /// Images that no container uses.
    Images,
}

/// Nothing, or not everything, could be freed.
#[derive(Debug, thiserror::Error)]
#[error("cannot free everything that is not used")]
pub(crate) struct ReclaimError {
    /// Why.
    #[from]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Frees what nobody uses.
#[async_trait]
pub(crate) trait Reclaimer: Send + Sync {
    /// What it frees.
    fn reclaims(&self) -> Reclaims;

    /// Frees all of it. Returns what stays and why, in a sentence without its end, if that takes space.
    ///
    /// # Errors
    /// Something could not be freed; what could is.
    async fn reclaim(&self) -> Result<Option<String>, ReclaimError>;
}

/// What is freed for a signal, in this order (upstream's `buildSignalToNodeReclaimFuncs`).
pub(super) fn reclaimed_for(signal: Signal, layout: DiskLayout) -> &'static [Reclaims] {
    const BOTH: &[Reclaims] = &[Reclaims::Containers, Reclaims::Images];
    let (node, images, layers): (&[Reclaims], &[Reclaims], &[Reclaims]) = match layout {
        DiskLayout::One => (BOTH, BOTH, BOTH),
        DiskLayout::ImagesApart => (&[], BOTH, BOTH),
        DiskLayout::Split => (&[Reclaims::Containers], &[Reclaims::Images], &[Reclaims::Containers]),
    };
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => &[],
        Signal::NodefsAvailable | Signal::NodefsInodesFree => node,
        Signal::ImagefsAvailable | Signal::ImagefsInodesFree => images,
        Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree => layers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As upstream's `buildSignalToNodeReclaimFuncs`.
    #[test]
    fn what_is_freed_is_on_the_disk_that_is_full() {
        use DiskLayout::{ImagesApart, One, Split};
        use Reclaims::{Containers, Images};
        let both: &[Reclaims] = &[Containers, Images];
        for (layout, node, images, layers) in [
            (One, both, both, both),
            (ImagesApart, &[][..], both, both),
            (Split, &[Containers][..], &[Images][..], &[Containers][..]),
        ] {
            for signal in Signal::ALL {
                let expected = match signal {
                    Signal::NodefsAvailable | Signal::NodefsInodesFree => node,
                    Signal::ImagefsAvailable | Signal::ImagefsInodesFree => images,
                    Signal::ContainerfsAvailable | Signal::ContainerfsInodesFree => layers,
                    Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
                        &[]
                    }
                };
                assert_eq!(reclaimed_for(signal, layout), expected, "{signal:?} {layout:?}");
            }
        }
    }
}

//! The tables, and how soon a change of each must be on the disk. A new table is a new variant here; the meaning of its rows
//! belongs to the module that writes them.

/// A table of rows, keyed by pod UID, by name or by ID: JSON, or sealed JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Admitted pods that have not terminated.
    AdmittedPods,
    /// That a former kubelet may have advertised devices on the Node.
    FormerDevices,
    /// Requested starts of containers that must run at most once.
    RequestedStarts,
    /// The preStop hooks of a pod's containers that have begun.
    PreStops,
    /// Since when pods with a deadline are active, in the present boot.
    ActiveSince,
    /// Containers of a pod whose restart a user requested.
    Restarts,
    /// How containers of a pod ended that do not run again.
    FinalEnds,
    /// Restart back-offs of a pod's containers.
    CrashLoops,
    /// What was last enforced of a pod's resources.
    Actuated,
    /// Pull back-offs of a pod's images.
    ImagePulls,
    /// Pulls that have begun, by image.
    PullIntents,
    /// Who may use an image that was pulled, by the runtime's ID of the image.
    PulledImages,
    /// When an image was first detected and last used, by the runtime's ID of the image.
    ImageUses,
    /// Pods of the API server that a shutdown of the host ended.
    EndedByShutdown,
    /// What the probes of a pod's containers found.
    ProbeResults,
    /// The cluster's Services, so that containers can start with their variables before the API server is reached.
    Services,
    /// The handlers of the cluster's RuntimeClasses, so that pods start before the API server is reached.
    RuntimeClasses,
    /// How far the kernel's log was read, and what it said that lasts until the host reboots.
    KernelLog,
    /// ConfigMaps and Secrets of admitted pods, sealed, so that pods start before the API server is reached.
    OfflineObjects,
    /// Tokens in the volumes of admitted pods, sealed, for the same.
    OfflineTokens,
    /// Volumes of CSI drivers that are staged or published here, or may be, by their unique name.
    CsiVolumes,
    /// The specs of the cluster's CSIDriver objects, so that volumes are published before the API server is reached.
    CsiDrivers,
    /// The nodes, by name, whose CSINode this host has initialized once: one, unless it was renamed.
    CsiNodes,
    /// Trust anchors in the volumes of admitted pods, sealed, for the same.
    OfflineTrustBundles,
}

/// How soon a change must be on the disk.
///
/// Every write is one synced transaction: the file has one pair of headers for all tables, so an unsynced write would put
/// earlier synced ones at risk in a power failure. Unsynced writes would not reduce wear either, because rare changes reach
/// the disk anyway. Writing less often does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pace {
    /// Immediately: a caller waits for it.
    Now,
    /// After a short delay that collects a burst.
    Soon,
    /// The first change soon, later ones together and much later. For rows whose loss does little harm.
    Seldom,
    /// The same, but so much later that it does not matter how many pods change such rows.
    Rarely,
}

impl Table {
    /// Every table, in the order of the enum.
    pub const ALL: [Self; 24] = [
        Self::AdmittedPods,
        Self::FormerDevices,
        Self::RequestedStarts,
        Self::PreStops,
        Self::ActiveSince,
        Self::Restarts,
        Self::FinalEnds,
        Self::CrashLoops,
        Self::Actuated,
        Self::ImagePulls,
        Self::PullIntents,
        Self::PulledImages,
        Self::ImageUses,
        Self::EndedByShutdown,
        Self::ProbeResults,
        Self::Services,
        Self::RuntimeClasses,
        Self::KernelLog,
        Self::OfflineObjects,
        Self::OfflineTokens,
        Self::CsiVolumes,
        Self::CsiDrivers,
        Self::CsiNodes,
        Self::OfflineTrustBundles,
    ];

    /// Its name in the file. The number is the version of its row format: rows of another format are another table, which
    /// versions of hostlet that do not know it leave alone.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AdmittedPods => "admitted-pods/1",
            Self::FormerDevices => "former-devices/1",
            Self::RequestedStarts => "asked-starts/1",
            Self::PreStops => "pre-stops/1",
            Self::ActiveSince => "active-since/1",
            Self::Restarts => "restarts/1",
            Self::FinalEnds => "final-ends/1",
            Self::CrashLoops => "crash-loops/1",
            Self::Actuated => "actuated/1",
            Self::ImagePulls => "image-pulls/1",
            Self::PullIntents => "pull-intents/1",
            Self::PulledImages => "pulled-images/1",
            Self::ImageUses => "image-uses/1",
            Self::EndedByShutdown => "ended-by-shutdown/1",
            Self::ProbeResults => "probe-results/1",
            Self::Services => "services/1",
            Self::RuntimeClasses => "runtime-classes/1",
            Self::KernelLog => "kernel-log/1",
            Self::OfflineObjects => "offline-objects/1",
            Self::OfflineTokens => "offline-tokens/1",
            Self::CsiVolumes => "csi-volumes/1",
            Self::CsiDrivers => "csi-drivers/1",
            Self::CsiNodes => "csi-nodes/1",
            Self::OfflineTrustBundles => "offline-trust-bundles/1",
        }
    }

    /// How soon a change of a row must be on the disk, or the row, if it is new.
    pub(super) const fn pace(self, is_new: bool) -> Pace {
        match self {
            // Without its row, a pod whose manifest breaks is lost.
            Self::AdmittedPods => Pace::Soon,
            Self::RequestedStarts | Self::PreStops | Self::Restarts | Self::EndedByShutdown => Pace::Soon,
            // Without its row, a clock that is set during a restart of the daemon counts as time. It is written once.
            Self::ActiveSince => Pace::Soon,
            // Losing its removal sets what others advertise to zero once more. It changes once.
            Self::FormerDevices => Pace::Soon,
            // The caller waits for the write of an intent. Losing the latest record makes pods pull again.
            Self::PullIntents | Self::PulledImages => Pace::Soon,
            // Losing the latest change makes a container that has just become ready unready for the time of a probe. They rarely change.
            Self::ProbeResults => Pace::Soon,
            // Written with the allocation that follows. Losing the latest change repeats an update.
            Self::Actuated => Pace::Soon,
            // Losing the latest change makes a container or a pull wait for the wrong time once. Writing each would never
            // stop on a host where every container crashes.
            Self::CrashLoops | Self::ImagePulls => Pace::Seldom,
            // Losing the latest change matters only to a container that is removed from the runtime in the same moment.
            Self::FinalEnds => Pace::Seldom,
            // Losing the latest change makes an image be removed a little earlier or later than another.
            Self::ImageUses => Pace::Seldom,
            // Losing the latest change gives older variables to a container that starts while the API server is away.
            Self::Services => Pace::Seldom,
            // Without its row, a pod cannot start while the API server is away. They rarely change.
            Self::RuntimeClasses | Self::CsiDrivers => Pace::Soon,
            // Without its row, the node is not ready after a restart until the API server is reached. It is written once.
            Self::CsiNodes => Pace::Soon,
            // Losing the latest change repeats events of a daemon that was killed. A failing disk changes it all the time.
            Self::KernelLog => Pace::Seldom,
            // Without its row, a pod cannot start while the API server is away.
            Self::OfflineObjects | Self::OfflineTokens | Self::OfflineTrustBundles if is_new => Pace::Soon,
            // Losing the latest change gives the pod an older version. Some change often.
            Self::OfflineObjects | Self::OfflineTrustBundles => Pace::Seldom,
            // Its file on the disk says the same, unless somebody deleted that in the same moment.
            Self::CsiVolumes => Pace::Soon,
            // A token lives for an hour, and each pod renews its own: losing the latest one shortens what is left of it.
            Self::OfflineTokens => Pace::Rarely,
        }
    }
}

//! The tables there are, and how soon a change of each is to be on disk. To add one is to add a variant here; what is in its
//! rows is the business of the room that puts them.

/// A table: rows of JSON by the UID of the pod they are about, or by the name of what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The pods that were admitted and have not come to their end.
    AdmittedPods,
    /// The starts that the runtime was asked for, of containers that are to run once.
    RequestedStarts,
    /// How long the containers of a pod that crash again and again wait.
    CrashLoops,
    /// How long the pulls of a pod's images that fail again and again wait.
    ImagePulls,
    /// The services of the cluster: containers start with their variables, also before the API server answers.
    Services,
}

/// How soon a change is to be on disk.
///
/// Every write is one transaction, and is synced: the file has one pair of headers for all tables, so a write that is not
/// synced would put the synced ones before it at risk when the power fails. Unsynced writes would not save wear
/// either, as what changes seldom reaches the disk in any case. What saves wear is to write less often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pace {
    /// At once: somebody waits for it.
    Now,
    /// As soon as a burst of changes is over.
    Soon,
    /// The first one soon, the next ones together and a good while later. For what is only a little wrong if it is lost.
    Seldom,
}

impl Table {
    pub(super) const ALL: [Self; 5] =
        [Self::AdmittedPods, Self::RequestedStarts, Self::CrashLoops, Self::ImagePulls, Self::Services];

    /// Its name in the file. The number is that of the form its rows have: rows of another form are another table, so that
    /// a hostlet which does not know that form leaves them alone.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AdmittedPods => "admitted-pods/1",
            Self::RequestedStarts => "asked-starts/1",
            Self::CrashLoops => "crash-loops/1",
            Self::ImagePulls => "image-pulls/1",
            Self::Services => "services/1",
        }
    }

    pub(super) const fn pace(self) -> Pace {
        match self {
            // Without its row a pod whose manifest breaks is lost.
            Self::AdmittedPods => Pace::Soon,
            // Whoever asks waits until it is written. Its removal may wait.
            Self::RequestedStarts => Pace::Soon,
            // Without the last ones a container or a pull waits for the wrong time once. A host on which every container
            // crashes would write without end.
            Self::CrashLoops | Self::ImagePulls => Pace::Seldom,
            // Without the last ones a container that starts while the API server is away has variables of a while ago.
            Self::Services => Pace::Seldom,
        }
    }
}

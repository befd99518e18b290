//! Decides whether a first start is safe. Pure.
//!
//! A kubelet removes the pods of its runtime that no source names, and two kubelets remove each other's. A runtime that hostlet
//! has not run pods on may be the runtime of somebody else, and a host on which pods have files or processes may be that of a
//! kubelet with another runtime. So the first start needs a host without other pods and without another kubelet, or an explicit
//! permission.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use hostlet_base::{PodRef, PodUid};

use super::claim::KnownClaim;
use super::kubelets::OtherKubelet;
use super::remains::{Remains, about_remains};

/// How many pods a rejection names.
const NAMED: usize = 10;

/// What must differ from another kubelet's on the same host. Two kubelets with the same directories, cgroups or ports disturb
/// each other, whatever their runtimes.
pub(crate) const BESIDE: &str = "a containerRuntimeEndpoint, a root directory (--root-dir), a podLogsDir, a cgroupRoot, a healthzPort \
                          and a port of its own";

/// Whether hostlet ran on this runtime from this root directory before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Never: nothing in the runtime is known to be hostlet's.
    FirstStart,
    /// It did. Whether its store is intact does not matter: what the runtime has and no source names is what hostlet left.
    RanBefore,
}

/// The history of a host. `recorded` are the pods in the store, which has rows only once a start was accepted. Without a claim
/// they prove an earlier run: the claim could not be written, or somebody removed it. With a claim of another runtime they do
/// not, as these pods are in that one.
pub fn history(claim: &KnownClaim, socket: &Path, recorded: &HashSet<PodUid>) -> History {
    let ran = match claim {
        KnownClaim::Missing => !recorded.is_empty(),
        KnownClaim::Read(_) | KnownClaim::Unreadable { .. } => claim.names(socket),
    };
    if ran { History::RanBefore } else { History::FirstStart }
}

/// What others have on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The kubelets that run.
    pub kubelets: Vec<OtherKubelet>,
    /// The pods of the runtime that hostlet did not start.
    pub pods: Vec<PodRef>,
    /// What other pods than hostlet's and those have on the host.
    pub remains: BTreeMap<PodUid, Remains>,
}

impl Foreign {
    /// Of what was found, that which hostlet did not record. A recorded pod is hostlet's, for instance if the runtime's socket was
    /// moved.
    pub fn new(
        kubelets: Vec<OtherKubelet>,
        pods: BTreeSet<PodRef>,
        remains: BTreeMap<PodUid, Remains>,
        recorded: &HashSet<PodUid>,
    ) -> Self {
        let in_runtime: HashSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let is_new = |uid: &PodUid| !recorded.contains(uid);
        Self {
            kubelets,
            pods: pods.into_iter().filter(|pod| is_new(&pod.uid)).collect(),
            remains: remains
                .into_iter()
                .filter(|(uid, _)| is_new(uid) && !in_runtime.contains(uid))
                .collect(),
        }
    }
}

/// A running pod that hostlet cannot run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrunnable {
    /// A pod that runs now.
    pub pod: PodRef,
    /// Why hostlet cannot run it, as part of a sentence.
    pub why: String,
}

impl Unrunnable {
    /// A pod that has volumes of these plugins.
    pub fn of_plugins(pod: PodRef, plugins: &[String]) -> Self {
        Self { pod, why: format!("it has volumes of {}, which hostlet does not support", plugins.join(", ")) }
    }
}

/// Why a first start was rejected. `Display` is for the host's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartRejection {
    /// The host is somebody else's.
    #[error("{}", in_use(socket, foreign))]
    InUse {
        /// The runtime.
        socket: PathBuf,
        /// What others have here.
        foreign: Foreign,
    },
    /// Pods run that would be ended, or lose a volume or a device, if hostlet adopted them.
    #[error("{}", cannot_run(pods))]
    Unrunnable {
        /// The pods that cannot run.
        pods: Vec<Unrunnable>,
    },
    /// It could not be learned what the running pods use.
    #[error(
        "{pods} pods of somebody else run, and what they use cannot be learned ({why}); hostlet did not start and changed nothing. \
         Remove them, or start hostlet when the API server answers."
    )]
    Unseen {
        /// How many pods run.
        pods: usize,
        /// Why it is unknown.
        why: String,
    },
}

/// Why the first start on the runtime at `socket` is rejected; `None` if it is safe.
pub fn first_start_rejection(socket: &Path, foreign: Foreign) -> Option<StartRejection> {
    let is_safe = foreign == Foreign::default();
    (!is_safe).then(|| StartRejection::InUse { socket: socket.to_owned(), foreign })
}

/// The first ones as a list, and how many more there are.
fn named<T>(all: &[T], name: impl Fn(&T) -> String) -> String {
    let first: Vec<String> = all.iter().take(NAMED).map(name).collect();
    match all.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn in_use(socket: &Path, foreign: &Foreign) -> String {
    let Foreign { kubelets, pods, remains } = foreign;
    let mut text = format!(
        "hostlet has not run pods on {} before, and this host is in use; hostlet did not start and changed nothing.",
        socket.display()
    );
    if !kubelets.is_empty() {
        let kubelets: Vec<String> = kubelets.iter().map(ToString::to_string).collect();
        text += &format!(
            " Another kubelet runs ({}), and each would remove the other's pods: stop it and keep it from starting \
             (systemctl disable --now kubelet).",
            kubelets.join("; ")
        );
    }
    if !pods.is_empty() {
        let count = if pods.len() == 1 { "a pod" } else { "pods" };
        text += &format!(
            " The runtime has {count} of somebody else: {}. hostlet would remove those that neither its manifests nor its API \
             server names: remove them if nobody needs them (crictl rmp --all --force).",
            named(pods, PodRef::to_string)
        );
    }
    if let Some(remains) = about_remains(remains) {
        text += &format!(" On this host {remains}.");
    }
    text + &format!(
        " To run hostlet beside another kubelet, give it {BESIDE}. To adopt the pods of the runtime, set adoptForeignPods: \
         true, or start once with --adopt-foreign-pods."
    )
}

fn cannot_run(pods: &[Unrunnable]) -> String {
    format!(
        "hostlet would adopt running pods that it cannot run: {}. It did not start and changed nothing. Move them to another \
         node (kubectl drain), then start hostlet again.",
        named(pods, |one| format!("{} ({})", one.pod, one.why))
    )
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn uids(uids: &[&str]) -> HashSet<PodUid> {
        uids.iter().map(|uid| PodUid::from(*uid)).collect()
    }

    #[test]
    fn a_lost_store_is_no_first_start_and_a_new_runtime_is() {
        let (socket, other) = (Path::new("/run/nowhere/a.sock"), Path::new("/run/nowhere/b.sock"));
        let claim = KnownClaim::Read(KnownClaim::Missing.with(socket, Timestamp::UNIX_EPOCH).unwrap());
        let damaged = KnownClaim::Unreadable { error: "damaged".to_owned() };
        let nothing = uids(&[]);
        for (claim, socket, recorded, expected) in [
            (&KnownClaim::Missing, socket, &nothing, History::FirstStart),
            (&claim, socket, &nothing, History::RanBefore),
            (&claim, other, &nothing, History::FirstStart),
            (&claim, other, &uids(&["a"]), History::FirstStart),
            (&damaged, other, &nothing, History::RanBefore),
            (&KnownClaim::Missing, socket, &uids(&["a"]), History::RanBefore),
        ] {
            assert_eq!(history(claim, socket, recorded), expected, "{claim:?} {socket:?} {recorded:?}");
        }
    }

    #[test]
    fn only_what_hostlet_did_not_record_is_refused() {
        let socket = Path::new("/run/a.sock");
        let pods = |count: usize| {
            (0..count).map(|n| PodRef::new("default", &format!("p{n:02}"), &format!("u{n}"))).collect()
        };
        let rejection = |pods, remains, recorded: &[&str], kubelets| {
            let foreign = Foreign::new(kubelets, pods, remains, &uids(recorded));
            first_start_rejection(socket, foreign).map(|rejection| rejection.to_string())
        };
        let no_remains = BTreeMap::new;
        assert_eq!(rejection(pods(0), no_remains(), &[], Vec::new()), None);
        assert_eq!(rejection(pods(2), no_remains(), &["u0", "u1", "gone"], Vec::new()), None);

        let text = rejection(pods(2), no_remains(), &["u0"], Vec::new()).unwrap();
        assert!(text.contains("a pod of somebody else: default/p01. "), "{text}");
        assert!(text.contains("/run/a.sock") && text.contains("adoptForeignPods: true"), "{text}");
        assert!(!text.contains("Another kubelet"), "{text}");

        let many = rejection(pods(13), no_remains(), &[], Vec::new()).unwrap();
        assert!(many.contains("default/p09 and 3 more"), "{many}");

        let text = rejection(pods(0), no_remains(), &[], vec![OtherKubelet::Process(7)]).unwrap();
        assert!(text.contains("(process 7)") && !text.contains("The runtime has"), "{text}");
        assert!(text.contains("--root-dir") && text.contains("cgroupRoot"), "{text}");

        let directory = Remains { directories: vec!["/pods/x".into()], ..Remains::default() };
        let remains = || BTreeMap::from([("u0".into(), directory.clone()), ("x".into(), directory.clone())]);
        let text = rejection(pods(1), remains(), &["u0"], Vec::new()).unwrap();
        assert!(
            text.contains("On this host there is something of a pod") && text.contains("(UID x)"),
            "{text}"
        );
        assert_eq!(rejection(pods(1), remains(), &["u0", "x"], Vec::new()), None);
    }

    #[test]
    fn pods_that_cannot_be_taken_over_are_named() {
        let one = |n: usize| Unrunnable {
            pod: PodRef::new("ns", &format!("p{n:02}"), &format!("u{n}")),
            why: "it uses a disk".to_owned(),
        };
        let text = StartRejection::Unrunnable { pods: (0..12).map(one).collect() }.to_string();
        assert!(text.contains("ns/p00 (it uses a disk), ns/p01"), "{text}");
        assert!(text.contains("ns/p09 (it uses a disk) and 2 more. It did not start"), "{text}");
    }
}

//! Decides whether a first start is safe. Pure.
//!
//! A kubelet removes the pods of its runtime that no source names, and two kubelets remove each other's. A runtime that hostlet
//! has not run pods on may be the runtime of somebody else. So the first start on it needs a runtime without other pods and
//! without another kubelet, or an explicit permission.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::claim::KnownClaim;
use super::kubelets::OtherKubelet;
use crate::types::{PodRef, PodUid};

/// How many pods a refusal names.
const NAMED: usize = 10;

/// Whether hostlet ran on this runtime from this root directory before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Never: nothing in the runtime is known to be hostlet's.
    FirstStart,
    /// It did. Whether its store is intact does not matter: what the runtime has and no source names is what hostlet left.
    RanBefore,
}

/// The history of a host. `recorded` are the pods in the store, which has rows only once a start was not refused. Without a claim
/// they prove an earlier run: the claim could not be written, or somebody removed it. With a claim of another runtime they do
/// not, as these pods are in that one.
pub fn history(claim: &KnownClaim, socket: &Path, recorded: &HashSet<PodUid>) -> History {
    let ran = match claim {
        KnownClaim::Missing => !recorded.is_empty(),
        KnownClaim::Read(_) | KnownClaim::Unreadable { .. } => claim.names(socket),
    };
    if ran { History::RanBefore } else { History::FirstStart }
}

/// Why a first start was refused. `Display` is for the host's owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// The runtime.
    pub socket: PathBuf,
    /// The kubelets that run.
    pub kubelets: Vec<OtherKubelet>,
    /// The pods that hostlet did not start.
    pub pods: Vec<PodRef>,
}

/// Why the first start on the runtime at `socket` is refused; `None` if it is safe. A pod that the store has is hostlet's,
/// for instance if the runtime's socket was moved.
pub fn first_start_refusal(
    socket: &Path,
    pods: BTreeSet<PodRef>,
    recorded: &HashSet<PodUid>,
    kubelets: Vec<OtherKubelet>,
) -> Option<Refusal> {
    let pods: Vec<PodRef> = pods.into_iter().filter(|pod| !recorded.contains(&pod.uid)).collect();
    let is_safe = pods.is_empty() && kubelets.is_empty();
    (!is_safe).then(|| Refusal { socket: socket.to_owned(), kubelets, pods })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "hostlet has not run pods on {} before, and it is in use; hostlet did not start and changed nothing.",
            self.socket.display()
        )?;
        if !self.kubelets.is_empty() {
            let kubelets: Vec<String> = self.kubelets.iter().map(ToString::to_string).collect();
            write!(
                f,
                " Another kubelet runs ({}), and each would remove the other's pods: stop it and keep it from starting \
                 (systemctl disable --now kubelet).",
                kubelets.join("; ")
            )?;
        }
        if !self.pods.is_empty() {
            let named: Vec<String> = self.pods.iter().take(NAMED).map(ToString::to_string).collect();
            let more = match self.pods.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let count = if self.pods.len() == 1 { "a pod" } else { "pods" };
            write!(
                f,
                " The runtime has {count} of somebody else: {}{more}. hostlet would remove those that neither its manifests \
                 nor its API server names: remove them if nobody needs them (crictl rmp --all --force), or give hostlet another \
                 runtime.",
                named.join(", ")
            )?;
        }
        write!(
            f,
            " To take over what is there, set adoptForeignPods: true, or start once with --adopt-foreign-pods."
        )
    }
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
    fn only_pods_that_hostlet_did_not_record_and_running_kubelets_are_refused() {
        let socket = Path::new("/run/a.sock");
        let pods = |count: usize| {
            (0..count).map(|n| PodRef::new("default", &format!("p{n:02}"), &format!("u{n}"))).collect()
        };
        assert_eq!(first_start_refusal(socket, pods(0), &uids(&[]), Vec::new()), None);
        assert_eq!(first_start_refusal(socket, pods(2), &uids(&["u0", "u1", "gone"]), Vec::new()), None);

        let refusal = first_start_refusal(socket, pods(2), &uids(&["u0"]), Vec::new()).unwrap().to_string();
        assert!(refusal.contains("a pod of somebody else: default/p01. "), "{refusal}");
        assert!(refusal.contains("/run/a.sock") && refusal.contains("adoptForeignPods: true"), "{refusal}");
        assert!(!refusal.contains("Another kubelet"), "{refusal}");

        let many = first_start_refusal(socket, pods(13), &uids(&[]), Vec::new()).unwrap().to_string();
        assert!(many.contains("default/p09 and 3 more"), "{many}");

        let kubelets = vec![OtherKubelet::Process(7)];
        let refusal = first_start_refusal(socket, pods(0), &uids(&[]), kubelets).unwrap().to_string();
        assert!(refusal.contains("(process 7)") && !refusal.contains("The runtime has"), "{refusal}");
    }
}

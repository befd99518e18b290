//! What the manifests say, out of what was just read of them and what they said before. A file that stops making sense
//! keeps the pod it defined; reading equal content again changes nothing. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use md5::{Digest, Md5};

use super::manifest::read_manifest;
use super::state::{ManifestProblem, SourceState, StaticPod};
use crate::pod::pod_ref;
use crate::types::CONFIG_SEEN_ANNOTATION;

/// What one pass over the disk found.
pub(super) enum Pass<'d> {
    /// All files there are, by name; they may be read only as they are taken. None where the path does not exist.
    Listed(Box<dyn Iterator<Item = (PathBuf, FileRead)> + 'd>),
    /// The files could not be listed; what they said before stays.
    Failed {
        /// The directory.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// What a pass found of one file.
#[derive(Debug)]
pub(super) enum FileRead {
    /// The file is the one of the pass before.
    Unchanged,
    /// The file's content.
    Bytes(Vec<u8>),
    /// The file is none that can be read, and why.
    Refused(String),
}

/// Remembers what each file said.
#[derive(Debug)]
pub(super) struct Reader {
    node_name: String,
    files: BTreeMap<PathBuf, KnownFile>,
    /// Why the files could not be listed.
    listing: Option<ManifestProblem>,
    /// Files whose pod another file has already.
    conflicts: BTreeMap<PathBuf, ManifestProblem>,
}

/// What is known of one file.
#[derive(Debug, Default)]
struct KnownFile {
    /// Digest of the content that was last parsed.
    content: Option<[u8; 16]>,
    /// The pod of the last content that gave one.
    pod: Option<Arc<StaticPod>>,
    /// What is wrong with the present content.
    problem: Option<ManifestProblem>,
}

impl Reader {
    /// A reader that has read nothing yet. `inherited` is what was read before it, oldest first: what each file said
    /// last counts as if this reader had read it. So a file that is broken or cannot be read from the start keeps its pod,
    /// and equal content gives the very pod it gave then, first seen when it was. A pod of another node is none of ours.
    pub(super) fn new(node_name: &str, inherited: &[StaticPod]) -> Self {
        let of_node = |pod: &&StaticPod| {
            pod.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node_name)
        };
        let known = |pod: &StaticPod| {
            let known = KnownFile { pod: Some(Arc::new(pod.clone())), ..KnownFile::default() };
            (pod.file.clone(), known)
        };
        Self {
            node_name: node_name.to_owned(),
            files: inherited.iter().filter(of_node).map(known).collect(),
            listing: None,
            conflicts: BTreeMap::new(),
        }
    }

    /// Takes in what a pass found. Answers whether that changed anything.
    pub(super) fn apply(&mut self, pass: Pass<'_>, now: Timestamp) -> bool {
        let changed = match pass {
            Pass::Listed(files) => self.take_files(files, now) | self.listing.take().is_some(),
            Pass::Failed { path, message } => set_problem(&mut self.listing, &path, None, message, now),
        };
        if changed {
            self.find_conflicts(now);
        }
        changed
    }

    /// What the manifests say now.
    pub(super) fn state(&self) -> SourceState {
        let pods = self
            .files
            .iter()
            .filter(|(file, _)| !self.conflicts.contains_key(*file))
            .filter_map(|(_, known)| known.pod.clone());
        let of_files = self
            .files
            .iter()
            .flat_map(|(file, known)| known.problem.iter().chain(self.conflicts.get(file)).cloned());
        SourceState {
            ready: true,
            pods: pods.collect(),
            problems: self.listing.iter().cloned().chain(of_files).collect(),
        }
    }

    fn take_files(&mut self, files: impl Iterator<Item = (PathBuf, FileRead)>, now: Timestamp) -> bool {
        let mut gone: BTreeSet<PathBuf> = self.files.keys().cloned().collect();
        let mut changed = false;
        for (file, read) in files {
            gone.remove(&file);
            let known = self.files.entry(file.clone()).or_default();
            changed |= match read {
                FileRead::Unchanged => false,
                FileRead::Refused(message) => {
                    known.content = None;
                    set_problem(&mut known.problem, &file, None, message, now)
                }
                FileRead::Bytes(bytes) => known.take_bytes(&bytes, &file, &self.node_name, now),
            };
        }
        self.files.retain(|file, _| !gone.contains(file));
        changed || !gone.is_empty()
    }

    /// Of several files with the same pod, the first by name has it.
    fn find_conflicts(&mut self, now: Timestamp) {
        let mut old = std::mem::take(&mut self.conflicts);
        let mut names: BTreeMap<String, &Path> = BTreeMap::new();
        let mut uids: BTreeMap<String, &Path> = BTreeMap::new();
        for (file, known) in &self.files {
            let Some(pod) = &known.pod else { continue };
            let reference = pod_ref(&pod.pod);
            let (name, uid) = (reference.full_name(), reference.uid.to_string());
            let message = match (names.get(&name), uids.get(&uid)) {
                (Some(first), _) => format!(
                    "pod {reference} is already defined by {}; rename one of the two",
                    first.display()
                ),
                (None, Some(first)) => format!(
                    "the pod of {} has the same uid {uid}; remove the uid from one of the two",
                    first.display()
                ),
                (None, None) => {
                    names.insert(name, file);
                    uids.insert(uid, file);
                    continue;
                }
            };
            let mut problem = old.remove(file);
            set_problem(&mut problem, file, Some(reference.to_string()), message, now);
            self.conflicts.extend(problem.map(|problem| (file.clone(), problem)));
        }
    }
}

impl KnownFile {
    fn take_bytes(&mut self, bytes: &[u8], file: &Path, node_name: &str, now: Timestamp) -> bool {
        let content: [u8; 16] = Md5::digest(bytes).into();
        if self.content == Some(content) {
            return false;
        }
        self.content = Some(content);
        match read_manifest(bytes, file, node_name, now) {
            Err(error) => {
                let pod = error.pod().map(str::to_owned);
                set_problem(&mut self.problem, file, pod, error.to_string(), now)
            }
            Ok(read) => {
                let mended = self.problem.take().is_some();
                let same = self.pod.as_ref().is_some_and(|known| is_same_pod(known, &read));
                if !same {
                    self.pod = Some(Arc::new(read));
                }
                mended || !same
            }
        }
    }
}

/// Whether two readings give the same pod, whenever each was first seen: a comment was edited, or a mistake taken back.
fn is_same_pod(known: &StaticPod, read: &StaticPod) -> bool {
    fn without_seen(pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        pod.metadata.annotations.get_or_insert_default().remove(CONFIG_SEEN_ANNOTATION);
        pod
    }
    without_seen(&known.pod) == without_seen(&read.pod)
}

/// Notes a problem; the same one keeps its time. Answers whether it is another than before.
fn set_problem(
    slot: &mut Option<ManifestProblem>,
    file: &Path,
    pod: Option<String>,
    message: String,
    now: Timestamp,
) -> bool {
    match slot {
        Some(known) if known.message == message && known.pod == pod => false,
        Some(_) | None => {
            *slot = Some(ManifestProblem { file: file.to_owned(), pod, message, since: now });
            true
        }
    }
}

/// What is new in `next`: the problems that `before` did not have.
pub(super) fn new_problems<'s>(before: &SourceState, next: &'s SourceState) -> Vec<&'s ManifestProblem> {
    let known: HashSet<&ManifestProblem> = before.problems.iter().collect();
    next.problems.iter().filter(|problem| !known.contains(problem)).collect()
}

/// The files that had a problem in `before` and have none in `next`.
pub(super) fn mended_files(before: &SourceState, next: &SourceState) -> BTreeSet<PathBuf> {
    let files = |state: &SourceState| state.problems.iter().map(|p| p.file.clone()).collect::<BTreeSet<_>>();
    files(before).difference(&files(next)).cloned().collect()
}

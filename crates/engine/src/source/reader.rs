//! Maintains the static pods, and the objects beside them, from passes over the manifest files. A file that becomes invalid keeps
//! what it defined; equal content changes nothing, unless the file was deleted in between: that ends its pod, as upstream, and a new
//! one begins, first seen later. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostlet_base::CONFIG_SEEN_ANNOTATION;
use hostlet_pod::objects::FileObject;
use hostlet_pod::pod_ref;
use hostlet_pod::{ManifestOrigin, ManifestProblem};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use md5::{Digest, Md5};

use super::context::{FileAccess, ManifestContext};
use super::manifest::read_manifest;
use super::state::{SourceState, StaticPod};

/// The result of one pass over the files.
pub(super) enum Pass<'d> {
    /// All existing files, by name, possibly read lazily. Empty if the path does not exist.
    Listed(Box<dyn Iterator<Item = (PathBuf, FileRead)> + 'd>),
    /// The files could not be listed; the previous state stays.
    Failed {
        /// The directory.
        path: PathBuf,
        /// Why.
        message: String,
    },
}

/// The result for one file.
#[derive(Debug)]
pub(super) enum FileRead {
    /// The file has not changed since the previous pass.
    Unchanged,
    /// The file's content, and who can read it.
    Bytes(Vec<u8>, FileAccess),
    /// The file cannot be used, for this reason.
    Unusable(String),
}

/// The known state of all files.
#[derive(Debug)]
pub(super) struct Reader {
    node_name: String,
    /// Whether the node has no API server.
    is_alone: bool,
    files: BTreeMap<PathBuf, KnownFile>,
    /// Why the files could not be listed.
    listing: Option<ManifestProblem>,
    /// Files with something that another file defines already.
    conflicts: BTreeMap<PathBuf, Conflict>,
}

/// What a file does not define, because another one does.
#[derive(Debug)]
struct Conflict {
    problem: ManifestProblem,
    /// Whether its pod is among that.
    of_pod: bool,
    /// The positions of its objects that are among that.
    objects: BTreeSet<usize>,
}

/// The known state of one file.
#[derive(Debug, Default)]
struct KnownFile {
    /// Digest of the last parsed content, and who could read it.
    content: Option<([u8; 16], FileAccess)>,
    /// Whether the file was deleted since its last valid content was read.
    was_deleted: bool,
    /// The pod of the last valid content.
    pod: Option<Arc<StaticPod>>,
    /// The objects of the last valid content.
    objects: Vec<FileObject>,
    /// The problem with the current content.
    problem: Option<ManifestProblem>,
}

impl Reader {
    /// A reader before its first pass. `adopted` are the pods that a previous daemon read, oldest first; for each file, the
    /// last one counts as read. So a file that is invalid from the start keeps its pod, and equal content gives an identical pod
    /// with its original time. Pods of other nodes are ignored.
    pub(super) fn new(node_name: &str, is_alone: bool, adopted: &[StaticPod]) -> Self {
        let of_node = |pod: &&StaticPod| {
            pod.pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node_name)
        };
        let known = |pod: &StaticPod| {
            let known = KnownFile { pod: Some(Arc::new(pod.clone())), ..KnownFile::default() };
            pod.origin.file().map(|file| (file.to_owned(), known))
        };
        Self {
            node_name: node_name.to_owned(),
            is_alone,
            files: adopted.iter().filter(of_node).filter_map(known).collect(),
            listing: None,
            conflicts: BTreeMap::new(),
        }
    }

    /// Forgets files that were deleted. What the next pass finds in their place is new, even if it is equal.
    pub(super) fn forget(&mut self, deleted: &BTreeSet<PathBuf>) {
        for (_, known) in self.files.iter_mut().filter(|(file, _)| deleted.contains(*file)) {
            known.content = None;
            known.was_deleted = true;
        }
    }

    /// Applies the result of a pass; returns whether the state changed.
    pub(super) fn apply(&mut self, pass: Pass<'_>, now: Timestamp) -> bool {
        let changed = match pass {
            Pass::Listed(files) => self.apply_files(files, now) | self.listing.take().is_some(),
            Pass::Failed { path, message } => {
                set_problem(&mut self.listing, &ManifestOrigin::File(path), None, message, now)
            }
        };
        if changed {
            self.find_conflicts(now);
        }
        changed
    }

    /// The current state.
    pub(super) fn state(&self) -> SourceState {
        let pods = self
            .files
            .iter()
            .filter(|(file, _)| !self.conflicts.get(*file).is_some_and(|conflict| conflict.of_pod))
            .filter_map(|(_, known)| known.pod.clone());
        let of_files = self.files.iter().flat_map(|(file, known)| {
            let conflict = self.conflicts.get(file).map(|conflict| &conflict.problem);
            known.problem.iter().chain(conflict).cloned()
        });
        SourceState {
            ready: true,
            pods: pods.collect(),
            problems: self.listing.iter().cloned().chain(of_files).collect(),
        }
    }

    /// The objects of all files.
    pub(super) fn objects(&self) -> impl Iterator<Item = FileObject> {
        self.files.iter().flat_map(|(file, known)| {
            let conflict = self.conflicts.get(file);
            let is_hidden = move |at: &usize| conflict.is_some_and(|conflict| conflict.objects.contains(at));
            known
                .objects
                .iter()
                .enumerate()
                .filter(move |(at, _)| !is_hidden(at))
                .map(|(_, object)| object.clone())
        })
    }

    fn apply_files(&mut self, files: impl Iterator<Item = (PathBuf, FileRead)>, now: Timestamp) -> bool {
        let mut removed: BTreeSet<PathBuf> = self.files.keys().cloned().collect();
        let mut changed = false;
        for (file, read) in files {
            removed.remove(&file);
            let known = self.files.entry(file.clone()).or_default();
            changed |= match read {
                FileRead::Unchanged => false,
                FileRead::Unusable(message) => {
                    known.content = None;
                    set_problem(&mut known.problem, &ManifestOrigin::File(file), None, message, now)
                }
                FileRead::Bytes(bytes, access) => {
                    let (node_name, is_alone) = (self.node_name.as_str(), self.is_alone);
                    let context = ManifestContext { file: &file, access, node_name, is_alone };
                    known.apply_bytes(&bytes, &context, now)
                }
            };
        }
        self.files.retain(|file, _| !removed.contains(file));
        changed || !removed.is_empty()
    }

    /// If several files define the same pod or object, the first by name wins.
    fn find_conflicts(&mut self, now: Timestamp) {
        let mut old = std::mem::take(&mut self.conflicts);
        let mut names: BTreeMap<String, &Path> = BTreeMap::new();
        let mut uids: BTreeMap<String, &Path> = BTreeMap::new();
        let mut objects: BTreeMap<String, &Path> = BTreeMap::new();
        for (file, known) in &self.files {
            let (mut messages, mut pod) = (Vec::new(), None);
            if let Some(known) = &known.pod {
                let reference = pod_ref(&known.pod);
                let (name, uid) = (reference.full_name(), reference.uid.to_string());
                let message = match (names.get(&name), uids.get(&uid)) {
                    (Some(first), _) => Some(format!(
                        "pod {reference} is already defined by {}; rename one of the two",
                        first.display()
                    )),
                    (None, Some(first)) => Some(format!(
                        "the pod of {} has the same uid {uid}; remove the uid from one of the two",
                        first.display()
                    )),
                    (None, None) => None,
                };
                if let Some(message) = message {
                    pod = Some(reference.to_string());
                    messages.push(message);
                } else {
                    names.insert(name, file);
                    uids.insert(uid, file);
                }
            }
            let mut hidden = BTreeSet::new();
            for (at, object) in known.objects.iter().enumerate() {
                let name = object.to_string();
                if let Some(first) = objects.get(&name) {
                    let first = first.display();
                    messages.push(format!(
                        "{name} is already defined by {first}; rename or remove one of the two"
                    ));
                    hidden.insert(at);
                } else {
                    objects.insert(name, file);
                }
            }
            if messages.is_empty() {
                continue;
            }
            let of_pod = pod.is_some();
            let mut problem = old.remove(file).map(|conflict| conflict.problem);
            set_problem(&mut problem, &ManifestOrigin::File(file.clone()), pod, messages.join("\n"), now);
            let conflict = |problem| (file.clone(), Conflict { problem, of_pod, objects: hidden });
            self.conflicts.extend(problem.map(conflict));
        }
    }
}

impl KnownFile {
    fn apply_bytes(&mut self, bytes: &[u8], context: &ManifestContext<'_>, now: Timestamp) -> bool {
        let content = (Md5::digest(bytes).into(), context.access);
        if self.content == Some(content) {
            return false;
        }
        self.content = Some(content);
        let origin = ManifestOrigin::File(context.file.to_owned());
        match read_manifest(bytes, context, now) {
            Err(error) => {
                let pod = error.pod().map(str::to_owned);
                set_problem(&mut self.problem, &origin, pod, error.to_string(), now)
            }
            Ok(read) => {
                let was_deleted = std::mem::take(&mut self.was_deleted);
                let has_news = match read.ignored {
                    None => self.problem.take().is_some(),
                    Some(text) => set_problem(&mut self.problem, &origin, None, text, now),
                };
                let same = match (&self.pod, &read.pod) {
                    (Some(known), Some(read)) => !was_deleted && is_same_pod(known, read),
                    (None, None) => true,
                    (Some(_), None) | (None, Some(_)) => false,
                };
                if !same {
                    let known = self.pod.take().filter(|_| !was_deleted);
                    self.pod = read.pod.map(|read| match known {
                        Some(known) => Arc::new(as_first_seen(read, &known)),
                        None => Arc::new(read),
                    });
                }
                let same_objects = self.objects == read.objects;
                self.objects = read.objects;
                has_news || !same || !same_objects
            }
        }
    }
}

/// Whether both pods are equal except for the time they were first seen, e.g. after a comment was edited.
pub(super) fn is_same_pod(known: &StaticPod, read: &StaticPod) -> bool {
    fn without_seen(pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        pod.metadata.annotations.get_or_insert_default().remove(CONFIG_SEEN_ANNOTATION);
        pod
    }
    without_seen(&known.pod) == without_seen(&read.pod)
}

/// The pod; if it has the UID of the known one, it is that pod with another definition, which was first seen earlier.
pub(super) fn as_first_seen(mut pod: StaticPod, known: &StaticPod) -> StaticPod {
    let seen = known.pod.metadata.annotations.as_ref().and_then(|all| all.get(CONFIG_SEEN_ANNOTATION));
    if let Some(seen) = seen.filter(|_| pod.pod.metadata.uid == known.pod.metadata.uid) {
        let annotations = Arc::make_mut(&mut pod.pod).metadata.annotations.get_or_insert_default();
        annotations.insert(CONFIG_SEEN_ANNOTATION.to_owned(), seen.clone());
    }
    pod
}

/// Records a problem; an unchanged one keeps its start time. Returns whether it changed.
pub(super) fn set_problem(
    slot: &mut Option<ManifestProblem>,
    origin: &ManifestOrigin,
    pod: Option<String>,
    message: String,
    now: Timestamp,
) -> bool {
    match slot {
        Some(known) if known.message == message && known.pod == pod => false,
        Some(_) | None => {
            *slot = Some(ManifestProblem { origin: origin.clone(), pod, message, since: now });
            true
        }
    }
}

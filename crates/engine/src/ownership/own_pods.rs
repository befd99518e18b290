//! The record of hostlet's own pods, one file each. A pod has one before anything of it is made on this host, until nothing has been
//! left of it for a while. What belongs to a pod without a file is somebody else's: it is neither removed nor killed.
//!
//! Not in the store, where each pod's start would wait for the disk. A file that was made outlives the daemon; and as the file comes
//! first, a filesystem with a journal keeps it in a power failure if it keeps what was made after it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use hostlet_base::{PodRef, PodUid, error_chain};
use hostlet_host::{SysError, file_work, is_missing};
use hostlet_store::{Store, Table};

/// How long a pod of which nothing is left stays in the record: a runtime that was killed in a call may show something of it
/// minutes later.
const KEPT: Duration = Duration::from_secs(15 * 60);
/// Only root reads which pods ran here.
const DIR_MODE: u32 = 0o700;
/// The namespace and the name of a pod of which only the UID is known.
const UNKNOWN: &str = "unknown";

/// The record. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct OwnPods {
    /// Where the files are; `None` keeps none.
    dir: Option<Arc<Path>>,
    /// Held while a file is made or removed.
    files: Arc<Mutex<()>>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    own: HashSet<PodUid>,
    /// Pods that may not have a file yet.
    unwritten: HashSet<PodUid>,
    /// Since when nothing is left of a pod.
    absent: HashMap<PodUid, Instant>,
}

impl OwnPods {
    /// The record in `dir`. The admitted pods of the store belong to it, also if they were admitted by a version of hostlet that did not keep the
    /// record. Blocking.
    pub fn new(dir: PathBuf, store: &Store) -> Self {
        let recorded = recorded_pods(&dir, store).unwrap_or_else(|error| {
            tracing::error!(
                error = error_chain(&error),
                "cannot read which pods are hostlet's own; what is left of earlier ones is not removed"
            );
            admitted_pods(store)
        });
        let own = Self { dir: Some(dir.into()), ..Self::default() };
        // What is there is not written again: on a full disk it would be lost.
        for pod in recorded.values().filter(|pod| !own.has_file(&pod.uid)) {
            if let Err(error) = own.write(pod) {
                tracing::warn!(
                    %pod, uid = %pod.uid, error = error_chain(&error),
                    "cannot record that the pod is hostlet's own; what is left of it if hostlet is killed is not removed"
                );
            }
        }
        own.state.lock().own = recorded.into_keys().collect();
        own
    }

    /// Records a pod. Only after that may something of the pod be made.
    ///
    /// # Errors
    /// Its file cannot be made, e.g. because the disk is full. It counts as hostlet's own nevertheless, until this daemon ends.
    pub async fn record(&self, pod: &PodRef) -> Result<(), SysError> {
        {
            let mut state = self.state.lock();
            state.absent.remove(&pod.uid);
            if state.own.insert(pod.uid.clone()) {
                state.unwritten.insert(pod.uid.clone());
            }
            if !state.unwritten.contains(&pod.uid) {
                return Ok(());
            }
        }
        if self.dir.is_some() {
            let (own, written) = (self.clone(), pod.clone());
            match file_work(move || own.write(&written)).await {
                Ok(written) => written?,
                // The next work on the pod tries again.
                Err(error) => {
                    tracing::error!(%pod, %error, "recording a pod panicked");
                    return Ok(());
                }
            }
        }
        self.state.lock().unwritten.remove(&pod.uid);
        Ok(())
    }

    /// All of hostlet's pods.
    pub fn all(&self) -> Vec<PodUid> {
        self.state.lock().own.iter().cloned().collect()
    }

    /// Whether this pod is hostlet's.
    pub fn has(&self, uid: &PodUid) -> bool {
        self.state.lock().own.contains(uid)
    }

    /// Forgets the pods that have not been among the `present` ones for long. Those are all that a source names, that have a
    /// lifecycle, or of which the runtime or the host has something.
    pub async fn retain(&self, present: &HashSet<PodUid>, now: Instant) {
        let forgotten: Vec<PodUid> = {
            let mut state = self.state.lock();
            let State { own, unwritten, absent } = &mut *state;
            absent.retain(|uid, _| !present.contains(uid));
            let forgotten = own.extract_if(|uid| {
                !present.contains(uid)
                    && now.duration_since(*absent.entry(uid.clone()).or_insert(now)) >= KEPT
            });
            let forgotten = forgotten.collect();
            absent.retain(|uid, _| own.contains(uid));
            unwritten.retain(|uid| own.contains(uid));
            forgotten
        };
        if forgotten.is_empty() {
            return;
        }
        let own = self.clone();
        if let Err(error) = file_work(move || forgotten.iter().for_each(|uid| own.remove(uid))).await {
            tracing::error!(%error, "removing records of pods panicked");
        }
    }

    /// Whether a pod has a file with its name. Blocking.
    fn has_file(&self, uid: &PodUid) -> bool {
        let path = self.dir.as_ref().and_then(|dir| path_of(dir, uid));
        path.and_then(|path| fs::metadata(path).ok()).is_some_and(|file| file.len() > 0)
    }

    /// Makes the file of a pod, unless the pod cannot have a file: nothing of it can be made either. Blocking.
    fn write(&self, pod: &PodRef) -> Result<(), SysError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let Some(path) = path_of(dir, &pod.uid) else { return Ok(()) };
        let _files = self.files.lock();
        let text = format!("{}/{}\n", pod.namespace, pod.name);
        let write = || fs::write(&path, &text);
        let written = write().or_else(|error| match error.kind() {
            ErrorKind::NotFound => {
                fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
                write()
            }
            _ => Err(error),
        });
        match written {
            Err(error) if error.kind() == ErrorKind::InvalidFilename => Ok(()),
            Err(source) => Err(SysError::Write { path, value: text.trim_end().to_owned(), source }),
            Ok(()) => Ok(()),
        }
    }

    /// Removes the file of a pod that was not recorded again in the meantime. Blocking.
    fn remove(&self, uid: &PodUid) {
        let Some(path) = self.dir.as_ref().and_then(|dir| path_of(dir, uid)) else { return };
        let _files = self.files.lock();
        if self.has(uid) {
            return;
        }
        match fs::remove_file(&path) {
            Err(error) if !is_missing(&error) => {
                // The next daemon tries again.
                tracing::warn!(file = %path.display(), %error, "cannot remove the record of a pod of which nothing is left");
            }
            _ => {}
        }
    }
}

/// The file of a pod; `None` if its UID is no name of a file, and so none of a directory either.
fn path_of(dir: &Path, uid: &PodUid) -> Option<PathBuf> {
    uid.is_file_name().then(|| dir.join(uid.as_str()))
}

/// The pods that the record in `dir`, or the store, proves to be hostlet's. A file or a row that cannot be read proves it, too.
/// Blocking.
///
/// # Errors
/// The directory cannot be listed. A missing one has no files.
pub fn recorded_pods(dir: &Path, store: &Store) -> Result<BTreeMap<PodUid, PodRef>, SysError> {
    let mut recorded = admitted_pods(store);
    let failed = |source: io::Error| SysError::Read { path: dir.to_owned(), source };
    let files = match fs::read_dir(dir) {
        Err(error) if is_missing(&error) => return Ok(recorded),
        files => files.map_err(failed)?,
    };
    for file in files {
        let file = file.map_err(failed)?;
        let Ok(uid) = file.file_name().into_string() else { continue };
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        let (namespace, name) = text.trim_end().split_once('/').unwrap_or((UNKNOWN, UNKNOWN));
        recorded.entry(PodUid::from(uid.as_str())).or_insert_with(|| PodRef::new(namespace, name, &uid));
    }
    Ok(recorded)
}

fn admitted_pods(store: &Store) -> BTreeMap<PodUid, PodRef> {
    let admitted: BTreeMap<String, Value> = store.all(Table::AdmittedPods).into_iter().collect();
    let pod = |uid: String| {
        let metadata = admitted.get(&uid).map(|row| &row["pod"]["metadata"]);
        let text = |name: &str| metadata.and_then(|m| m[name].as_str()).unwrap_or(UNKNOWN);
        (PodUid::from(uid.as_str()), PodRef::new(text("namespace"), text("name"), &uid))
    };
    store.keys(Table::AdmittedPods).into_iter().map(pod).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use serde_json::json;

    use super::*;

    fn pod(name: &str) -> PodRef {
        PodRef::new("ns", name, &format!("uid-of-{name}"))
    }

    fn files(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_forgotten_only_after_nothing_was_left_of_it_for_long() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("hostlet/own-pods");
        let own = OwnPods::new(dir.clone(), &Store::default());
        let (web, db) = (pod("web"), pod("db"));
        own.record(&web).await.unwrap();
        own.record(&db).await.unwrap();
        assert!(own.has(&web.uid) && !own.has(&"of-others".into()));
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, DIR_MODE);
        let (start, minute) = (Instant::now(), Duration::from_secs(60));
        let present: HashSet<PodUid> = [db.uid.clone()].into();
        own.retain(&present, start).await;
        own.retain(&present, start + 10 * minute).await;
        // Something of it showed up again.
        own.retain(&[web.uid.clone(), db.uid.clone()].into(), start + 14 * minute).await;
        own.retain(&present, start + 16 * minute).await;
        own.retain(&present, start + 30 * minute).await;
        assert!(own.has(&web.uid));
        own.retain(&present, start + 31 * minute).await;
        assert!(!own.has(&web.uid) && own.has(&db.uid));
        assert_eq!(files(&dir), ["uid-of-db"]);
        own.record(&web).await.unwrap();
        assert!(OwnPods::new(dir, &Store::default()).has(&web.uid), "recorded again");
    }

    #[test]
    fn pods_that_an_earlier_version_admitted_are_in_the_record() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("own-pods");
        let store = Store::default();
        let metadata = json!({"namespace": "ns", "name": "web"});
        store.put(Table::AdmittedPods, "uid-of-web", &json!({"pod": {"metadata": metadata}}));
        store.put(Table::AdmittedPods, "unreadable", &json!(1));
        let own = OwnPods::new(dir.clone(), &store);
        assert!(own.has(&"uid-of-web".into()) && own.has(&"unreadable".into()));
        // A later daemon writes no file again.
        fs::write(dir.join("uid-of-web"), "ns/as-it-was\n").unwrap();
        OwnPods::new(dir.clone(), &store);
        assert_eq!(fs::read_to_string(dir.join("uid-of-web")).unwrap(), "ns/as-it-was\n");
        // Files stay when their pods are no longer admitted; after a power failure, a file may be empty.
        fs::write(dir.join("cut-short"), "").unwrap();
        let recorded = recorded_pods(&dir, &Store::default()).unwrap();
        let name = |uid: &str| recorded[&PodUid::from(uid)].to_string();
        assert_eq!(name("uid-of-web"), "ns/as-it-was");
        assert_eq!(
            (name("unreadable"), name("cut-short")),
            ("unknown/unknown".into(), "unknown/unknown".into())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_that_cannot_be_written_is_tried_again_and_one_that_cannot_exist_is_not() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("own-pods");
        let own = OwnPods::new(dir.clone(), &Store::default());
        // A link to itself: an error that does not come from the pod's UID.
        symlink(&dir, &dir).unwrap();
        assert!(own.record(&pod("web")).await.is_err());
        assert!(own.has(&pod("web").uid));
        fs::remove_file(&dir).unwrap();
        own.record(&pod("web")).await.unwrap();
        assert_eq!(files(&dir), ["uid-of-web"]);
        for uid in ["../up", "..", &"x".repeat(300)] {
            let odd = PodRef::new("ns", "odd", uid);
            own.record(&odd).await.unwrap();
            assert!(own.has(&odd.uid) && !own.state.lock().unwritten.contains(&odd.uid));
        }
        assert_eq!(files(&dir), ["uid-of-web"]);
    }
}

//! What pods have on this host outside the runtime: directories, logs, processes. Reads only; blocks its thread. Decides nothing.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hostlet_base::PodUid;
use hostlet_host::PodDirs;
use hostlet_host::cgroup::{CgroupError, Cgroups};
use hostlet_observe::log::{LogError, LogLayout};

use crate::cri_config::{PodDirError, pod_dirs};

/// How many pods a sentence names.
const NAMED: usize = 5;

/// What one pod has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Its directory, unless empty, and the directories of its logs.
    pub directories: Vec<PathBuf>,
    /// Its cgroups in which processes run.
    pub cgroups: Vec<PathBuf>,
}

/// Why it cannot be seen what pods have.
#[derive(Debug, thiserror::Error)]
pub enum RemainsError {
    /// The directories of pods cannot be listed.
    #[error("the directories of pods cannot be listed")]
    Directories(#[from] PodDirError),
    /// The directory of one cannot be listed.
    #[error("the directory {} cannot be listed", path.display())]
    Directory {
        /// Path of that directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The logs of pods cannot be listed.
    #[error("the logs of pods cannot be listed")]
    Logs(#[from] LogError),
    /// The cgroups of pods cannot be listed.
    #[error("the cgroups of pods cannot be listed")]
    Cgroups(#[from] CgroupError),
}

/// What pods other than `own` have below the root directory, in the logs and in cgroups. An empty directory and a cgroup without
/// processes are nothing.
pub fn remains_of_others(
    root: &Path,
    logs: &LogLayout,
    cgroups: Option<&Cgroups>,
    is_own: impl Fn(&PodUid) -> bool,
) -> Result<BTreeMap<PodUid, Remains>, RemainsError> {
    let mut found: BTreeMap<PodUid, Remains> = BTreeMap::new();
    for uid in pod_dirs(root)?.into_iter().filter(|uid| !is_own(uid)) {
        let Some(dirs) = PodDirs::new(root, &uid) else { continue };
        if has_entries(dirs.path())? {
            found.entry(uid).or_default().directories.push(dirs.path().to_owned());
        }
    }
    for (uid, path) in logs.pods()?.into_iter().filter(|(uid, _)| !is_own(uid)) {
        found.entry(uid).or_default().directories.push(path);
    }
    let Some(cgroups) = cgroups else { return Ok(found) };
    for uid in cgroups.list_pods()?.into_iter().filter(|uid| !is_own(uid)) {
        let populated = cgroups.populated(&uid)?;
        if !populated.is_empty() {
            found.entry(uid).or_default().cgroups.extend(populated);
        }
    }
    Ok(found)
}

/// Whether a directory has entries. A file in its place counts as one that has.
fn has_entries(path: &Path) -> Result<bool, RemainsError> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        // It was removed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(true),
        Err(source) => Err(RemainsError::Directory { path: path.to_owned(), source }),
    }
}

/// What the pods of others have, and the command that removes it; `None` if they have nothing.
pub fn about_remains(others: &BTreeMap<PodUid, Remains>) -> Option<String> {
    let all = |of: fn(&Remains) -> &[PathBuf]| -> Vec<String> {
        let named = others.values().take(NAMED).flat_map(of);
        // A pod has several cgroups of one name in the hierarchies of version 1.
        let mut seen = HashSet::new();
        named.map(|path| quoted(path)).filter(|path| seen.insert(path.clone())).collect()
    };
    let (directories, cgroups) = (all(|remains| &remains.directories), all(|remains| &remains.cgroups));
    let uids: Vec<&str> = others.keys().take(NAMED).map(PodUid::as_str).collect();
    let more = match others.len().checked_sub(uids.len())? {
        0 if uids.is_empty() => return None,
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let whose = if others.len() == 1 { "a pod" } else { "pods" };
    let mut text = format!(
        "there is something of {whose} that hostlet did not record as its own (UID {}{more}), and that it leaves alone",
        uids.join(", ")
    );
    if !cgroups.is_empty() {
        // The processes are in the cgroups of containers, below the pod's.
        let all = cgroups.join(" ");
        text += &format!(
            "; processes run in {all}: what started them has to end them, or, if nothing knows them, \
             `kill $(find {all} -name cgroup.procs -exec cat {{}} +)`"
        );
    }
    if !directories.is_empty() {
        text +=
            &format!("; if nobody needs it, `rm -r --one-file-system {}` removes it", directories.join(" "));
    }
    Some(text)
}

/// The path as one word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_with_content_and_logs_of_others_are_found_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let logs = LogLayout { pod_logs_dir: at("logs"), containers_dir: at("links") };
        let found = || remains_of_others(dir.path(), &logs, None, |uid| uid.as_str() == "ours").unwrap();
        assert_eq!((found().len(), about_remains(&found())), (0, None), "nothing exists yet");
        for path in [
            "pods/empty",
            "pods/ours/volumes",
            "pods/theirs/volumes",
            "logs/ns_web_theirs",
            "logs/ns_web_ours",
        ] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::create_dir_all(at("logs/ns_db_of others")).unwrap();
        let found = found();
        let uids: Vec<&str> = found.keys().map(PodUid::as_str).collect();
        assert_eq!(uids, ["of others", "theirs"]);
        let both = [at("pods/theirs"), at("logs/ns_web_theirs")];
        assert_eq!(found[&PodUid::from("theirs")].directories, both);
        let text = about_remains(&found).unwrap();
        let base = dir.path().display();
        let command = format!(
            "`rm -r --one-file-system '{base}/logs/ns_db_of others' {base}/pods/theirs {base}/logs/ns_web_theirs`"
        );
        assert!(text.contains(&command) && !text.contains("processes"), "{text}");
    }

    #[test]
    fn processes_of_others_come_with_what_has_to_end_first() {
        let cgroup = |uid: &str| PathBuf::from(format!("/sys/fs/cgroup/kubepods/pod{uid}"));
        let of = |uid: &str| Remains { cgroups: vec![cgroup(uid)], ..Remains::default() };
        let others =
            (0..7).map(|n| n.to_string()).map(|uid| (PodUid::from(uid.as_str()), of(&uid))).collect();
        let text = about_remains(&others).unwrap();
        assert!(text.contains("(UID 0, 1, 2, 3, 4 and 2 more)"), "{text}");
        assert!(
            text.contains("processes run in /sys/fs/cgroup/kubepods/pod0 ") && !text.contains("rm -r"),
            "{text}"
        );
    }

    #[test]
    fn the_command_against_processes_finds_those_of_containers() {
        let dir = tempfile::tempdir().unwrap();
        let pod = dir.path().join("pod of others");
        for (cgroup, processes) in [("", ""), ("a", "7\n8\n"), ("b", "9\n")] {
            fs::create_dir_all(pod.join(cgroup)).unwrap();
            fs::write(pod.join(cgroup).join("cgroup.procs"), processes).unwrap();
        }
        let remains = Remains { cgroups: vec![pod], ..Remains::default() };
        let text = about_remains(&BTreeMap::from([("u".into(), remains)])).unwrap();
        let command = text.split('`').nth(1).unwrap().replacen("kill ", "echo ", 1);
        let said = std::process::Command::new("sh").arg("-c").arg(command).output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let mut killed: Vec<&str> = said.split_whitespace().collect();
        killed.sort();
        assert_eq!(killed, ["7", "8", "9"]);
    }
}

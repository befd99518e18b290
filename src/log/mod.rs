//! Container log layout: directories, file names and the links under `/var/log/containers`.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use crate::cri::ContainerStatus;
use crate::types::{ContainerId, PodRef, PodUid};

/// Layout.
#[derive(Clone, Debug)]
pub struct LogLayout {
    /// d
    pub pod_logs_dir: PathBuf,
    /// d
    pub containers_dir: PathBuf,
}

#[allow(missing_docs, clippy::missing_errors_doc)]
impl LogLayout {
    fn dir(&self, pod: &PodRef) -> PathBuf {
        self.pod_logs_dir.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid))
    }
    pub fn make_pod(&self, pod: &PodRef) -> io::Result<()> {
        std::fs::create_dir_all(self.dir(pod))
    }
    pub fn make_container(&self, pod: &PodRef, name: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.dir(pod).join(name))
    }
    pub fn remove_container(&self, _: &PodRef, _: &str, _: u32, _: &ContainerId) -> io::Result<()> {
        Ok(())
    }
    pub fn remove_pod(&self, pod: &PodRef) -> io::Result<()> {
        match std::fs::remove_dir_all(self.dir(pod)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
    pub fn link(&self, _: &PodRef, _: &str, _: u32, _: &ContainerId) -> io::Result<()> {
        Ok(())
    }
    pub fn next_attempt(&self, _: &PodRef, _: &str) -> u32 {
        0
    }
    pub fn sweep(&self, _: &HashSet<PodUid>) -> io::Result<()> {
        Ok(())
    }
}

/// m
pub fn termination_message(_: &ContainerStatus) -> String {
    String::new()
}

//! How long logind delays a shutdown: checks it, and raises it if it is too short for this node's pods (upstream
//! `OverrideInhibitDelay`).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::error_chain;
use hostlet_host::{file_work, replace_file};
use tokio::time::sleep;

use super::logind::{LogindError, LogindSession};

/// Upstream's file, below the directory for the host's configuration.
const FILE: &str = "systemd/logind.conf.d/99-kubelet.conf";

/// Attempts to see the new delay after a reload, and the first pause between them, which doubles; upstream's constants.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The delay could not be raised.
#[derive(Debug, thiserror::Error)]
pub(super) enum DelayError {
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Reload(LogindError),
    #[error("systemd-logind does not apply {}; another file may override it", path.display())]
    NotApplied { path: PathBuf },
}

/// The delay that logind grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    /// At most this long is a shutdown delayed.
    pub(super) delay: Duration,
    /// Why that is shorter than needed, if it is.
    pub(super) shortage: Option<String>,
}

/// The delay that this node needs.
#[derive(Clone, Debug)]
pub(super) struct InhibitDelay {
    /// Directory of the host's configuration, `/etc`.
    pub(super) etc: PathBuf,
    /// How long.
    pub(super) needed: Duration,
}

impl InhibitDelay {
    /// Reads the delay, and raises it if it is too short.
    pub(super) async fn ensure(&self, session: &dyn LogindSession) -> Result<Granted, LogindError> {
        let current = session.inhibit_delay_max().await?;
        if current >= self.needed {
            return Ok(Granted { delay: current, shortage: None });
        }
        let Err(error) = self.raise(session).await else {
            return Ok(Granted { delay: self.needed, shortage: None });
        };
        let delay = session.inhibit_delay_max().await?;
        let (seconds, needed) = (delay.as_secs_f64(), self.needed.as_secs());
        let shortage = format!(
            "a shutdown of this host waits only {seconds} s for the pods instead of {needed} s: {}; set \
             InhibitDelayMaxSec={needed} in /etc/systemd/logind.conf and run systemctl reload systemd-logind",
            error_chain(&error)
        );
        Ok(Granted { delay, shortage: (delay < self.needed).then_some(shortage) })
    }

    async fn raise(&self, session: &dyn LogindSession) -> Result<(), DelayError> {
        let path = self.etc.join(FILE);
        let (file, content) = (path.clone(), content(self.needed));
        let written = file_work(move || write(&file, &content)).await;
        let written = written.unwrap_or_else(|panic| Err(io::Error::other(panic)));
        written.map_err(|source| DelayError::Write { path: path.clone(), source })?;
        tracing::info!(
            file = %path.display(), seconds = self.needed.as_secs(),
            "raised InhibitDelayMaxSec of systemd-logind, so that a shutdown waits for the pods"
        );
        session.reload().await.map_err(DelayError::Reload)?;
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            if session.inhibit_delay_max().await.map_err(DelayError::Reload)? >= self.needed {
                return Ok(());
            }
            if attempt < ATTEMPTS {
                sleep(pause).await;
                pause *= 2;
            }
        }
        Err(DelayError::NotApplied { path })
    }
}

/// Writes the file, which anybody may read, and creates its directory if missing. logind reads only names that end with `.conf`,
/// so it never reads half of it.
fn write(file: &Path, content: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    }
    replace_file(file, content.as_bytes(), 0o644)
}

/// The beginning of the file.
const CONTENT: &str = "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=";

/// Upstream's content of the file.
fn content(needed: Duration) -> String {
    format!("{CONTENT}{}\n", needed.as_secs())
}

/// The file below `etc`, if a kubelet wrote it and nobody has added to it.
pub(super) fn raised_delay(etc: &Path) -> Option<PathBuf> {
    let path = etc.join(FILE);
    let text = std::fs::read_to_string(&path).ok()?;
    let seconds = text.strip_prefix(CONTENT)?.trim_end();
    seconds.bytes().all(|byte| byte.is_ascii_digit()).then_some(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::shutdown::logind::Logind;
    use crate::shutdown::testing::FakeLogind;

    fn delay(etc: &std::path::Path, seconds: u64) -> InhibitDelay {
        InhibitDelay { etc: etc.to_owned(), needed: Duration::from_secs(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_is_long_enough_is_left_alone() {
        let etc = tempfile::tempdir().unwrap();
        let logind = FakeLogind::new(Duration::from_secs(30));
        let session = logind.connect().await.unwrap();
        let granted = delay(etc.path(), 30).ensure(&*session).await.unwrap();
        assert_eq!(granted, Granted { delay: Duration::from_secs(30), shortage: None });
        assert!(!etc.path().join(FILE).exists() && logind.reloads() == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_is_too_short_is_raised_with_upstreams_file() {
        let etc = tempfile::tempdir().unwrap();
        let logind = FakeLogind::new(Duration::from_secs(5));
        logind.applies_after(Duration::from_millis(300), etc.path().join(FILE));
        let session = logind.connect().await.unwrap();
        let granted = delay(etc.path(), 370).ensure(&*session).await.unwrap();
        assert_eq!(granted, Granted { delay: Duration::from_secs(370), shortage: None });
        let text = fs::read_to_string(etc.path().join(FILE)).unwrap();
        assert_eq!(text, "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=370\n");
        assert_eq!(raised_delay(etc.path()), Some(etc.path().join(FILE)));
        let names: Vec<_> = fs::read_dir(etc.path().join("systemd/logind.conf.d")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }

    #[test]
    fn a_file_that_a_person_edited_is_theirs() {
        let etc = tempfile::tempdir().unwrap();
        assert_eq!(raised_delay(etc.path()), None);
        write(
            &etc.path().join(FILE),
            "# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=5\nKillUserProcesses=yes\n",
        )
        .unwrap();
        assert_eq!(raised_delay(etc.path()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_that_cannot_be_raised_is_used_as_it_is() {
        let etc = tempfile::tempdir().unwrap();
        let logind = FakeLogind::new(Duration::from_secs(5));
        let session = logind.connect().await.unwrap();
        let granted = delay(etc.path(), 30).ensure(&*session).await.unwrap();
        assert_eq!(granted.delay, Duration::from_secs(5));
        let shortage = granted.shortage.unwrap();
        assert!(shortage.contains("only 5 s") && shortage.contains("99-kubelet.conf"), "{shortage}");
        let file = etc.path().join("file");
        fs::write(&file, "").unwrap();
        let granted = delay(&file, 30).ensure(&*session).await.unwrap();
        assert!(granted.shortage.unwrap().contains("cannot write"));
    }
}

//! What the kernel says about memory without being asked: that tasks were stalled, or that a cgroup v1 uses more than some amount.
//! Decides nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::SysError;

/// Bytes of the count of an eventfd.
const COUNT: usize = 8;

/// Which tasks have to be stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StallKind {
    /// Some of them.
    Some,
    /// All of them at the same time.
    Full,
}

/// How long tasks have to be stalled for memory, of how much time (Documentation/accounting/psi.rst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallTrigger {
    /// Which tasks.
    pub kind: StallKind,
    /// How long at least.
    pub stalled: Duration,
    /// Within this time, which the kernel wants between half a second and ten seconds.
    pub window: Duration,
}

impl StallTrigger {
    fn text(&self) -> String {
        let kind = match self.kind {
            StallKind::Some => "some",
            StallKind::Full => "full",
        };
        format!("{kind} {} {}", self.stalled.as_micros(), self.window.as_micros())
    }
}

/// An alarm. Dropping it ends it.
#[derive(Debug)]
pub struct MemoryAlarm(Source);

#[derive(Debug)]
enum Source {
    /// A file of pressure with a trigger.
    Stall(AsyncFd<OwnedFd>),
    /// The kernel counts in it how often the amount was crossed.
    Usage(AsyncFd<OwnedFd>),
}

impl MemoryAlarm {
    /// An alarm about stalls, of a file `memory.pressure` or of `/proc/pressure/memory`. Needs a tokio runtime.
    ///
    /// # Errors
    /// The kernel has no such file, or does not accept the trigger.
    pub fn of_stalls(file: &Path, trigger: StallTrigger) -> Result<Self, SysError> {
        let text = trigger.text();
        let failed = |source| SysError::Write { path: file.to_owned(), value: text.clone(), source };
        let mut pressure = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(file)
            .map_err(|source| SysError::Read { path: file.to_owned(), source })?;
        // The kernel reads a string of C.
        pressure.write_all(format!("{text}\0").as_bytes()).map_err(failed)?;
        let watched = watch(OwnedFd::from(pressure), Interest::PRIORITY).map_err(failed)?;
        Ok(Self(Source::Stall(watched)))
    }

    /// An alarm about the use of memory of a cgroup v1 in this directory, each time it crosses so many bytes. Needs a tokio runtime.
    ///
    /// # Errors
    /// There is no such cgroup, or its kernel has no such notifications.
    pub fn of_usage(cgroup: &Path, bytes: u64) -> Result<Self, SysError> {
        let (usage, control) = (cgroup.join("memory.usage_in_bytes"), cgroup.join("cgroup.event_control"));
        let open = |source| SysError::Read { path: usage.clone(), source };
        let watched = File::open(&usage).map_err(open)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags).map_err(io::Error::from).map_err(open)?;
        let text = format!("{} {} {bytes}", event.as_raw_fd(), watched.as_raw_fd());
        let failed = |source| SysError::Write { path: control.clone(), value: text.clone(), source };
        let mut file = OpenOptions::new().write(true).open(&control).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        let event = watch(event, Interest::READABLE).map_err(failed)?;
        Ok(Self(Source::Usage(event)))
    }

    /// Waits until it is raised again. Cancel-safe: it stays raised until this returns.
    ///
    /// # Errors
    /// The kernel does not raise it any more.
    pub async fn raised(&self) -> io::Result<()> {
        match &self.0 {
            Source::Stall(file) => {
                let mut ready = file.ready(Interest::PRIORITY).await?;
                if ready.ready().is_error() {
                    return Err(io::Error::other("the file of pressure is gone"));
                }
                ready.clear_ready();
            }
            Source::Usage(event) => loop {
                let mut ready = event.readable().await?;
                // Reading resets the count.
                match ready.try_io(|event| Ok(rustix::io::read(event.get_ref(), &mut [0; COUNT])?)) {
                    Ok(read) => return read.map(drop),
                    Err(_would_block) => {}
                }
            },
        }
        Ok(())
    }
}

fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[allow(unsafe_code, reason = "tokio has no safe interface for descriptors that it does not know")]
    // SAFETY: An owned descriptor stays open and the same until the result is dropped.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    Ok(watched?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn triggers_are_in_the_kernels_words() {
        let (stalled, window) = (Duration::from_millis(150), Duration::from_secs(1));
        let text = |kind| StallTrigger { kind, stalled, window }.text();
        assert_eq!(text(StallKind::Some), "some 150000 1000000");
        assert_eq!(text(StallKind::Full), "full 150000 1000000");
    }

    #[tokio::test]
    async fn an_amount_is_registered_with_the_cgroup_and_each_crossing_is_told_once() {
        let dir = TempDir::new().unwrap();
        for file in ["memory.usage_in_bytes", "cgroup.event_control"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let alarm = MemoryAlarm::of_usage(dir.path(), 4096).unwrap();
        let text = fs::read_to_string(dir.path().join("cgroup.event_control")).unwrap();
        let Source::Usage(event) = &alarm.0 else { panic!("{alarm:?}") };
        let [number, _, bytes] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!((number, bytes), (&*event.get_ref().as_fd().as_raw_fd().to_string(), "4096"));
        let raise = |count: u64| rustix::io::write(event.get_ref(), &count.to_ne_bytes()).unwrap();
        raise(1);
        alarm.raised().await.unwrap();
        let again = tokio::time::timeout(Duration::from_millis(1), alarm.raised()).await;
        assert!(again.is_err(), "it was raised once");
        raise(2);
        alarm.raised().await.unwrap();
    }

    #[tokio::test]
    async fn a_kernel_without_the_files_has_no_alarms() {
        let trigger = StallTrigger {
            kind: StallKind::Some,
            stalled: Duration::from_millis(100),
            window: Duration::from_secs(1),
        };
        let error = MemoryAlarm::of_stalls(Path::new("/nowhere/memory.pressure"), trigger).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /nowhere/memory.pressure");
        assert!(MemoryAlarm::of_usage(Path::new("/nowhere"), 1).is_err());
    }
}

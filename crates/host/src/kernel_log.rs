//! The messages that the kernel logged since it booted, as `/dev/kmsg` has them (Documentation/ABI/testing/dev-kmsg of Linux). Judges none.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tokio::net::unix::pipe::Receiver;

/// The kernel's longest record; it refuses to give one in parts.
const LONGEST: usize = 8192;

/// A record of the kernel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRecord {
    /// Its number, counted from 0 at each boot.
    pub sequence: u64,
    /// The message. The kernel escapes what is neither printable nor ASCII.
    pub message: String,
}

impl KernelRecord {
    /// Reads what one `read` of the device returns: level, number, time and flags, a semicolon, the message, and properties in the
    /// lines after it. `None` if it is no record.
    pub fn parse(record: &[u8]) -> Option<Self> {
        let record = String::from_utf8_lossy(record);
        let (head, text) = record.split_once(';')?;
        let sequence = head.split(',').nth(1)?.parse().ok()?;
        Some(Self { sequence, message: text.lines().next().unwrap_or_default().to_owned() })
    }
}

/// A reader of the kernel's log, which costs nothing while the kernel logs nothing. No library has a type for its device, but waiting and
/// reading are the same calls as for a pipe.
#[derive(Debug)]
pub struct KernelLog(Receiver);

impl KernelLog {
    /// Opens the log at this path, at the oldest record that the kernel still has.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?)
    }

    fn new(file: File) -> io::Result<Self> {
        Ok(Self(Receiver::from_file_unchecked(file)?))
    }

    /// The next record; `None` if the kernel has not logged another one yet. Records that it overwrote before they were read are skipped,
    /// which a gap in their numbers shows.
    pub fn try_next(&self) -> io::Result<Option<KernelRecord>> {
        let mut bytes = [0; LONGEST];
        loop {
            // Not through the runtime, which does not know yet whether there is anything to read.
            let read = rustix::io::read(&self.0, &mut bytes).map_err(io::Error::from);
            match record_of(&bytes, read) {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the next record. Cancel-safe.
    pub async fn next(&self) -> io::Result<KernelRecord> {
        loop {
            // A burst of messages is to delay nothing else.
            tokio::task::coop::consume_budget().await;
            self.0.readable().await?;
            let mut bytes = [0; LONGEST];
            let read = self.0.try_read(&mut bytes);
            match record_of(&bytes, read) {
                Ok(Some(record)) => return Ok(record),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What was read into `bytes`; `None` if that is no record, and the next one is read after it.
fn record_of(bytes: &[u8], read: io::Result<usize>) -> io::Result<Option<KernelRecord>> {
    match read {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(length) => Ok(bytes.get(..length).and_then(KernelRecord::parse)),
        // The next record was overwritten.
        Err(error) if error.raw_os_error() == Some(libc::EPIPE) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
    use proptest::prelude::*;

    use super::*;

    fn record(sequence: u64, message: &str) -> KernelRecord {
        KernelRecord { sequence, message: message.to_owned() }
    }

    #[tokio::test]
    async fn records_are_read_one_by_one() {
        // As the device, this gives one record for each read.
        let (log, kernel) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_NONBLOCK).unwrap();
        let log = KernelLog::new(File::from(log)).unwrap();
        let write = |kernel: &OwnedFd, record: &str| {
            send(kernel.as_raw_fd(), record.as_bytes(), MsgFlags::empty()).unwrap();
        };
        assert_eq!(log.try_next().unwrap(), None);
        write(&kernel, "6,107388,25313940754,-;cni0: port 96; disabled\n SUBSYSTEM=net\n DEVICE=n3\n");
        write(&kernel, "no record");
        write(&kernel, "4,107389,25313940755,-,caller=T1;\n");
        assert_eq!(log.try_next().unwrap(), Some(record(107_388, "cni0: port 96; disabled")));
        assert_eq!(log.next().await.unwrap(), record(107_389, ""));
        assert_eq!(log.try_next().unwrap(), None);
        let (later, ()) = tokio::join!(log.next(), async { write(&kernel, "4,107390,2,-;later\n") });
        assert_eq!(later.unwrap(), record(107_390, "later"));
        drop(kernel);
        assert_eq!(log.next().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_no_record_is_none() {
        for text in
            ["", ";", "6;a", "6,;a", "6,x,1,-;a", "6,-1,1,-;a", "6,18446744073709551616,1,-;a", "6,1,1,-"]
        {
            assert_eq!(KernelRecord::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn number_and_message_are_read_whatever_surrounds_them(
            sequence: u64, message in "[ -~]*", after in "(\n [A-Z]+=[ -~]*)*", level in 0..2048u32, flags in "[-c](,caller=[TC][0-9]+)?",
        ) {
            let text = format!("{level},{sequence},5140900,{flags};{message}{after}\n");
            prop_assert_eq!(KernelRecord::parse(text.as_bytes()), Some(record(sequence, &message)));
        }

        #[test]
        fn any_bytes_are_a_record_of_one_line_or_none(bytes: Vec<u8>) {
            if let Some(record) = KernelRecord::parse(&bytes) {
                prop_assert!(!record.message.contains('\n'));
            }
        }
    }
}

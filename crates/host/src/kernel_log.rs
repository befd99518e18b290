//! The messages that the kernel logs from now on, as `/dev/kmsg` has them (Documentation/ABI/testing/dev-kmsg of Linux).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tokio::net::unix::pipe::Receiver;

/// The kernel's longest record; it refuses to give one in parts.
const LONGEST: usize = 8192;

/// A reader of the kernel's log. No library has a type for its device, but waiting and reading are the same calls as for a pipe.
#[derive(Debug)]
pub struct KernelLog(Receiver);

impl KernelLog {
    /// Opens the log at this path, after its last message.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Self::new(file)
    }

    fn new(file: File) -> io::Result<Self> {
        Ok(Self(Receiver::from_file_unchecked(file)?))
    }

    /// Waits for the next message. Those that the kernel overwrote before they were read are skipped. Cancel-safe.
    pub async fn next(&self) -> io::Result<String> {
        loop {
            // A burst of messages is to delay nothing else.
            tokio::task::coop::consume_budget().await;
            self.0.readable().await?;
            if let Some(message) = self.read()? {
                return Ok(message);
            }
        }
    }

    /// Reads a record, if there is one.
    fn read(&self) -> io::Result<Option<String>> {
        let mut record = [0; LONGEST];
        match self.0.try_read(&mut record) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => Ok(Some(message(&record[..length]))),
            // The next record was overwritten, and the next read continues after it.
            Err(error) if error.raw_os_error() == Some(libc::EPIPE) => Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The message of a record, without what precedes it (level, number, time) and the properties in the lines after it.
fn message(record: &[u8]) -> String {
    let record = String::from_utf8_lossy(record);
    let text = record.split_once(';').map_or("", |(_, text)| text);
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};

    use super::*;

    #[tokio::test]
    async fn messages_are_read_one_by_one() {
        // As the device, this gives one record for each read.
        let (log, kernel) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_NONBLOCK).unwrap();
        let log = KernelLog::new(File::from(log)).unwrap();
        let write = |kernel: &OwnedFd, record: &str| {
            send(kernel.as_raw_fd(), record.as_bytes(), MsgFlags::empty()).unwrap();
        };
        write(&kernel, "6,107388,25313940754,-;cni0: port 96; disabled\n SUBSYSTEM=net\n DEVICE=n3\n");
        write(&kernel, "no record");
        assert_eq!(log.next().await.unwrap(), "cni0: port 96; disabled");
        assert_eq!(log.next().await.unwrap(), "");
        let (later, ()) = tokio::join!(log.next(), async { write(&kernel, "4,1,2,-;later\n") });
        assert_eq!(later.unwrap(), "later");
        drop(kernel);
        assert_eq!(log.next().await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

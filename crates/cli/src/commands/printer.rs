//! The output of a command in a container, written to this process's own.

use std::io::{self, Write};

use futures::Sink;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::PollSender;

use hostlet_runtime::streaming::Output;

/// Pieces of output that wait to be written.
const WAITING: usize = 4;

/// Begins to write what is sent until the sender is dropped or a write fails. Returns how it ended as well.
///
/// A thread writes: a terminal that is stopped would stop the whole process, and no signal could end it. The thread ends with the process.
pub(super) fn printer() -> io::Result<(impl Sink<Output>, oneshot::Receiver<io::Result<()>>)> {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let (ended, has_ended) = oneshot::channel();
    std::thread::Builder::new().name("output".to_owned()).spawn(move || {
        let written = write_all(&mut receiver);
        // Nobody waits for it after a signal. Whoever finds the channel closed finds the reason.
        let _ = ended.send(written);
        drop(receiver);
    })?;
    Ok((PollSender::new(sender), has_ended))
}

fn write_all(receiver: &mut mpsc::Receiver<Output>) -> io::Result<()> {
    while let Some(printed) = receiver.blocking_recv() {
        match printed {
            Output::Stdout(bytes) => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&bytes)?;
                stdout.flush()?;
            }
            Output::Stderr(bytes) => io::stderr().write_all(&bytes)?,
        }
    }
    Ok(())
}

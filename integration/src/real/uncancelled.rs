//! A way to containerd on which nobody can take a call back: it carries everything but the HTTP/2 frames by which a client
//! cancels. So a call goes on after its deadline, as it does in a runtime that is past the last point at which it looks.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};

/// What a client sends before its first frame.
const PREFACE: usize = 24;
/// Length, type, flags and stream of a frame: <https://www.rfc-editor.org/rfc/rfc9113#section-4.1>
const HEAD: usize = 9;
const RST_STREAM: u8 = 3;

/// Serves `socket` from now on until the test's process ends; every connection leads to `containerd`.
pub(super) fn serve(socket: &Path, containerd: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("binding {}", socket.display()))?;
    let containerd = containerd.to_owned();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // One that cannot be led on is closed, as by a runtime that is away.
            drop(lead_on(near, &containerd));
        }
    });
    Ok(())
}

fn lead_on(near: UnixStream, containerd: &Path) -> io::Result<()> {
    let far = UnixStream::connect(containerd)?;
    let (near_in, far_out) = (near.try_clone()?, far.try_clone()?);
    thread::spawn(move || ended(forward_frames(&near_in, &far_out), &near_in, &far_out));
    let answers = move || ended(io::copy(&mut &far, &mut &near).map(drop), &far, &near);
    thread::spawn(answers);
    Ok(())
}

/// The end of one direction is that of the connection.
fn ended(_: io::Result<()>, one: &UnixStream, other: &UnixStream) {
    for side in [one, other] {
        // Closed already is what is wanted.
        drop(side.shutdown(Shutdown::Both));
    }
}

fn forward_frames(mut from: &UnixStream, mut to: &UnixStream) -> io::Result<()> {
    let mut preface = [0; PREFACE];
    from.read_exact(&mut preface)?;
    to.write_all(&preface)?;
    loop {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut frame = head.to_vec();
        from.take(length.into()).read_to_end(&mut frame)?;
        if head[3] != RST_STREAM {
            to.write_all(&frame)?;
        }
    }
}

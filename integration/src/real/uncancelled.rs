//! A proxy to containerd that drops the HTTP/2 frames by which a client cancels. So a call continues after its deadline, as in a
//! runtime that is past its last check for cancellation.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};

/// The HTTP/2 client preface.
const PREFACE: usize = 24;
/// Length, type, flags and stream of a frame: <https://www.rfc-editor.org/rfc/rfc9113#section-4.1>
const HEAD: usize = 9;
const RST_STREAM: u8 = 3;

/// Proxies `socket` to `containerd` until the test process exits.
pub(super) fn serve(socket: &Path, containerd: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("binding {}", socket.display()))?;
    let containerd = containerd.to_owned();
    thread::spawn(move || {
        for near in listener.incoming().flatten() {
            // Closed if containerd is unavailable.
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

/// The end of one direction closes the connection.
fn ended(_: io::Result<()>, one: &UnixStream, other: &UnixStream) {
    for side in [one, other] {
        // It may be closed already.
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

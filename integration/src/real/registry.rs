//! A registry with one image on a host's loopback, which may hold back the end of the image's layer until released, or require a
//! login. Just enough HTTP for a pull.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nix::sched::{CloneFlags, setns};
use parking_lot::{Condvar, Mutex};

use super::netns::Netns;
use crate::shell::{lib, run};

/// Number of bytes of a layer that are held back.
const KEPT_BACK: usize = 64 << 10;

/// The registry. It stops with the test process.
#[derive(Debug)]
pub struct Registry {
    host: String,
    gate: Arc<Gate>,
}

/// How a registry answers.
#[derive(Clone, Debug)]
pub enum Manner {
    /// It holds back the end of the image's layer.
    Slow,
    /// It requires a login by HTTP Basic, as `user:password`.
    Private(String),
}

/// Holds back the end of layers until opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

/// The served OCI layout.
struct Served {
    blobs: PathBuf,
    manifest: String,
    layer: PathBuf,
    gate: Arc<Gate>,
    /// The `Authorization` header of each request, if one is required.
    authorization: Option<String>,
}

impl Registry {
    /// Creates a busybox image in `dir` and serves it in `netns`. Configures containerd's registry settings in `settings` for
    /// plain HTTP.
    pub(super) fn start(dir: &Path, settings: &Path, netns: &Netns, manner: Manner) -> Result<Self> {
        let (archive, layout) = (dir.join("registry.tar"), dir.join("registry"));
        fs::create_dir(&layout).with_context(|| format!("creating {}", layout.display()))?;
        lib("make_busybox", [archive.as_os_str(), "hostlet.local/registry:1".as_ref()])?;
        run(Command::new("tar").arg("-C").arg(&layout).arg("-xf").arg(&archive))?;
        let digest = fs::read_to_string(dir.join("registry.tar.digest")).context("the image's digest")?;
        let blobs = layout.join("blobs/sha256");
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |file| file.len());
        let all: Vec<PathBuf> =
            fs::read_dir(&blobs)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        let layer = all.into_iter().max_by_key(size).context("an image without blobs")?;
        let gate = Arc::new(Gate::default());
        let authorization = match manner {
            Manner::Slow => None,
            Manner::Private(login) => {
                *gate.is_open.lock() = true;
                Some(format!("Basic {}", BASE64_STANDARD.encode(login)))
            }
        };
        let manifest = digest.trim().to_owned();
        let served = Served { blobs, manifest, layer, gate: gate.clone(), authorization };
        let port = serve(served, netns)?;
        let host = format!("127.0.0.1:{port}");
        let own = settings.join(&host);
        fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
        fs::write(own.join("hosts.toml"), format!("server = \"http://{host}\"\n"))
            .context("writing hosts.toml")?;
        Ok(Self { host, gate })
    }

    /// The image's name.
    pub fn reference(&self) -> String {
        format!("{}/image:1", self.host)
    }

    /// Its host and port.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Releases the rest.
    pub fn go_on(&self) {
        *self.gate.is_open.lock() = true;
        self.gate.opened.notify_all();
    }
}

impl Gate {
    fn pass(&self) {
        self.opened.wait_while(&mut self.is_open.lock(), |is_open| !*is_open);
    }
}

/// Serves from a thread in the network namespace; returns the port.
fn serve(served: Served, netns: &Netns) -> Result<u16> {
    let path = netns.path();
    let (port_in, port) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let listening = listen(&path);
        let listener = match listening {
            Ok((listener, port)) => {
                drop(port_in.send(Ok(port)));
                listener
            }
            Err(error) => return drop(port_in.send(Err(error))),
        };
        let served = Arc::new(served);
        for stream in listener.incoming().flatten() {
            let served = served.clone();
            // The client disconnected.
            thread::spawn(move || drop(answer(stream, &served)));
        }
    });
    port.recv().map_err(|_| anyhow!("the registry's thread has ended"))?
}

fn listen(netns: &Path) -> Result<(TcpListener, u16)> {
    let file = File::open(netns).with_context(|| format!("opening {}", netns.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).context("entering the host's network")?;
    let listener = TcpListener::bind("127.0.0.1:0").context("listening")?;
    let port = listener.local_addr().context("the registry's port")?.port();
    Ok((listener, port))
}

fn answer(stream: TcpStream, served: &Served) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().context("no request")??;
    let mut authorization = None;
    loop {
        let line = lines.next().context("no end of headers")??;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Some(value.to_owned());
        }
    }
    let (method, path) = request.split_once(' ').context("no path")?;
    let path = path.split(' ').next().unwrap_or_default();
    let (kind, name) =
        path.strip_prefix("/v2/image/").and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let digest = if kind == "manifests" && name == "1" { &served.manifest } else { name };
    let blob = served.blobs.join(digest.trim_start_matches("sha256:"));
    let mut stream = stream;
    if served.authorization.is_some() && served.authorization != authorization {
        return Ok(write!(
            stream,
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?);
    }
    let Ok(bytes) = fs::read(&blob) else {
        return Ok(write!(
            stream,
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )?);
    };
    let media = match kind {
        "manifests" => "application/vnd.oci.image.manifest.v1+json",
        _ => "application/octet-stream",
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nDocker-Content-Digest: {digest}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        bytes.len()
    )?;
    if method == "HEAD" {
        return Ok(());
    }
    let (first, rest) = bytes.split_at(if blob == served.layer {
        bytes.len().saturating_sub(KEPT_BACK)
    } else {
        bytes.len()
    });
    stream.write_all(first)?;
    if !rest.is_empty() {
        served.gate.pass();
        stream.write_all(rest)?;
    }
    Ok(())
}

//! Facts of the container runtime.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::{CgroupDriver, PodRef, error_chain};
use hostlet_config::Config;
use hostlet_engine::ownership::{running_pods, runtime_pods};
use hostlet_runtime::cri::{CriClient, CriError, ImageService, RuntimeService, containerd_settings};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;

use super::super::facts::{RuntimeAnswer, RuntimeFacts, RuntimeSettings, Unseen};
use super::super::toml_config::{ImageSettings, disabled_cri, image_settings};
use super::machine::text;
use super::{Place, listener};

/// Deadline of each call: whoever waits sits before a terminal.
const DEADLINE: Duration = Duration::from_secs(5);

const CONTAINERD_FILE: &str = "etc/containerd/config.toml";

/// What the runtime answered.
pub(super) struct Asked {
    pub(super) facts: RuntimeFacts,
    pub(super) cni: CniDirs,
    pub(super) pods: Option<BTreeSet<PodRef>>,
    /// Those that run.
    pub(super) running: Vec<PodRef>,
}

/// Where the runtime looks for network configurations and plugins.
pub(super) struct CniDirs {
    pub(super) conf: PathBuf,
    pub(super) bin: Vec<PathBuf>,
}

impl CniDirs {
    /// The defaults of containerd, and of Debian's package of the plugins.
    fn standard(root: &Path) -> Self {
        Self {
            conf: root.join("etc/cni/net.d"),
            bin: vec![root.join("opt/cni/bin"), root.join("usr/lib/cni")],
        }
    }
}

/// The cgroup driver that pods get: the runtime's, if it is known.
pub(super) fn driver(runtime: &RuntimeFacts, config: &Config) -> CgroupDriver {
    let of_runtime = match &runtime.answer {
        RuntimeAnswer::Cri(settings) => settings.driver,
        RuntimeAnswer::NoSocket
        | RuntimeAnswer::NotPermitted
        | RuntimeAnswer::Silent(_)
        | RuntimeAnswer::NoCri => None,
    };
    of_runtime.unwrap_or(config.cgroups.driver)
}

pub(super) async fn ask(place: &Place, config: &Config) -> Asked {
    let file = place.root.join(CONTAINERD_FILE);
    let containerd_file = file.exists().then(|| {
        let disabled =
            text(&file).and_then(|text| disabled_cri(&text).map_err(|error| Unseen(error.to_string())));
        (file, disabled)
    });
    let programs =
        ["usr/bin/containerd", "usr/local/bin/containerd", "usr/sbin/containerd", "bin/containerd"];
    let has_containerd = programs.iter().any(|program| place.root.join(program).exists());
    let mut asked = Asked {
        facts: RuntimeFacts { answer: RuntimeAnswer::NoSocket, containerd_file, has_containerd },
        cni: CniDirs::standard(&place.root),
        pods: None,
        running: Vec::new(),
    };
    let client = CriClient::new(&config.runtime.runtime_socket, DEADLINE);
    asked.facts.answer = match reach(&config.runtime.runtime_socket).await {
        Some(obstacle) => obstacle,
        None => match settings(place, &config.runtime.runtime_socket, &client, &mut asked.cni).await {
            Ok(settings) => {
                asked.pods = runtime_pods(&client).await.ok();
                asked.running = running_pods(&client).await.unwrap_or_default().into_iter().collect();
                RuntimeAnswer::Cri(Box::new(settings))
            }
            Err(CriError::Unimplemented { .. }) => RuntimeAnswer::NoCri,
            Err(error) => RuntimeAnswer::Silent(error_chain(&error)),
        },
    };
    asked
}

/// Why the socket cannot be used, if so.
async fn reach(socket: &Path) -> Option<RuntimeAnswer> {
    match fs::metadata(socket).map(drop) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Some(RuntimeAnswer::NotPermitted);
        }
        Err(_) => return Some(RuntimeAnswer::NoSocket),
        Ok(()) => {}
    }
    match UnixStream::connect(socket).await {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Some(RuntimeAnswer::NotPermitted),
        Err(error) => Some(RuntimeAnswer::Silent(error.to_string())),
    }
}

async fn settings(
    place: &Place,
    socket: &Path,
    client: &CriClient,
    cni: &mut CniDirs,
) -> Result<RuntimeSettings, CriError> {
    let version = client.version().await?;
    let status = client.status().await?;
    let driver = client.cgroup_driver().await?;
    // Informal, and only containerd's is known: whatever is missing cannot be seen.
    let info = client.verbose_status().await.unwrap_or_default();
    let own = containerd_settings(&info);
    if let Some(dir) = own["cni"]["confDir"].as_str().filter(|dir| !dir.is_empty()) {
        cni.conf = dir.into();
    }
    let bins = own["cni"]["binDirs"].as_array().into_iter().flatten().chain([&own["cni"]["binDir"]]);
    let bins: Vec<PathBuf> =
        bins.filter_map(Value::as_str).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
    if !bins.is_empty() {
        cni.bin = bins;
    }
    let own_text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let mut images = ImageSettings {
        sandbox: own_text(&own["sandboxImage"]),
        snapshotter: own_text(&own["containerd"]["snapshotter"]),
    };
    // containerd 2 does not report these.
    if version.runtime_name == "containerd" && (images.sandbox.is_none() || images.snapshotter.is_none()) {
        let dumped = dump(&place.root.join("proc"), socket).await.unwrap_or_default();
        let dumped = image_settings(&dumped);
        images.sandbox = images.sandbox.or(dumped.sandbox);
        images.snapshotter = images.snapshotter.or(dumped.snapshotter);
    }
    let pause_image = match images.sandbox {
        Some(image) => {
            client.image_status(&image, &HashMap::new()).await.ok().map(|found| (image, found.is_some()))
        }
        None => None,
    };
    Ok(RuntimeSettings { version, status, driver, snapshotter: images.snapshotter, pause_image })
}

/// The effective configuration of the containerd that listens on a socket, printed by its own program; `None` if it cannot be
/// found, for instance because systemd listens in its place.
async fn dump(proc: &Path, socket: &Path) -> Option<String> {
    let pid = listener(socket).await?;
    let process = proc.join(pid.to_string());
    let program = fs::read_link(process.join("exe")).ok()?;
    if program.file_name()? != "containerd" {
        return None;
    }
    let line = fs::read(process.join("cmdline")).ok()?;
    let mut dump = Command::new(program);
    if let Some(file) = config_flag(&String::from_utf8_lossy(&line)) {
        dump.args(["--config", &file]);
    }
    let output =
        timeout(DEADLINE, dump.args(["config", "dump"]).kill_on_drop(true).output()).await.ok()?.ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The value of `--config` in a command line of containerd, whose words end with a null.
fn config_flag(line: &str) -> Option<String> {
    let mut words = line.split('\0');
    while let Some(word) = words.next() {
        match word.strip_prefix("--config").or_else(|| word.strip_prefix("-c")) {
            Some("") => return words.next().map(str::to_owned),
            Some(rest) if rest.starts_with('=') => return Some(rest[1..].to_owned()),
            Some(_) | None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_a_running_containerd_is_found() {
        for (line, expected) in [
            ("containerd\0", None),
            ("containerd\0--config\0/a.toml\0", Some("/a.toml")),
            ("containerd\0-c\0/b.toml\0--log-level\0debug\0", Some("/b.toml")),
            ("containerd\0--config=/c.toml\0", Some("/c.toml")),
            ("containerd\0--config-other=/c.toml\0", None),
        ] {
            assert_eq!(config_flag(line).as_deref(), expected, "{line:?}");
        }
    }
}

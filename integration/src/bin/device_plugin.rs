//! A device plugin for tests, as a process: offers devices that are files, and registers whenever a kubelet opens its socket. What goes wrong
//! is scripted in a file, which is read again at SIGHUP.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostlet_devices::fake::{FakeDevicePlugin, device};
use hostlet_proto::device_plugin::{Device, DevicePluginOptions};
use serde::Deserialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;
use tonic::Status;

const USAGE: &str = "usage: device_plugin --dir DIRECTORY --resource NAME [--socket NAME] --script FILE";

/// How often the plugin looks for a new socket of a kubelet, or for the loss of its own.
const LOOK: Duration = Duration::from_millis(200);

/// What the plugin offers and does.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Script {
    /// Healthy devices with their NUMA nodes.
    devices: BTreeMap<String, Vec<i64>>,
    /// Those among them that are not healthy.
    unhealthy: Vec<String>,
    /// Whether `PreStartContainer` is to be called.
    pre_start: bool,
    /// The devices that it prefers; asked only if there are some.
    preferred: Vec<String>,
    /// Whether it gives CDI devices.
    cdi: bool,
    /// Calls that fail, with their messages.
    failures: BTreeMap<String, String>,
    /// Calls that are not answered.
    hangs: Vec<String>,
    /// Whether it does not register.
    silent: bool,
}

/// The calls by name.
const CALLS: [&str; 5] =
    ["GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate", "PreStartContainer"];

struct Options {
    dir: PathBuf,
    socket: String,
    resource: String,
    script: PathBuf,
}

impl Options {
    fn read() -> Result<Self> {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{argument} without a value\n{USAGE}"))?;
            values.insert(argument, value);
        }
        let mut take = |name: &str| values.remove(name);
        let needed = |value: Option<String>| value.context(USAGE);
        let options = Self {
            dir: needed(take("--dir"))?.into(),
            resource: needed(take("--resource"))?,
            script: needed(take("--script"))?.into(),
            socket: take("--socket").unwrap_or_else(|| "plugin.sock".to_owned()),
        };
        match values.into_keys().next() {
            Some(unknown) => bail!("unknown argument {unknown}\n{USAGE}"),
            None => Ok(options),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let options = Options::read()?;
    let mut reload = signal(SignalKind::hangup()).context("waiting for SIGHUP")?;
    let mut end = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    let mut script = read(&options.script)?;
    let kubelet = options.dir.join("kubelet.sock");
    let (mut plugin, mut registered) = (start(&options, &script)?, None);
    loop {
        tokio::select! {
            // Cancel-safe: a signal is consumed only when returned.
            _ = end.recv() => break,
            // Cancel-safe: the same.
            _ = reload.recv() => {
                script = read(&options.script)?;
                follow(&plugin, &script);
            }
            // Cancel-safe: only a clock.
            () = sleep(LOOK) => {}
        }
        if !plugin.socket().exists() {
            // As real plugins do when a kubelet removes it.
            plugin = start(&options, &script)?;
            registered = None;
        }
        let found = identity(&kubelet);
        if found.is_some() && found != registered && !script.silent && plugin.register().await.is_ok() {
            registered = found;
        }
    }
    fs::remove_file(plugin.socket()).context("removing the socket")
}

fn start(options: &Options, script: &Script) -> Result<FakeDevicePlugin> {
    let Options { dir, socket, resource, .. } = options;
    let plugin = FakeDevicePlugin::start(dir, socket, resource, devices(script))
        .with_context(|| format!("listening in {}", dir.display()))?;
    follow(&plugin, script);
    Ok(plugin)
}

/// Makes the plugin do what the script says.
fn follow(plugin: &FakeDevicePlugin, script: &Script) {
    let mut does = plugin.script.lock();
    does.options = DevicePluginOptions {
        pre_start_required: script.pre_start,
        get_preferred_allocation_available: !script.preferred.is_empty(),
    };
    does.preferred.clone_from(&script.preferred);
    does.cdi = script.cdi;
    let failures = CALLS.into_iter().filter_map(|call| Some((call, script.failures.get(call)?)));
    does.failures = failures.map(|(call, message)| (call, Status::internal(message))).collect();
    does.hangs = CALLS.into_iter().filter(|call| script.hangs.iter().any(|name| name == call)).collect();
    drop(does);
    plugin.lists(devices(script));
}

fn devices(script: &Script) -> Vec<Device> {
    let health =
        |id: &str| if script.unhealthy.iter().any(|bad| bad == id) { "Unhealthy" } else { "Healthy" };
    let devices = script.devices.iter();
    devices.map(|(id, nodes)| Device { health: health(id).to_owned(), ..device(id, nodes) }).collect()
}

fn read(path: &Path) -> Result<Script> {
    let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("reading {}", path.display()))
}

fn identity(socket: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(socket).ok().map(|found| (found.dev(), found.ino()))
}

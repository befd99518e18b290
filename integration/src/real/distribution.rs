//! A real registry on a host's loopback: the program of the distribution project. For benches, which need what a pull really costs, and
//! for Kubernetes' own tests, which name images of public registries.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::RealHost;
use crate::shell::{lib, lib_in, run, tail};
use crate::wait::{Look, wait_for};

/// Its address: every host has its own loopback.
const ADDRESS: &str = "127.0.0.1:5000";
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Images that can be pushed to registries. Dropping them removes their files.
#[derive(Debug)]
pub struct LargeImages {
    dir: tempfile::TempDir,
    names: Vec<String>,
}

impl LargeImages {
    /// Makes this many images of at least `mebibytes` each, with no layer in common.
    pub fn make(count: usize, mebibytes: u32) -> Result<Self> {
        let dir = tempfile::tempdir().context("a directory for images")?;
        let names: Vec<String> = (0..count).map(|number| format!("image{number}")).collect();
        for name in &names {
            let layout = dir.path().join(name);
            let size = mebibytes.to_string();
            lib("make_large_image", [layout.as_os_str(), reference(name).as_ref(), size.as_ref()])?;
        }
        Ok(Self { dir, names })
    }

    /// The references of the images.
    pub fn references(&self) -> Vec<String> {
        self.names.iter().map(|name| reference(name)).collect()
    }
}

fn reference(name: &str) -> String {
    format!("{ADDRESS}/{name}:1")
}

/// The registry's process. Dropping it kills it.
#[derive(Debug)]
pub struct Distribution {
    child: Child,
}

impl Distribution {
    /// Starts a registry on a host and pushes the images to it. Builds the program if it is missing.
    pub async fn start(host: &RealHost, images: &LargeImages) -> Result<Self> {
        let registry = Self::start_empty(host).await?;
        for name in &images.names {
            registry.push(host, &images.dir.path().join(name), name, "1")?;
        }
        Ok(registry)
    }

    /// Starts a registry without images on a host.
    pub async fn start_empty(host: &RealHost) -> Result<Self> {
        let program = lib("registry_program", [""; 0])?;
        let dir = host.directory("distribution")?;
        let (config, log) = (dir.join("config.json"), dir.join("log"));
        let storage = dir.join("storage");
        lib("registry_config", [config.as_os_str(), storage.as_os_str(), ADDRESS.as_ref()])?;
        configure(host, ADDRESS, &format!("server = \"http://{ADDRESS}\"\n"))?;
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = host
            .command(program.trim())
            .arg("serve")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("a second handle of a log")?)
            .stderr(output)
            .spawn()
            .context("starting the registry")?;
        let registry = Self { child };
        registry.wait(host, &log).await?;
        Ok(registry)
    }

    /// Pushes the image of an OCI layout.
    pub fn push(&self, host: &RealHost, layout: &Path, name: &str, tag: &str) -> Result<()> {
        let args = [layout.as_os_str(), ADDRESS.as_ref(), name.as_ref(), tag.as_ref()];
        lib_in(host.command("bash"), "push_image", args)?;
        Ok(())
    }

    /// Has the host's containerd pull the images of another registry, which it cannot reach, from this one.
    pub fn stand_in_for(&self, host: &RealHost, registry: &str) -> Result<()> {
        let settings = format!("server = \"https://{registry}\"\n[host.\"http://{ADDRESS}\"]\n");
        configure(host, registry, &settings)
    }

    async fn wait(&self, host: &RealHost, log: &Path) -> Result<()> {
        wait_for("the registry answers", START_TIMEOUT, async || {
            let answer = run(host.command("curl").args(["-fsS", &format!("http://{ADDRESS}/v2/")]));
            Ok(match answer {
                Ok(_) => Look::Done(()),
                Err(error) => Look::NotYet(format!("{error:#}\n{}", tail(log))),
            })
        })
        .await
    }
}

impl Drop for Distribution {
    fn drop(&mut self) {
        // An ended process cannot be killed, and that is all that can go wrong.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Writes containerd's settings of a registry.
fn configure(host: &RealHost, registry: &str, settings: &str) -> Result<()> {
    let own = host.registry_settings().join(registry);
    fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
    fs::write(own.join("hosts.toml"), settings).context("writing hosts.toml")
}

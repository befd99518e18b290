//! Loop devices, filesystems and mounts, by the programs of the host.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use hostlet_host::{KernelMounts, MountCall, MountTable, Mounts};

fn mounts() -> KernelMounts {
    KernelMounts { mountinfo: "/proc/self/mountinfo".into() }
}

fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("running {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// The mounts.
pub(crate) fn table() -> Result<MountTable> {
    mounts().table().context("listing the mounts")
}

/// Whether something is mounted at a path.
pub(crate) fn is_mounted(path: &Path) -> Result<bool> {
    let Ok(path) = path.canonicalize() else { return Ok(false) };
    Ok(table()?.at(&path).next().is_some())
}

/// The loop device of an image.
pub(crate) fn device_of(image: &Path) -> Result<Option<String>> {
    let devices = run("losetup", &["--associated", text(image)?, "--noheadings", "--output", "NAME"])?;
    Ok(devices.lines().next().map(|device| device.trim().to_owned()))
}

/// The same, made if there is none.
pub(crate) fn attach(image: &Path) -> Result<String> {
    match device_of(image)? {
        Some(device) => Ok(device),
        None => run("losetup", &["--find", "--show", text(image)?]),
    }
}

/// Frees the loop device of an image, if there is one; one that is in use is freed when it is not any more.
pub(crate) fn detach(image: &Path) -> Result<()> {
    match device_of(image)? {
        Some(device) => run("losetup", &["--detach", &device]).map(drop),
        None => Ok(()),
    }
}

/// Whether a device is mounted on some file.
pub(crate) fn is_published(device: &str) -> Result<bool> {
    let name = device.replacen("/dev", "", 1);
    Ok(table()?.within(Path::new("/")).any(|mount| mount.origin.dir == Path::new(&name)))
}

/// Makes a filesystem on a device that has none.
pub(crate) fn format_if_blank(device: &str, filesystem: &str) -> Result<()> {
    // It fails if it finds nothing.
    let found = run("blkid", &["--probe", "--match-tag", "TYPE", "--output", "value", device]);
    if found.is_ok_and(|found| !found.is_empty()) {
        return Ok(());
    }
    run(&format!("mkfs.{filesystem}"), &["-q", device]).map(drop)
}

/// Mounts a filesystem on a directory.
pub(crate) fn mount(
    device: &str,
    target: &Path,
    filesystem: &'static str,
    options: Vec<String>,
) -> Result<()> {
    let call = MountCall {
        source: device.to_owned(),
        target: target.to_owned(),
        filesystem: Some(filesystem.into()),
        options,
    };
    mounts().mount(&call).context("mounting a filesystem")
}

/// Mounts a directory or file on another, with further options.
pub(crate) fn bind(source: &str, target: &Path, options: &[String]) -> Result<()> {
    let call = |more: &[&str]| MountCall {
        source: source.to_owned(),
        target: target.to_owned(),
        filesystem: None,
        options: more.iter().map(|option| (*option).to_owned()).chain(options.iter().cloned()).collect(),
    };
    let first = MountCall { options: vec!["bind".to_owned()], ..call(&[]) };
    mounts().mount(&first).context("mounting a directory")?;
    if options.is_empty() {
        return Ok(());
    }
    mounts().mount(&call(&["remount", "bind"])).context("mounting a directory with other options")
}

/// Unmounts what is mounted at a path, if anything is.
pub(crate) fn unmount(path: &Path) -> Result<()> {
    while is_mounted(path)? {
        mounts().unmount(path).context("unmounting")?;
    }
    Ok(())
}

/// Tells the kernel that an image has grown, and grows its filesystem.
pub(crate) fn grow(image: &Path, is_block: bool) -> Result<()> {
    let Some(device) = device_of(image)? else { return Ok(()) };
    run("losetup", &["--set-capacity", &device])?;
    if is_block { Ok(()) } else { run("resize2fs", &[&device]).map(drop) }
}

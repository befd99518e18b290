//! Loop devices on files: found in sysfs, detached by losetup(8). Blocking.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::disk::{DiskError, run, text};

/// The kernel's block devices.
const BLOCK_DEVICES: &str = "/sys/block";
/// What the kernel adds to the path of a removed file.
const DELETED: &[u8] = b" (deleted)";

/// Detaches the loop devices on `file`, if there are any. With one on the file on which it has mounted a device, a stock kubelet keeps that
/// device open and the file from being unmounted.
pub fn detach_loop_devices(file: &Path) -> Result<(), DiskError> {
    for device in on(Path::new(BLOCK_DEVICES), file) {
        let failed = |output: String| DiskError::Detach { device: device.clone(), output };
        let run = run("losetup", [OsStr::new("--detach"), device.as_os_str()]);
        let run = run.map_err(|error| failed(error.to_string()))?;
        if !run.status.success() {
            return Err(failed(text(&run)));
        }
    }
    Ok(())
}

/// The loop devices on a file. One that is detached meanwhile is left out.
fn on(block_devices: &Path, file: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir(block_devices).into_iter().flatten().flatten();
    let is_on_it = |device: &fs::DirEntry| {
        let path = fs::read(device.path().join("loop/backing_file")).unwrap_or_default();
        let path = path.trim_ascii_end();
        path.strip_suffix(DELETED).unwrap_or(path) == file.as_os_str().as_bytes()
    };
    devices.filter(is_on_it).map(|device| Path::new("/dev").join(device.file_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loop_devices_are_found_by_their_file() {
        let dir = tempfile::tempdir().unwrap();
        for (device, file) in [
            ("loop0", Some("/a/b\n")),
            ("loop1", Some("/a/b/c\n")),
            ("loop2", Some("/a/b (deleted)\n")),
            ("sda", None),
        ] {
            let place = dir.path().join(device).join("loop");
            fs::create_dir_all(&place).unwrap();
            if let Some(file) = file {
                fs::write(place.join("backing_file"), file).unwrap();
            }
        }
        let found = |file: &str| {
            let mut found = on(dir.path(), Path::new(file));
            found.sort();
            found
        };
        assert_eq!(found("/a/b"), [Path::new("/dev/loop0"), Path::new("/dev/loop2")]);
        assert_eq!(found("/a/b/c"), [Path::new("/dev/loop1")]);
        assert!(found("/a").is_empty());
        assert!(on(&dir.path().join("none"), Path::new("/a/b")).is_empty());
    }
}

//! Shims of containerd, played by a script: found and terminated.

use std::os::unix::process::CommandExt;
use std::process;

use super::*;
use crate::{Inside, Mount, MountCall, MountTable};

/// No mounts, and mounting fails.
struct None;

impl Mounts for None {
    fn table(&self) -> Result<MountTable, SysError> {
        Ok(MountTable::from_iter(Vec::<Mount>::new()))
    }

    fn mount_tmpfs(&self, _: &Path, _: u64) -> Result<(), SysError> {
        Ok(())
    }

    fn bind(&self, _: &Inside, _: &Path) -> Result<(), SysError> {
        Ok(())
    }

    fn mount(&self, _: &MountCall) -> Result<(), SysError> {
        Ok(())
    }

    fn unmount(&self, _: &Path) -> Result<(), SysError> {
        Ok(())
    }

    fn force_unmount(&self, _: &Path) -> Result<(), SysError> {
        Ok(())
    }

    fn wait_for_server(&self, _: &Path) {}
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_shim_is_identified_by_its_command_line() {
    let line =
        "/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id abc -address /run/containerd/containerd.sock";
    let expected = Flags {
        namespace: "k8s.io".to_owned(),
        id: "abc".to_owned(),
        address: "/run/containerd/containerd.sock".to_owned(),
    };
    assert_eq!(flags(&words(line)), Some(expected));
    for other in [
        format!("{line} start"),
        format!("{line} -bundle /b delete"),
        line.replace("-id abc ", ""),
        line.replace("shim-runc", "shim-kata"),
        "containerd-shim-runc-v2".to_owned(),
    ] {
        assert_eq!(flags(&words(&other)), Option::None, "{other}");
    }
}

/// A shell named like a shim, with a child, in its own bundle; killed with the test.
struct Pretender(process::Child);

impl Drop for Pretender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pretend(dir: &Path, id: &str) -> (Pretender, PathBuf) {
    let bundle = dir.join(BUNDLES).join("tests").join(id);
    fs::create_dir_all(&bundle).unwrap();
    let program = dir.join(PROGRAM);
    fs::copy("/bin/sh", &program).unwrap();
    // Blocks on a pipe that the shell's exit closes.
    let script = "sleep 1000 & echo; wait";
    let child = process::Command::new(&program)
        .args(["-c", script, "-namespace", "tests", "-id", id, "-address", "/run/tests.sock"])
        .current_dir(&bundle)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    (Pretender(child), bundle)
}

#[tokio::test]
async fn a_shim_is_found_and_terminated_with_its_children_and_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let id = format!("pretender-{}", process::id());
    let (mut pretender, bundle) = pretend(dir.path(), &id);
    let mut line = String::new();
    let out = pretender.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let found = shims(Path::new("/proc")).unwrap();
    let ours = found.into_iter().find(|shim| shim.id == id).expect("it is found");
    assert_eq!((ours.namespace.as_str(), &ours.bundle), ("tests", &bundle.canonicalize().unwrap()));
    let children = all_processes_with_root(Path::new("/proc")).unwrap();
    let children = children.filter_map(|process| process.ok()?.stat().ok());
    let children: Vec<_> = children.filter(|stat| stat.ppid == ours.pid).collect();
    assert_eq!(children.len(), 1);

    let mounts: Arc<dyn Mounts> = Arc::new(None);
    let another = Shim { started: ours.started + 1, id: "another".to_owned(), ..ours.clone() };
    end_shim(&another, &mounts).await.unwrap();
    assert!(pretender.0.try_wait().unwrap().is_none(), "another process of that pid was meant");

    end_shim(&ours, &mounts).await.unwrap();
    assert!(!pretender.0.wait().unwrap().success());
    assert!(!bundle.exists());
    assert!(handle(children[0].pid, children[0].starttime).is_none_or(|handle| {
        // A zombie until its new parent reaps it.
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&Timespec::default())).unwrap() == 1
    }));
    end_shim(&ours, &mounts).await.unwrap();
}

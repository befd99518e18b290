//! Paths below a directory that somebody else fills, with links that lead out of it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;

use super::*;

/// A directory, and a volume in it that has a file, a directory and links.
fn volume() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let root = dir.path().canonicalize().unwrap().join("volume");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::create_dir(dir.path().join("outside")).unwrap();
    fs::write(root.join("file"), "inside").unwrap();
    fs::write(dir.path().join("outside/secret"), "outside").unwrap();
    fs::set_permissions(&root, fs::Permissions::from_mode(0o2775)).unwrap();
    symlink("sub", root.join("link")).unwrap();
    symlink(root.join("sub"), root.join("absolute")).unwrap();
    symlink("../outside", root.join("escape")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    (dir, root)
}

fn inode(inside: &Inside) -> u64 {
    fstat(inside).unwrap().st_ino
}

#[test]
fn what_exists_is_opened_and_links_within_are_followed() {
    let (_dir, root) = volume();
    for (path, real, is_dir) in [
        ("file", "file", false),
        ("./sub//deep", "sub/deep", true),
        ("link/deep", "sub/deep", true),
        ("absolute/deep", "sub/deep", true),
        ("", ".", true),
    ] {
        let opened = open_inside(&root, Path::new(path)).unwrap();
        assert_eq!(opened.is_dir(), is_dir, "{path}");
        assert_eq!(inode(&opened), root.join(real).metadata().unwrap().ino(), "{path}");
    }
}

#[test]
fn missing_directories_have_the_mode_of_the_volume() {
    let (_dir, root) = volume();
    let opened = open_inside(&root, Path::new("link/new/er")).unwrap();
    assert!(opened.is_dir());
    for made in ["sub/new", "sub/new/er"] {
        assert_eq!(root.join(made).metadata().unwrap().mode() & 0o7777, 0o2775, "{made}");
    }
}

#[test]
fn regular_files_are_read_up_to_a_size() {
    let (_dir, root) = volume();
    let read = |path: &str, most| open_existing_inside(&root, Path::new(path)).unwrap().read(most);
    assert_eq!(read("file", 6).unwrap(), b"inside");
    assert_eq!(read("file", 5).unwrap_err().to_string(), "larger than 5 bytes");
    assert_eq!(read("sub", 9).unwrap_err().to_string(), "not a regular file");
    nix::unistd::mkfifo(&root.join("pipe"), Mode::S_IRWXU).unwrap();
    assert_eq!(read("pipe", 9).unwrap_err().to_string(), "not a regular file");
    let missing = open_existing_inside(&root, Path::new("sub/none/file")).unwrap_err();
    assert!(matches!(missing, InsideError::Open { .. }), "{missing:?}");
    assert!(!root.join("sub/none").exists());
    let escape = open_existing_inside(&root, Path::new("escape/secret")).unwrap_err();
    assert!(matches!(escape, InsideError::Outside { .. }), "{escape:?}");
}

#[test]
fn nothing_outside_is_opened_or_created() {
    let (dir, root) = volume();
    let error = |path: &str| open_inside(&root, Path::new(path)).unwrap_err();
    assert!(matches!(error("escape"), InsideError::Outside { .. }));
    assert!(matches!(error("escape/secret"), InsideError::Outside { .. }));
    assert!(matches!(error("escape/new"), InsideError::Outside { .. }));
    for path in ["../outside", "sub/../../outside", "/etc"] {
        assert!(matches!(error(path), InsideError::NotBelow { .. }), "{path}");
    }
    assert!(matches!(error("dangling/x"), InsideError::Replaced { .. }));
    assert!(matches!(error("file/x"), InsideError::Open { .. }));
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn a_link_that_appears_meanwhile_leads_nowhere() {
    let (dir, root) = volume();
    let outside = dir.path().join("outside").metadata().unwrap().ino();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Swaps a directory and a link to the outside, as fast as it can.
        scope.spawn(|| {
            let (swapped, link) = (root.join("swapped"), root.join("other"));
            while !end.load(Ordering::Relaxed) {
                // Each step may fail, because the other side creates directories at the same time.
                let _ = fs::create_dir(&swapped);
                let _ = fs::rename(&swapped, root.join("old"));
                let _ = symlink("../outside", &link);
                let _ = fs::rename(&link, &swapped);
                let _ = fs::remove_file(&swapped);
                let _ = fs::remove_dir_all(root.join("old"));
            }
        });
        for _ in 0..3_000 {
            if let Ok(opened) = open_inside(&root, Path::new("swapped/inner")) {
                assert_ne!(inode(&opened), outside);
            }
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 1, "nothing was created there");
}

//! Trees as `du` measures them, and trees that are built or changed against the walk.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::fcntl::openat;
use nix::sys::stat::mkdirat;
use tempfile::TempDir;

use super::*;

const EVERYTHING: u64 = u64::MAX;

struct Tree(TempDir);

impl Tree {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, kib: usize) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![1; kib << 10]).unwrap();
    }

    fn usage(&self) -> TreeUsage {
        tree_usage(self.0.path(), EVERYTHING).unwrap()
    }

    /// What `du` says.
    fn du(&self) -> u64 {
        let mut command = Command::new("du");
        command.args(["--summarize", "--block-size=1", "--one-file-system"]).arg(self.0.path());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    }
}

#[test]
fn a_tree_takes_what_du_says() {
    let tree = Tree::new();
    tree.write("a/b/c/file", 100);
    tree.write("a/other", 9);
    tree.write("empty", 0);
    for number in 0..1_000 {
        tree.write(&format!("many/{number}"), number % 5);
        fs::create_dir(tree.at(&format!("many/dir-{number}"))).unwrap();
    }
    // Space that was only reserved by its size.
    fs::File::create(tree.at("sparse")).unwrap().set_len(1 << 40).unwrap();
    // The tree itself, a/b/c with two files, the two other files, and those of `many`.
    let space = SpaceUsage { bytes: tree.du(), inodes: 1 + 5 + 2 + 2_001 };
    assert_eq!(tree.usage(), TreeUsage { space, is_complete: true });
}

#[test]
fn a_file_with_several_links_counts_once() {
    let tree = Tree::new();
    let before = tree.usage().space.bytes;
    tree.write("file", 100);
    for number in 0..6 {
        fs::hard_link(tree.at("file"), tree.at(&format!("link-{number}"))).unwrap();
    }
    assert_eq!(tree.usage().space.bytes, tree.du());
    assert!(tree.usage().space.bytes < before + (150 << 10));
}

#[test]
fn links_are_not_followed() {
    let (tree, outside) = (Tree::new(), Tree::new());
    outside.write("large", 1_000);
    symlink(outside.at("large"), tree.at("to-file")).unwrap();
    symlink(outside.0.path(), tree.at("to-dir")).unwrap();
    symlink("..", tree.at("up")).unwrap();
    symlink("loop", tree.at("loop")).unwrap();
    assert_eq!(tree.usage().space.bytes, tree.du());
    assert!(tree_usage(&tree.at("to-dir"), EVERYTHING).unwrap().space.bytes < 100 << 10);
}

#[test]
fn a_missing_tree_has_nothing_and_a_file_has_its_blocks() {
    let tree = Tree::new();
    assert_eq!(
        tree_usage(&tree.at("none"), 0).unwrap(),
        TreeUsage { space: SpaceUsage::default(), is_complete: true }
    );
    tree.write("file", 8);
    assert_eq!(
        tree_usage(&tree.at("file"), 0).unwrap(),
        TreeUsage { space: SpaceUsage { bytes: 8 << 10, inodes: 1 }, is_complete: true }
    );
    assert_eq!(files_usage(&tree.at("none")).unwrap(), SpaceUsage::default());
    tree.write("logs/0.log", 8);
    tree.write("logs/1.log", 4);
    tree.write("logs/deeper/2.log", 4);
    assert_eq!(files_usage(&tree.at("logs")).unwrap().bytes, 12 << 10);
}

#[test]
fn the_walk_stops_once_there_is_enough() {
    let tree = Tree::new();
    for number in 0..2_000 {
        tree.write(&format!("dir-{number}/file"), 4);
    }
    let some = tree_usage(tree.0.path(), 1 << 20).unwrap();
    assert!(!some.is_complete);
    assert!(some.space.bytes > 1 << 20 && some.space.bytes < 3 << 20, "{some:?}");
}

#[test]
fn a_deep_tree_is_measured_to_a_depth() {
    let tree = Tree::new();
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut inside = open(tree.0.path(), flags, Mode::empty()).unwrap();
    // Deeper than a path can be.
    for _ in 0..3_000 {
        mkdirat(&inside, "deeper", Mode::S_IRWXU).unwrap();
        inside = openat(&inside, "deeper", flags, Mode::empty()).unwrap();
    }
    let usage = tree.usage();
    assert!(!usage.is_complete);
    drop(inside);
    crate::remove_tree(tree.0.path()).unwrap();
}

#[test]
fn a_tree_that_changes_meanwhile_is_measured_without_an_error() {
    let (tree, outside) = (Tree::new(), Tree::new());
    outside.write("large", 10_000);
    let (root, target) = (tree.0.path().to_owned(), outside.0.path().to_owned());
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = is_over.clone();
    let changes = thread::spawn(move || {
        let mut round = 0;
        while !stop.load(Ordering::Relaxed) {
            round += 1;
            let dir = root.join(format!("dir-{}", round % 7));
            // A directory, then a link in its place, then nothing; and parts of it move elsewhere.
            let _ = fs::create_dir_all(dir.join("a/b"));
            let _ = fs::write(dir.join("a/b/file"), "x");
            let _ = fs::rename(dir.join("a/b"), root.join("moved"));
            let _ = fs::remove_dir_all(root.join("moved"));
            let _ = fs::remove_dir_all(&dir);
            let _ = symlink(&target, &dir);
            let _ = fs::remove_file(&dir);
        }
    });
    for _ in 0..2_000 {
        let usage = tree.usage();
        assert!(usage.space.bytes < 1_000 << 10, "{usage:?}");
    }
    is_over.store(true, Ordering::Relaxed);
    changes.join().unwrap();
}

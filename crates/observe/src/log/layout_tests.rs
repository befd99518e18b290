//! Directories and links of logs in a temporary directory.

use tempfile::TempDir;

use super::*;

struct Bench {
    _root: TempDir,
    layout: LogLayout,
    pod: PodRef,
}

fn bench() -> Bench {
    let root = TempDir::new().unwrap();
    let layout = LogLayout {
        pod_logs_dir: root.path().join("log/pods"),
        containers_dir: root.path().join("log/containers"),
    };
    layout.create_roots().unwrap();
    Bench { _root: root, layout, pod: PodRef::new("default", "web", "uid-1") }
}

impl Bench {
    fn write(&self, name: &str) -> PathBuf {
        self.layout.create_pod_dir(&self.pod).unwrap();
        self.layout.create_container_dir(&self.pod, "c").unwrap();
        let path = self.layout.container_dir(&self.pod, "c").join(name);
        fs::write(&path, "x").unwrap();
        path
    }

    fn left(&self, dir: &Path) -> Vec<String> {
        let mut names = file_names(dir).unwrap();
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn directories_have_the_modes_of_a_stock_kubelet_and_are_created_once() {
    let bench = bench();
    for _ in 0..2 {
        bench.layout.create_roots().unwrap();
        bench.layout.create_pod_dir(&bench.pod).unwrap();
        bench.layout.create_container_dir(&bench.pod, "c").unwrap();
    }
    assert_eq!(mode(&bench.layout.pod_logs_dir), 0o750);
    assert_eq!(mode(&bench.layout.containers_dir), 0o755);
    assert_eq!(mode(&bench.layout.pod_dir(&bench.pod)), 0o755);
    assert_eq!(mode(&bench.layout.container_dir(&bench.pod, "c")), 0o755);
    assert!(bench.layout.container_dir(&bench.pod, "c").ends_with("log/pods/default_web_uid-1/c"));
}

#[test]
fn a_file_in_the_way_of_a_directory_is_named() {
    let bench = bench();
    fs::write(bench.layout.pod_dir(&bench.pod), "x").unwrap();
    let error = bench.layout.create_pod_dir(&bench.pod).unwrap_err();
    assert!(error.to_string().ends_with("log/pods/default_web_uid-1"), "{error}");
}

#[test]
fn the_next_attempt_follows_the_highest_log() {
    let bench = bench();
    assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 0);
    for name in ["0.log", "2.log", "4.log.20250102-030405.gz", "9.txt"] {
        bench.write(name);
    }
    fs::create_dir(bench.layout.container_dir(&bench.pod, "c").join("7.log")).unwrap();
    assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 5);
}

#[test]
fn a_log_above_the_maximum_attempt_is_ignored() {
    let bench = bench();
    for name in ["4294967295.log", "4294967294.log.20250102-030405.gz", "2147483647.log", "1000000001.log"] {
        bench.write(name);
    }
    assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 0);
    bench.write("2.log");
    assert_eq!(bench.layout.next_attempt(&bench.pod, "c").unwrap(), 3);
}

#[test]
fn a_link_is_created_and_replaced() {
    let bench = bench();
    let id = ContainerId::from("0123456789ab");
    let log = bench.write("1.log");
    let link = bench.layout.containers_dir.join("web_default_c-0123456789ab.log");
    symlink("/elsewhere", &link).unwrap();
    for _ in 0..2 {
        bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), log);
    }

    let error = bench.layout.link_log(&bench.pod, "c", 2, &id).unwrap_err();
    assert!(matches!(error, LogError::NoLog { .. }));
    assert_eq!(fs::read_link(&link).unwrap(), log, "no link is made to nothing");

    fs::remove_file(&link).unwrap();
    fs::write(&link, "somebody's").unwrap();
    let error = bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap_err();
    assert!(matches!(error, LogError::NotALink { .. }));
    assert_eq!(fs::read_to_string(&link).unwrap(), "somebody's");
}

#[test]
fn a_pod_named_like_a_path_removes_nothing() {
    let bench = bench();
    let precious = bench.layout.containers_dir.join("ns_web_1");
    fs::create_dir(&precious).unwrap();
    for pod in [
        PodRef::new("../containers/ns", "web", "1"),
        PodRef::new("ns", "x", "y/../../containers/ns_web_1"),
        PodRef::new(&bench.layout.containers_dir.join("ns").to_string_lossy(), "web", "1"),
    ] {
        bench.layout.remove_pod_dir(&pod).unwrap();
        bench.layout.remove_container_logs(&pod, "c", 0, &ContainerId::from("0123456789ab")).unwrap();
    }
    assert!(precious.exists());
}

#[test]
fn logs_that_cannot_exist_are_removed() {
    let bench = bench();
    let pod = PodRef::new(&"n".repeat(63), &"w".repeat(253), "91bfbf8e-bc69-4d82-8bd0-a527f7510d09");
    let id = ContainerId::from("0123456789ab");
    assert!(bench.layout.create_pod_dir(&pod).is_err(), "the name is too long");
    bench.layout.remove_container_logs(&pod, "c", 0, &id).unwrap();
    bench.layout.remove_pod_dir(&pod).unwrap();
}

#[test]
fn removing_a_container_removes_only_its_logs_and_link() {
    let bench = bench();
    let (id, other) = (ContainerId::from("0123456789ab"), ContainerId::from("ba9876543210"));
    for name in ["1.log", "1.log.20250102-030405", "1.log.20250102-030404.gz", "11.log", "2.log", "1.logs"] {
        bench.write(name);
    }
    bench.layout.link_log(&bench.pod, "c", 1, &id).unwrap();
    bench.layout.link_log(&bench.pod, "c", 2, &other).unwrap();
    for _ in 0..2 {
        bench.layout.remove_container_logs(&bench.pod, "c", 1, &id).unwrap();
    }
    let dir = bench.layout.container_dir(&bench.pod, "c");
    assert_eq!(bench.left(&dir), ["1.logs", "11.log", "2.log"]);
    assert_eq!(bench.left(&bench.layout.containers_dir), ["web_default_c-ba9876543210.log"]);

    for _ in 0..2 {
        bench.layout.remove_pod_dir(&bench.pod).unwrap();
    }
    assert!(!bench.layout.pod_dir(&bench.pod).exists());
}

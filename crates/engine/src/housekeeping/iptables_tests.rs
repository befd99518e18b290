//! The kubelet's chains: calls to a scripted iptables, and a real one where there is one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use hostlet_host::testing::skipped;

fn script(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("iptables");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Programs that write their arguments to a file, answer `-S` with `listed`, and have no rule yet.
fn recorded(dir: &Path, listed: i32) -> PathBuf {
    let log = dir.join("log").display().to_string();
    script(
        dir,
        &format!(
            "echo \"$@\" >> {log}\ncase $3 in -S) exit {listed};; -C) exit 1;; -N) exit 1;; *) exit 0;; esac"
        ),
    )
}

fn log(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_calls_are_the_stock_kubelets() {
    let dir = tempfile::tempdir().unwrap();
    let program = recorded(dir.path(), 1);
    assert!(keep(&program, Family::V4, true).await.unwrap());
    let rule = "-t filter -m comment --comment block incoming localnet connections --dst 127.0.0.0/8 ! --src \
                127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP";
    assert_eq!(
        log(dir.path()),
        [
            "-w 5 -N KUBE-IPTABLES-HINT -t mangle".to_owned(),
            "-w 5 -N KUBE-FIREWALL -t filter".to_owned(),
            "-w 5 -C OUTPUT -t filter -j KUBE-FIREWALL".to_owned(),
            "-w 5 -I OUTPUT -t filter -j KUBE-FIREWALL".to_owned(),
            "-w 5 -C INPUT -t filter -j KUBE-FIREWALL".to_owned(),
            "-w 5 -I INPUT -t filter -j KUBE-FIREWALL".to_owned(),
            format!("-w 5 -C KUBE-FIREWALL {rule}"),
            format!("-w 5 -A KUBE-FIREWALL {rule}"),
        ]
    );
}

#[tokio::test]
async fn later_only_the_hint_is_looked_for_until_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!keep(&recorded(dir.path(), 0), Family::V6, false).await.unwrap());
    assert_eq!(log(dir.path()), ["-w 5 -S KUBE-IPTABLES-HINT -t mangle"]);
    assert!(keep(&recorded(dir.path(), 1), Family::V6, false).await.unwrap());
    assert_eq!(log(dir.path())[2..], ["-w 5 -N KUBE-IPTABLES-HINT -t mangle"]);
}

#[tokio::test]
async fn what_was_made_is_removed_in_reverse() {
    let dir = tempfile::tempdir().unwrap();
    remove_iptables_chains(&recorded(dir.path(), 1), Family::V4).await.unwrap();
    let mut calls = log(dir.path());
    assert_eq!(calls.pop().as_deref(), Some("-w 5 -S KUBE-IPTABLES-HINT -t mangle"));
    let starts = ["-D KUBE-FIREWALL", "-D INPUT", "-D OUTPUT", "-X KUBE-FIREWALL", "-X KUBE-IPTABLES-HINT"];
    assert_eq!(calls.len(), starts.len());
    for (call, start) in calls.iter().zip(starts) {
        assert!(call.starts_with(&format!("-w 5 {start} -t ")), "{call}");
    }
}

#[tokio::test]
async fn a_failure_has_the_command_and_its_output() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("iptables");
    let error = keep(&program, Family::V4, true).await.unwrap_err();
    assert!(matches!(error, IptablesError::Missing { .. }), "{error}");
    script(dir.path(), "echo no permission >&2; exit 4");
    let error = keep(&program, Family::V4, true).await.unwrap_err().to_string();
    assert!(
        error.ends_with("-N KUBE-IPTABLES-HINT -t mangle` failed (exit status: 4): no permission"),
        "{error}"
    );
}

/// A network namespace of its own, removed on drop.
struct Namespace(String);

impl Namespace {
    fn new() -> Option<Self> {
        let name = format!("hostlet-test-{:016x}", rand::random::<u64>());
        let ip = |arguments: &[&str]| {
            std::process::Command::new("ip").args(arguments).output().is_ok_and(|made| made.status.success())
        };
        let made = ip(&["netns", "add", &name]).then_some(Self(name));
        let works = made.as_ref().is_some_and(|Self(name)| {
            ip(&["netns", "exec", name, "iptables", "-w", "5", "-S", "OUTPUT", "-t", "mangle"])
        });
        made.filter(|_| works)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[tokio::test]
async fn the_chains_return_after_a_flush() {
    let Some(Namespace(name)) = &Namespace::new() else {
        return skipped("needs root, ip and iptables");
    };
    let dir = tempfile::tempdir().unwrap();
    let program = script(dir.path(), &format!("exec ip netns exec {name} iptables \"$@\""));
    assert!(keep(&program, Family::V4, true).await.unwrap());
    assert!(!keep(&program, Family::V4, false).await.unwrap());
    assert!(keep(&program, Family::V4, true).await.unwrap(), "a second start adds nothing");
    let listed = output(&program, &["-S", "-t", "filter"]).await.unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(listed.matches("-j KUBE-FIREWALL").count(), 2, "{listed}");
    assert_eq!(listed.matches("-j DROP").count(), 1, "{listed}");
    for flush in ["-F", "-X"] {
        for table in ["mangle", "filter"] {
            assert!(call(&program, &[flush, "-t", table]).await.unwrap());
        }
    }
    assert!(keep(&program, Family::V4, false).await.unwrap());
    assert!(!keep(&program, Family::V4, false).await.unwrap());

    assert!(has_iptables_chains(&program).await);
    for _ in 0..2 {
        remove_iptables_chains(&program, Family::V4).await.unwrap();
        for table in ["mangle", "filter"] {
            let listed = output(&program, &["-S", "-t", table]).await.unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            assert!(!listed.contains("KUBE"), "{listed}");
        }
    }
    assert!(keep(&program, Family::V4, true).await.unwrap());
    assert!(call(&program, &["-A", "FORWARD", "-t", "filter", "-j", "KUBE-FIREWALL"]).await.unwrap());
    remove_iptables_chains(&program, Family::V4).await.unwrap();
    assert!(call(&program, &["-S", "KUBE-FIREWALL", "-t", "filter"]).await.unwrap(), "somebody uses it");
}

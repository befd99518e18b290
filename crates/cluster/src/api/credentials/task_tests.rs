//! Credentials that appear late, expire, change and are rejected.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures::FutureExt;
use tempfile::TempDir;
use tokio_util::sync::DropGuard;

use super::*;
use crate::api::credentials::plugin::bearer;
use crate::api::kubeconfig::of_one_user;

/// Credentials with their files in a temporary directory.
struct Room {
    dir: TempDir,
    credentials: Credentials,
    _running: DropGuard,
}

impl Room {
    fn new(write: impl FnOnce(&Path)) -> Self {
        let dir = TempDir::new().unwrap();
        write(dir.path());
        let (task, credentials) = Credentials::new(CredentialsSource::new(dir.path().join("kubeconfig")));
        let cancel = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "a task of a test")]
        tokio::spawn(task.run(cancel.clone()));
        Self { dir, credentials, _running: cancel.drop_guard() }
    }

    /// Waits until requests are sent with this token.
    async fn until(&self, token: &str) -> Ready {
        let has_it = async {
            loop {
                if let Ok(ready) = self.credentials.get().await
                    && ready.login.authorization == bearer(token)
                {
                    return ready;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(600), has_it).await.unwrap()
    }
}

fn kubeconfig(dir: &Path, user: &str) {
    let text = of_one_user("https://127.0.0.1:1", user);
    fs::write(dir.join("new"), text).unwrap();
    fs::rename(dir.join("new"), dir.join("kubeconfig")).unwrap();
}

/// A kubeconfig with this script as plugin.
fn plugin(dir: &Path, script: &str) {
    let program = dir.join("plugin");
    fs::write(&program, format!("#!/bin/sh\ncd {}\n{script}\n", dir.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let version = "client.authentication.k8s.io/v1";
    let exec = format!("{{apiVersion: {version}, command: {}, interactiveMode: Never}}", program.display());
    kubeconfig(dir, &format!("{{exec: {exec}}}"));
}

/// Prints a new token each time: `t1`, `t2`.
const COUNTING: &str = r#"echo run >> runs
echo "{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"t$(wc -l < runs)\"$MORE}}""#;

#[tokio::test(start_paused = true)]
async fn a_kubeconfig_that_appears_late_or_is_fixed_is_used() {
    let room = Room::new(|_| {});
    let problem = loop {
        match room.credentials.get().await {
            Err(AccessError::None(problem)) => break problem,
            other => drop(other),
        }
    };
    assert!(problem.contains("No such file or directory"), "{problem}");
    fs::write(room.dir.path().join("kubeconfig"), "a: [").unwrap();
    sleep(Duration::from_secs(120)).await;
    assert!(room.credentials.get().await.unwrap_err().to_string().contains("line 1"));
    kubeconfig(room.dir.path(), "{token: t}");
    room.until("t").await;
}

#[tokio::test(start_paused = true)]
async fn a_token_file_is_read_again_and_connections_remain() {
    let room = Room::new(|dir| {
        fs::write(dir.join("token"), "one\n").unwrap();
        kubeconfig(dir, "{tokenFile: token}");
    });
    let first = room.until("one").await;
    fs::write(room.dir.path().join("token"), "two\n").unwrap();
    let second = room.until("two").await;
    assert!(first.login.shares_connections(&second.login));
    fs::remove_file(room.dir.path().join("token")).unwrap();
    sleep(Duration::from_secs(600)).await;
    room.until("two").await;
}

#[test]
fn issued_credentials_are_used_until_shortly_before_they_expire() {
    let used = |left: i64| {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        renewal(now + jiff::SignedDuration::from_secs(left), now).map(|pause| pause.as_secs())
    };
    assert_eq!([3600, 100, 1].map(used), [Some(3480), Some(80), Some(1)]);
    assert_eq!([0, -10 * 365 * 86_400].map(used), [None, None], "the clock is ahead");
}

// Time is not paused: it would advance while waiting for a process.

#[tokio::test]
async fn a_plugin_that_hangs_holds_up_no_request() {
    let once = format!("[ ! -e runs ] || {{ touch hangs; exec sleep 100000; }}\n{COUNTING}");
    let room = Room::new(|dir| plugin(dir, &once));
    let first = room.until("t1").await;
    room.credentials.rejected(&first);
    let hangs = room.dir.path().join("hangs");
    let hanging = async {
        while !hangs.exists() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), hanging).await.unwrap();
    let ready = room.credentials.get().now_or_never().expect("it waits for the plugin").unwrap();
    assert_eq!(ready.login.authorization, bearer("t1"));
}

#[tokio::test]
async fn credentials_are_renewed_before_they_expire() {
    let soon = Timestamp::now() + Duration::from_secs(5);
    let more = format!("MORE=', \"expirationTimestamp\": \"{soon}\"'");
    let room = Room::new(|dir| plugin(dir, &format!("{more}\n{COUNTING}")));
    let renewed = async {
        while fs::read_to_string(room.dir.path().join("runs")).unwrap_or_default().lines().count() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), renewed).await.unwrap();
}

#[tokio::test]
async fn credentials_are_requested_again_only_when_rejected() {
    let room = Room::new(|dir| plugin(dir, COUNTING));
    let first = room.until("t1").await;
    room.credentials.rejected(&first);
    room.until("t2").await;
    // A late rejection concerns credentials that are no longer used.
    room.credentials.rejected(&first);
    tokio::task::yield_now().await;
    assert_eq!(fs::read_to_string(room.dir.path().join("runs")).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn rejected_credentials_that_cannot_be_replaced_are_unavailable() {
    let room = Room::new(|dir| plugin(dir, &format!("[ -e runs ] && exit 9\n{COUNTING}")));
    let first = room.until("t1").await;
    room.credentials.rejected(&first);
    let problem = async {
        loop {
            match room.credentials.get().await {
                Err(AccessError::None(problem)) => return problem,
                Ok(_) | Err(AccessError::Pending(_)) => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let problem = timeout(Duration::from_secs(60), problem).await.unwrap();
    assert!(problem.contains("exit status: 9"), "{problem}");
}

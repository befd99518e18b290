//! Files of certificates that change while the API runs.

use std::path::PathBuf;

use hostlet_net::tls::fake::FakeAuthority;
use hostlet_net::tls::{PrivateKey, certificate_request};
use jiff::Timestamp;
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::DropGuard;

use super::*;

const SOON: Duration = Duration::from_secs(300);

/// A certificate with its key, as PEM.
fn pair() -> (String, String) {
    let key = PrivateKey::generate().unwrap();
    let request = certificate_request(&key, "system:nodes", "system:node:host1").unwrap();
    let issued = FakeAuthority::new().issue(&request, Timestamp::now(), Duration::from_secs(3600));
    (issued.unwrap(), key.pem().to_owned())
}

/// The files of a node.
struct Files {
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        let files = Self { dir: TempDir::new().unwrap() };
        let (certificate, key) = pair();
        files.write("tls.crt", &certificate);
        files.write("tls.key", &key);
        files.write("ca.crt", &FakeAuthority::new().certificate().unwrap());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn settings(&self) -> TlsSettings {
        TlsSettings {
            tls: ServerTls::default(),
            identity: Some(IdentityFiles { certificate: self.path("tls.crt"), key: self.path("tls.key") }),
            client_ca: Some(self.path("ca.crt")),
        }
    }
}

fn run(task: TlsTask) -> DropGuard {
    let stop = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "a task of a test")]
    tokio::spawn(task.run(Rescan::default(), stop.clone()));
    stop.drop_guard()
}

#[tokio::test]
async fn missing_and_unusable_files_are_named_with_their_field() {
    let start = |settings| match TlsTask::new(settings, watch::channel(None).1) {
        Err(error) => error_chain(&error),
        Ok(_) => panic!("it started"),
    };
    for (file, text, expected) in [
        ("tls.crt", None, "tlsCertFile: cannot read"),
        ("tls.key", None, "tlsPrivateKeyFile: cannot read"),
        ("ca.crt", None, "authentication.x509.clientCAFile: cannot read"),
        ("tls.key", Some("none"), "tlsCertFile, tlsPrivateKeyFile cannot be used"),
        ("ca.crt", Some("none"), "authentication.x509.clientCAFile: "),
    ] {
        let files = Files::new();
        match text {
            Some(text) => files.write(file, text),
            None => fs::remove_file(files.path(file)).unwrap(),
        }
        let error = start(files.settings());
        assert!(error.starts_with(expected), "{error}");
    }
    let files = Files::new();
    let tls = ServerTls { groups: vec![25], ..ServerTls::default() };
    let error = start(TlsSettings { tls, ..files.settings() });
    assert!(error.contains("tlsCurvePreferences"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_taken_once_they_fit_together() {
    let files = Files::new();
    let task = TlsTask::new(files.settings(), watch::channel(None).1).unwrap();
    let (mut config, mut authorities) = (task.config(), task.authorities());
    let _running = run(task);
    let first = config.borrow_and_update().clone();
    // Written one after the other: the certificate is of another key for a while.
    let (certificate, key) = pair();
    files.write("tls.crt", &certificate);
    assert!(timeout(SOON, config.changed()).await.is_err(), "the old pair stays");
    files.write("tls.key", &key);
    timeout(SOON, config.changed()).await.unwrap().unwrap();
    assert!(!Arc::ptr_eq(&first, &config.borrow_and_update()));

    let before = authorities.borrow_and_update().clone().unwrap();
    files.write("ca.crt", &FakeAuthority::new().certificate().unwrap());
    timeout(SOON, config.changed()).await.unwrap().unwrap();
    assert!(!Arc::ptr_eq(&before, authorities.borrow_and_update().as_ref().unwrap()));

    config.borrow_and_update();
    files.write("ca.crt", "");
    assert!(timeout(SOON, config.changed()).await.is_err(), "the old authorities stay");
}

#[tokio::test(start_paused = true)]
async fn a_certificate_of_the_cluster_counts_instead_of_files() {
    let files = Files::new();
    let issued = watch::Sender::new(None);
    let task = TlsTask::new(TlsSettings { identity: None, ..files.settings() }, issued.subscribe()).unwrap();
    let mut config = task.config();
    let _running = run(task);
    assert!(timeout(SOON, config.changed()).await.is_err(), "there is none yet");
    for _ in 0..2 {
        let (certificate, key) = pair();
        issued.send_replace(Some(Arc::new(format!("{certificate}\n{key}").into_bytes())));
        timeout(SOON, config.changed()).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_does_not_hold_up_the_other_part() {
    let files = Files::new();
    let issued = watch::Sender::new(None);
    let task = TlsTask::new(files.settings(), issued.subscribe()).unwrap();
    let (mut config, mut authorities) = (task.config(), task.authorities());
    let _running = run(task);

    files.write("ca.crt", "none");
    files.write("tls.crt", "none");
    assert!(timeout(SOON, config.changed()).await.is_err(), "both stay");
    let (certificate, key) = pair();
    files.write("tls.crt", &certificate);
    files.write("tls.key", &key);
    timeout(SOON, config.changed()).await.expect("a renewed certificate is taken").unwrap();
    fs::remove_file(files.path("tls.key")).unwrap();
    let (certificate, key) = pair();
    issued.send_replace(Some(Arc::new(format!("{certificate}\n{key}").into_bytes())));
    timeout(SOON, config.changed()).await.expect("that of the cluster is taken").unwrap();

    assert!(!authorities.has_changed().unwrap());
    files.write("ca.crt", &FakeAuthority::new().certificate().unwrap());
    timeout(SOON, authorities.changed()).await.expect("new authorities are taken").unwrap();
}

//! Registration calls over real sockets.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use hostlet_proto::registration::{PluginInfo, RegistrationStatus};
use tempfile::TempDir;
use tonic::Status;

use super::client::{CallError, GrpcRegistrar, Registrar, Statement};
use super::fake::{FakePlugin, Script, dra_driver};
use super::info::InfoError;
use super::scan::{OpenError, scan};

struct Registry {
    dir: TempDir,
}

impl Registry {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Asks the plugin at a socket and notifies it that it is registered. Returns its answer.
    async fn register(&self, socket: &Path) -> Result<Statement, CallError> {
        let identity = scan(self.dir.path()).sockets[socket];
        let registrar = GrpcRegistrar { registry: self.dir.path().to_owned(), proc: "/proc".into() };
        let answer = registrar.ask(socket, identity).await?;
        let status = RegistrationStatus { plugin_registered: true, error: String::new() };
        answer.conversation.notify(status).await?;
        Ok(answer.statement)
    }
}

#[tokio::test]
async fn a_plugin_is_asked_and_notified_over_one_connection() {
    let registry = Registry::new();
    // Longer than a socket's address, which is no problem for the connection by descriptor.
    let deep = registry.path(&"d".repeat(100));
    fs::create_dir(&deep).unwrap();
    let short = registry.path("short.sock");
    let plugin = FakePlugin::start(&short, dra_driver("gpu.example.com", &short)).unwrap();
    let socket = deep.join("gpu.sock");
    fs::rename(&short, &socket).unwrap();

    let Statement { claim, endpoint } = registry.register(&socket).await.unwrap();
    assert_eq!(claim.unwrap().name, "gpu.example.com");
    let error = endpoint.unwrap_err().to_string();
    assert!(error.contains("short.sock cannot be used: No such file"), "{error}");
    assert!(plugin.status(0).await.plugin_registered);

    let at = |endpoint: &Path| plugin.says(dra_driver("gpu.example.com", endpoint));
    let listening = registry.path("dra.sock");
    let _listener = UnixListener::bind(&listening).unwrap();
    at(&listening);
    assert!(registry.register(&socket).await.unwrap().endpoint.is_ok());
    at(Path::new("/dev/null"));
    let error = registry.register(&socket).await.unwrap().endpoint.unwrap_err();
    assert_eq!(error, InfoError::NotASocket("/dev/null".into()));
}

#[tokio::test]
async fn a_socket_that_became_a_link_is_not_followed() {
    let registry = Registry::new();
    let outside = tempfile::tempdir().unwrap();
    let stranger = outside.path().join("a.sock");
    let _stranger = FakePlugin::start(&stranger, dra_driver("stranger", &stranger)).unwrap();
    let socket = registry.path("a.sock");
    let plugin = FakePlugin::start(&socket, dra_driver("gpu", &socket)).unwrap();
    let identity = scan(registry.dir.path()).sockets[&socket];
    plugin.stop().unwrap();
    symlink(&stranger, &socket).unwrap();
    let registrar = GrpcRegistrar { registry: registry.dir.path().to_owned(), proc: "/proc".into() };
    let error = registrar.ask(&socket, identity).await.err().unwrap();
    assert!(matches!(error, CallError::Open(OpenError::Socket(_) | OpenError::Replaced)), "{error:?}");
}

#[tokio::test]
async fn what_is_no_plugin_gives_errors_that_help() {
    let registry = Registry::new();
    let socket = registry.path("a.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let dead = registry.register(&socket).await.err().unwrap();
    assert!(matches!(&dead, CallError::Connect(_)) && dead.may_be_early(), "{dead:?}");
    assert!(dead.to_string().contains("refused"), "{dead}");

    let plugin = FakePlugin::start(&socket, dra_driver("gpu", &socket)).unwrap();
    plugin.answers_get_info(Script::Fails(Status::internal("a\nb")));
    let error = registry.register(&socket).await.err().unwrap().to_string();
    assert_eq!(error, "GetInfo failed: Internal: a\\nb");
    plugin.answers_get_info(Script::Fails(Status::unimplemented("")));
    let error = registry.register(&socket).await.err().unwrap().to_string();
    assert!(error.contains("does not serve pluginregistration.Registration/GetInfo"), "{error}");
    plugin.answers_get_info(Script::Answers);
    plugin.says(PluginInfo { name: "x".repeat(1 << 20), ..dra_driver("gpu", &socket) });
    let error = registry.register(&socket).await.err().unwrap().to_string();
    assert!(error.starts_with("GetInfo failed: OutOfRange") && error.len() < 400, "{error}");
    plugin.says(PluginInfo::default());
    let claim = registry.register(&socket).await.unwrap().claim;
    assert_eq!(claim.unwrap_err(), InfoError::Empty { field: "type" });
    plugin.says(dra_driver("gpu", &socket));
    plugin.answers_notify(Script::Fails(Status::unavailable("not now")));
    let error = registry.register(&socket).await.err().unwrap().to_string();
    assert_eq!(error, "NotifyRegistrationStatus failed: Unavailable: not now");
    drop(plugin);

    // Something that speaks another protocol.
    fs::remove_file(&socket).unwrap();
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let error = registry.register(&socket).await.err().unwrap();
    assert!(matches!(error, CallError::Failed { .. } | CallError::Connect(_)), "{error:?}");
    server.join().unwrap();
}

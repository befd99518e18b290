//! Plugins at registration sockets, from a real daemon's point of view.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hostlet_integration::fake_cri::FakeHost;
use hostlet_integration::{Daemon, Look, wait_for};
use hostlet_plugins::fake::{FakePlugin, Script, dra_driver};
use hostlet_plugins::{PluginInfo, PluginState, PluginView};

use crate::support::SOON;

fn registry(host: &FakeHost) -> PathBuf {
    host.directory().join("kubelet/plugins_registry")
}

fn plugins(daemon: &Daemon) -> Result<Vec<PluginView>> {
    let json = daemon.cli(&["plugins", "-o", "json"])?;
    serde_json::from_str(&json).with_context(|| format!("no list of plugins: {json}"))
}

/// Waits until the plugins are as wanted.
async fn wait_for_plugins(daemon: &Daemon, is_it: impl Fn(&[PluginView]) -> bool) -> Result<Vec<PluginView>> {
    wait_for("the plugins as wanted", SOON, async || {
        let plugins = plugins(daemon)?;
        Ok(if is_it(&plugins) { Look::Done(plugins) } else { Look::NotYet(format!("{plugins:#?}")) })
    })
    .await
}

#[tokio::test]
async fn what_cannot_be_registered_is_told_listed_and_explained() {
    let host = FakeHost::start().unwrap();
    let registry = registry(&host);
    fs::create_dir_all(registry.join("sub")).unwrap();
    // A plugin of another kubelet's time, which has ended; it is there before the daemon is.
    drop(UnixListener::bind(registry.join("dead.sock")).unwrap());
    let daemon = host.start_hostlet("").await.unwrap();
    let at = |name: &str| registry.join(name);

    let info = PluginInfo {
        r#type: "StorePlugin".to_owned(),
        ..dra_driver("disk.example.com", &at("sub/csi.sock"))
    };
    let csi = FakePlugin::start(&at("sub/csi.sock"), info).unwrap();
    let nonsense = FakePlugin::start(&at("nonsense.sock"), PluginInfo::default()).unwrap();
    let hung = FakePlugin::start(&at("hung.sock"), dra_driver("hung", &at("hung.sock"))).unwrap();
    hung.answers_get_info(Script::Hangs);
    // A socket that leads outside, and one that is hidden.
    let outside = host.directory().join("outside.sock");
    let stranger = FakePlugin::start(&outside, dra_driver("stranger", &outside)).unwrap();
    symlink(&outside, at("link.sock")).unwrap();
    let hidden = FakePlugin::start(&at(".hidden.sock"), dra_driver("hidden", &outside)).unwrap();

    let status = csi.status(0).await;
    assert!(!status.plugin_registered && status.error.contains("plugin type: StorePlugin"), "{status:?}");
    assert_eq!(nonsense.status(0).await.error, "PluginInfo.type is empty: set it");
    let plugins = wait_for_plugins(&daemon, |plugins| {
        let states = plugins.iter().map(|plugin| plugin.state);
        states.eq([
            PluginState::Failing,
            PluginState::Failing,
            PluginState::Failing,
            PluginState::Unsupported,
        ])
    })
    .await
    .unwrap();
    let names: Vec<_> = plugins.iter().map(|plugin| plugin.socket.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["dead.sock", "hung.sock", "nonsense.sock", "csi.sock"]);
    assert!(plugins[0].last_error.as_ref().unwrap().contains("refused"), "{plugins:?}");
    assert!(plugins[1].last_error.as_ref().unwrap().contains("GetInfo was not answered"), "{plugins:?}");
    assert_eq!(plugins[3].name.as_deref(), Some("disk.example.com"));
    assert!(stranger.statuses().is_empty() && hidden.statuses().is_empty());

    let table = daemon.cli(&["plugins"]).unwrap();
    assert!(table.contains("disk.example.com  StorePlugin  Unsupported"), "{table}");
    let explained = daemon.command(&["explain"]).output().unwrap();
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(
        explained.contains("nonsense.sock cannot be registered: PluginInfo.type is empty"),
        "{explained}"
    );
    assert!(
        explained.contains("\nPlugins:\n")
            && explained.contains("disk.example.com (StorePlugin): Unsupported"),
        "{explained}"
    );
    let events = daemon.cli(&["events"]).unwrap();
    assert!(events.contains("FailedPluginRegistration"), "{events}");

    // It ends as it should, and is forgotten.
    nonsense.stop().unwrap();
    fs::remove_file(at("dead.sock")).unwrap();
    wait_for_plugins(&daemon, |plugins| plugins.len() == 2).await.unwrap();
    assert!(daemon.stop().await.unwrap().success());
}

/// The names of the sockets of the registered plugins, with whether each serves.
fn registered(plugins: &[PluginView]) -> Vec<(String, bool)> {
    let registered = plugins.iter().filter(|plugin| plugin.is_registered());
    let name = |plugin: &PluginView| plugin.socket.rsplit('/').next().unwrap_or_default().to_owned();
    registered.map(|plugin| (name(plugin), plugin.state == PluginState::Serving)).collect()
}

#[tokio::test]
async fn instances_of_a_driver_come_go_and_survive_a_restart_of_hostlet() {
    let host = FakeHost::start().unwrap();
    let registry = registry(&host);
    let daemon = host.start_hostlet("").await.unwrap();
    let at = |name: &str| registry.join(name);
    let driver = |name: &str| dra_driver("gpu.example.com", &at(name));
    let is = |expected: &[(&str, bool)], plugins: &[PluginView]| {
        registered(plugins).iter().map(|(name, serves)| (name.as_str(), *serves)).eq(expected.iter().copied())
    };

    let old = FakePlugin::start(&at("z-old.sock"), driver("z-old.sock")).unwrap();
    assert!(old.status(0).await.plugin_registered);
    wait_for_plugins(&daemon, |plugins| is(&[("z-old.sock", true)], plugins)).await.unwrap();
    // The new version of a rolling update.
    let new = FakePlugin::start(&at("a-new.sock"), driver("a-new.sock")).unwrap();
    assert!(new.status(0).await.plugin_registered);
    let both = [("a-new.sock", true), ("z-old.sock", false)];
    wait_for_plugins(&daemon, |plugins| is(&both, plugins)).await.unwrap();

    assert!(daemon.stop().await.unwrap().success());
    let daemon = host.start_hostlet("").await.unwrap();
    assert!(old.status(1).await.plugin_registered && new.status(1).await.plugin_registered);
    wait_for_plugins(&daemon, |plugins| is(&both, plugins)).await.unwrap();

    // The new version fails, and the old one serves again.
    new.stop().unwrap();
    wait_for_plugins(&daemon, |plugins| is(&[("z-old.sock", true)], plugins)).await.unwrap();
    // It crashes and comes back again and again, always in place of its old socket.
    drop(old);
    for _ in 0..20 {
        drop(FakePlugin::start(&at("z-old.sock"), driver("z-old.sock")).unwrap());
    }
    let last = FakePlugin::start(&at("z-old.sock"), driver("z-old.sock")).unwrap();
    assert!(last.status(0).await.plugin_registered);
    wait_for_plugins(&daemon, |plugins| is(&[("z-old.sock", true)], plugins)).await.unwrap();
    // A driver with a name that is not one.
    let bad = FakePlugin::start(&at("bad.sock"), dra_driver("Not A Name", &at("bad.sock"))).unwrap();
    let status = bad.status(0).await;
    assert!(!status.plugin_registered && status.error.contains("PluginInfo.name"), "{status:?}");
    let versions = PluginInfo { supported_versions: vec!["v9.Nothing".to_owned()], ..driver("bad.sock") };
    bad.says(versions);
    wait_for("the error about the version", SOON, async || {
        let told = bad.statuses();
        let is_told = told.iter().any(|status| status.error.contains("v9.Nothing"));
        Ok(if is_told { Look::Done(()) } else { Look::NotYet(format!("{told:?}")) })
    })
    .await
    .unwrap();
    let events = daemon.cli(&["events"]).unwrap();
    assert!(events.contains("PluginRegistered") && events.contains("PluginDeregistered"), "{events}");
}

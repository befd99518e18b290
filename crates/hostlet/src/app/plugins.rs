//! The part that registers plugins, with what they are for.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_base::node::NodeEvents;
use hostlet_cluster::resource_slices::Dra;
use hostlet_config::Config;
use hostlet_csi::CsiHandler;
use hostlet_devices::DevicePluginHandler;
use hostlet_plugins::{Handlers, PluginHandler, PluginList, PluginSettings, Plugins};
use hostlet_telemetry::Metrics;

use super::paths::{PLUGIN_REGISTRY, PROC};
use super::tasks::{Stage, Tasks};

/// Starts to register plugins.
pub(super) fn start_plugins(
    config: &Config,
    dra: &Dra,
    csi: &CsiHandler,
    devices: DevicePluginHandler,
    events: &NodeEvents,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> PluginList {
    let settings = PluginSettings {
        registry: config.root_dir.join(PLUGIN_REGISTRY),
        proc: PROC.into(),
        handlers: Handlers::new([
            Arc::new(dra.clone()) as Arc<dyn PluginHandler>,
            Arc::new(csi.clone()),
            Arc::new(devices),
        ]),
        events: events.clone(),
        clock: WallClock::system(),
        rescan: tasks.rescan().subscribe(),
    };
    let plugins = Plugins::new(settings);
    let list = plugins.list();
    plugins.register(metrics);
    tasks.spawn(Stage::Publish, "plugins", |cancel| plugins.run(cancel));
    list
}

//! The part that registers plugins, with what they are for.

use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_base::node::NodeEvents;
use hostlet_config::Config;
use hostlet_plugins::{Handlers, PluginHandler, PluginList, PluginSettings, Plugins};
use hostlet_telemetry::Metrics;

use super::paths::{PLUGIN_REGISTRY, PROC};
use super::tasks::{Stage, Tasks};

/// Starts to register plugins.
pub(super) fn start_plugins(
    config: &Config,
    handlers: impl IntoIterator<Item = Arc<dyn PluginHandler>>,
    events: &NodeEvents,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> PluginList {
    let settings = PluginSettings {
        registry: config.root_dir.join(PLUGIN_REGISTRY),
        proc: PROC.into(),
        handlers: Handlers::new(handlers),
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

//! The part that registers plugins, with what they are for.

use std::sync::Arc;

use super::paths::{PLUGIN_REGISTRY, PROC};
use super::tasks::{Stage, Tasks};
use crate::config::Config;
use crate::dra::Dra;
use crate::plugin::{Handlers, PluginHandler, PluginList, PluginSettings, Plugins};
use crate::telemetry::Metrics;
use crate::types::WallClock;
use crate::types::node::NodeEvents;

/// Starts to register plugins.
pub(super) fn start_plugins(
    config: &Config,
    dra: &Dra,
    events: &NodeEvents,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> PluginList {
    let settings = PluginSettings {
        registry: config.root_dir.join(PLUGIN_REGISTRY),
        proc: PROC.into(),
        handlers: Handlers::new([Arc::new(dra.clone()) as Arc<dyn PluginHandler>]),
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

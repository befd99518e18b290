//! The plugins as they are now, for the server: what registration knows, and what the handlers add.

use std::sync::Arc;

use hostlet_base::watching;
use tokio::sync::watch;

use super::handler::Handlers;
use super::view::{PluginState, PluginView};

/// The current plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginList {
    views: watch::Receiver<Arc<[PluginView]>>,
    handlers: Handlers,
}

impl PluginList {
    pub(super) fn new(views: watch::Receiver<Arc<[PluginView]>>, handlers: Handlers) -> Self {
        Self { views, handlers }
    }

    /// Without plugins, forever.
    #[cfg(any(test, feature = "fakes"))]
    pub fn none() -> Self {
        let empty: Arc<[PluginView]> = Arc::new([]);
        Self::new(watch::channel(empty).1, Handlers::default())
    }

    /// All registration sockets, by path. Handlers describe the plugins that serve.
    pub fn all(&self) -> Vec<PluginView> {
        let views = self.views.borrow().clone();
        let described = views.iter().map(|view| {
            let details = match (view.state, &view.plugin_type, &view.name) {
                (PluginState::Serving, Some(plugin_type), Some(name)) => {
                    self.handlers.get(plugin_type).and_then(|handler| handler.describe(name))
                }
                _ => None,
            };
            PluginView { details, ..view.clone() }
        });
        described.collect()
    }

    /// What is wrong with plugins of supported types, one sentence each.
    pub fn problems(&self) -> Vec<String> {
        let is_supported = |view: &PluginView| match view.state {
            PluginState::Serving | PluginState::Standby | PluginState::Registering | PluginState::Failing => {
                true
            }
            PluginState::Unsupported => false,
        };
        self.all().iter().filter(|view| is_supported(view)).flat_map(PluginView::problems).collect()
    }

    /// Waits for a change of the registrations; forever if none can follow. Cancel-safe.
    pub async fn changed(&mut self) {
        watching::changed(&mut self.views).await;
    }
}

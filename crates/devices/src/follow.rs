//! Follows the devices of one instance of a plugin for as long as it is connected. Decides nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostlet_base::{Backoff, BackoffPolicy};
use hostlet_plugins::PluginInstance;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::client::{CallError, GrpcPlugin, PluginOptions};
use crate::inventory::ConnectionId;
use crate::registration::Accepted;
use crate::shared::Shared;

/// Pauses before an instance that stays registered is connected to again.
const BACKOFF: BackoffPolicy = BackoffPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    reset_after: Duration::from_secs(120),
};

/// Follows a plugin that registered at the kubelet's socket, until its stream ends. As upstream, it is not connected to again: a plugin
/// that comes back registers.
pub(crate) async fn follow_accepted(shared: Arc<Shared>, accepted: Accepted) {
    let Accepted { resource, socket, plugin, options } = accepted;
    follow(&shared, &resource, &socket, plugin, options).await;
}

/// Follows a plugin of the plugin registration, until it is removed.
pub(crate) async fn follow_registered(
    shared: Arc<Shared>,
    instance: Arc<PluginInstance>,
    removed: CancellationToken,
) {
    let mut backoff = None;
    loop {
        let following = async {
            match connect(&instance.endpoint).await {
                Ok((plugin, options)) => {
                    follow(&shared, &instance.name, &instance.endpoint, plugin, options).await;
                }
                Err(error) => {
                    let (resource, socket) = (&instance.name, instance.endpoint.display());
                    tracing::warn!(resource, %socket, %error, "a registered device plugin cannot be called");
                }
            }
            let now = Instant::now();
            let next = Backoff::next(backoff, &BACKOFF, now, now);
            sleep(next.delay).await;
            next
        };
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = removed.cancelled() => return,
            // Cancel-safe: a connection that is dropped is disconnected.
            next = following => backoff = Some(next),
        }
    }
}

async fn connect(socket: &Path) -> Result<(GrpcPlugin, PluginOptions), CallError> {
    let plugin = GrpcPlugin::connect(socket).await?;
    let options = plugin.options().await?;
    Ok((plugin, options))
}

async fn follow(shared: &Shared, resource: &str, socket: &Path, plugin: GrpcPlugin, options: PluginOptions) {
    let (id, replaced) = shared.connected(resource, socket, options, Arc::new(plugin.clone()));
    let _connection = Connection { shared, resource, id };
    let listing = async {
        let mut devices = plugin.devices().await?;
        while let Some(list) = devices.next().await? {
            shared.listed(resource, id, list);
        }
        Ok::<(), CallError>(())
    };
    let socket = socket.display();
    tokio::select! {
        // Cancel-safe: waits for a token.
        () = replaced.cancelled() => {
            tracing::info!(resource, %socket, "another instance replaces this one of a device plugin");
        }
        // Cancel-safe: dropping it closes the stream.
        ended = listing => match ended {
            Ok(()) => tracing::info!(resource, %socket, "a device plugin ended its list of devices"),
            Err(error) => tracing::warn!(resource, %socket, %error, "a device plugin is disconnected"),
        },
    }
}

/// A connection. Dropping it reports that it ended.
struct Connection<'a> {
    shared: &'a Shared,
    resource: &'a str,
    id: ConnectionId,
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.shared.disconnected(self.resource, self.id);
    }
}

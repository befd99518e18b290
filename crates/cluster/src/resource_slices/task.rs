//! The task: a stream per serving driver, and the reconciler. Decides nothing.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::Client;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::dial::GrpcDial;
use super::handler::Dra;
use super::reconciler::Reconciler;
use super::settings::DraSettings;
use super::shared::Publishing;
use super::stream::{Dial, ReportProblems, StreamContext};
use hostlet_base::node::{NodeEvent, NodeEvents};
use hostlet_plugins::{InstanceId, PluginInstance};

/// Publishes the devices of drivers as ResourceSlices, and removes slices of drivers that serve no pod here.
pub struct DraTask {
    dra: Dra,
    publishes: bool,
    reconciler: Reconciler,
    dial: Arc<dyn Dial>,
    events: NodeEvents,
}

impl DraTask {
    /// `node` is the Node, which owns the slices. `client` is for requests about slices.
    pub fn new(
        dra: &Dra,
        settings: DraSettings,
        client: Client,
        node: watch::Receiver<Option<Arc<Node>>>,
        events: NodeEvents,
    ) -> Self {
        dra.shared.with(|state| {
            state.has_reconciler = true;
            if settings.publishes {
                state.publishing = Publishing::Unavailable;
            }
        });
        let publishes = settings.publishes;
        let reconciler = Reconciler::new(dra, settings, client, node, events.clone());
        Self { dra: dra.clone(), publishes, reconciler, dial: Arc::new(GrpcDial), events }
    }

    /// Opens streams with `dial`.
    #[cfg(test)]
    pub(super) fn with_dial(self, dial: Arc<dyn Dial>) -> Self {
        Self { dial, ..self }
    }

    /// Runs until cancelled. The slices remain.
    pub async fn run(self, cancel: CancellationToken) {
        let Self { dra, publishes, reconciler, dial, events } = self;
        let report: ReportProblems = Arc::new(move |driver, problems| {
            if !problems.is_empty() {
                let text = problems.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
                events(NodeEvent::warning("DriverDevicesRejected", format!("DRA driver {driver}: {text}")));
            }
        });
        let context = StreamContext { shared: dra.shared.clone(), dial, clock: dra.clock.clone(), report };
        let streams = Streams { context, streams: JoinSet::new(), running: HashMap::new() };
        let work = async {
            if publishes {
                tokio::join!(streams.run(), reconciler.run());
            } else {
                reconciler.run_without_publishing().await;
            }
        };
        tokio::select! {
            // Cancel-safe: waits for a token.
            () = cancel.cancelled() => {}
            // Cancel-safe: a dropped write may have taken effect; the next daemon lists the slices before it writes.
            () = work => {}
        }
    }
}

/// The streams of the serving instances.
struct Streams {
    context: StreamContext,
    /// Owns the streams, which end when it is dropped.
    streams: JoinSet<()>,
    /// The stream of each driver.
    running: HashMap<String, (InstanceId, AbortHandle)>,
}

impl Streams {
    async fn run(mut self) {
        let registered = self.context.shared.registered.clone();
        loop {
            self.adjust();
            tokio::select! {
                // Cancel-safe: a notification is consumed only when returned.
                () = registered.notified() => {}
                // Cancel-safe: a finished stream leaves the set only when returned. It ends only if its driver has no devices to
                // report, or serves no more.
                Some(_) = self.streams.join_next() => {}
            }
        }
    }

    /// Opens streams of the serving instances that may report devices, and closes all others.
    fn adjust(&mut self) {
        let serving: HashMap<String, Arc<PluginInstance>> = self.context.shared.with(|state| {
            let serving = state
                .drivers
                .iter()
                .filter(|(_, driver)| driver.is_reporting())
                .filter_map(|(name, driver)| Some((name.clone(), driver.serving()?.clone())));
            serving.collect()
        });
        self.running.retain(|driver, (id, stream)| {
            let serves = serving.get(driver).is_some_and(|instance| instance.id == *id);
            if !serves {
                stream.abort();
            }
            serves
        });
        for (driver, instance) in serving {
            if !self.running.contains_key(&driver) {
                let id = instance.id;
                let stream = self.streams.spawn(self.context.clone().follow(instance));
                self.running.insert(driver, (id, stream));
            }
        }
    }
}

//! An observer that sees nothing, for nodes whose resources nobody looks at.

use std::sync::Arc;

use async_trait::async_trait;
use hostlet_base::node::Signal;
use hostlet_observe::stats::{MeasureError, SignalReport};

use super::alarms::MemoryNotice;
use super::usage::{NodeObserver, PodsConsumption};

/// Nobody looks at the node's resources.
pub struct Unobserved;

#[async_trait]
impl NodeObserver for Unobserved {
    async fn look(&self) -> SignalReport {
        std::future::pending().await
    }

    async fn pods(&self, _: Signal) -> Result<PodsConsumption, Arc<MeasureError>> {
        std::future::pending().await
    }

    async fn noticed(&self) -> MemoryNotice {
        std::future::pending().await
    }
}

//! The sink for events about pods.

use std::sync::Arc;

use hostlet_base::{PodEvent, PodRef};

use super::ContainerRef;

/// Receives an event about a pod, or about one of its containers. Must not block.
pub type PodEvents = Arc<dyn Fn(&PodRef, Option<&ContainerRef>, &PodEvent) + Send + Sync>;

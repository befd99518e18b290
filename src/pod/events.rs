//! The sink for events about pods.

use std::sync::Arc;

use crate::types::{PodEvent, PodRef};

/// Receives an event about a pod, or about the container of this name. Must not block.
pub type PodEvents = Arc<dyn Fn(&PodRef, Option<&str>, &PodEvent) + Send + Sync>;

//! Where events about pods go: to the API server, if there is one.

use std::sync::Arc;

use crate::types::{PodEvent, PodRef};

/// Takes events about a pod, or about one of its containers, by name. Must not block.
pub type PodEvents = Arc<dyn Fn(&PodRef, Option<&str>, &PodEvent) + Send + Sync>;

//! `/statusz` and `/flagz` (KEP-4827, KEP-4828): pages about the process, for people and, on request, as objects.

mod flagz;
mod negotiate;
mod statusz;

pub use negotiate::{Encoding, Form, Version, form};

use std::collections::BTreeMap;

use axum::Router;
use http::HeaderMap;
use jiff::Timestamp;

use hostlet_base::WallClock;

/// Upstream's name of the component.
const COMPONENT: &str = "kubelet";

/// What every page begins with.
fn head(page: &str) -> String {
    format!(
        "\n{COMPONENT} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting \
         compatibility guarantees and is for debugging purposes only.\n"
    )
}

/// What the pages show.
#[derive(Clone)]
pub struct ZPages {
    /// When the process started.
    pub started: Timestamp,
    /// The time of day.
    pub clock: WallClock,
    /// Whether there is `/statusz` (gate `ComponentStatusz`).
    pub has_status: bool,
    /// The values of all flags; `None` if there is no `/flagz` (gate `ComponentFlagz`).
    pub flags: Option<BTreeMap<String, String>>,
}

impl ZPages {
    /// Both endpoints.
    pub(super) fn routes(self) -> Router {
        let status = if self.has_status { statusz::routes(self.started, self.clock) } else { Router::new() };
        status.merge(self.flags.map(flagz::routes).unwrap_or_default())
    }
}

/// The accepted types of a request.
fn accepted(headers: &HeaderMap) -> &str {
    headers.get(http::header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;

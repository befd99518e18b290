//! The logins of several Docker configurations, and which of them apply to an image. Pure.

use std::collections::BTreeMap;

use super::location::Location;
use super::{DockerConfig, Login};

/// Docker Hub as `docker login` names it; applies to its images if nothing else does.
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// Logins by location.
#[derive(Debug, Default)]
pub struct Keyring {
    /// By the location's text, so that the reverse order has more specific paths of a registry first.
    by_location: BTreeMap<String, (Location, Vec<Login>)>,
}

impl Keyring {
    /// Adds a configuration. A location that is no URL is ignored, as upstream.
    pub fn add(&mut self, config: DockerConfig) {
        for (text, login) in config.logins {
            let Some(location) = Location::of_config(&text) else { continue };
            let entry = self.by_location.entry(location.key()).or_insert_with(|| (location, Vec::new()));
            entry.1.push(login);
        }
    }

    /// The logins for a fully qualified image name, in the order in which to try them.
    pub fn lookup(&self, name: &str) -> Vec<Login> {
        let Some(image) = Location::parse(name) else { return Vec::new() };
        let covering = self.by_location.values().rev().filter(|(location, _)| location.covers(&image));
        let found: Vec<Login> = covering.flat_map(|(_, logins)| logins.iter().cloned()).collect();
        if !found.is_empty() || !name.starts_with("docker.io/") {
            return found;
        }
        self.by_location.get(DEFAULT_REGISTRY).map(|(_, logins)| logins.clone()).unwrap_or_default()
    }
}

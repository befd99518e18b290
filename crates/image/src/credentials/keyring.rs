//! The logins of several Docker configurations, and which of them apply to an image. Pure.

use std::collections::BTreeMap;

use hostlet_base::RegistryLocation;

use super::{DockerConfig, LoginSource, SourcedLogin};

/// Docker Hub as `docker login` names it; applies to its images if nothing else does.
const DEFAULT_REGISTRY: &str = "index.docker.io";

/// Logins by location.
#[derive(Debug, Default)]
pub struct Keyring {
    /// By the location's text, so that the reverse order has more specific paths of a registry first.
    by_location: BTreeMap<String, (RegistryLocation, Vec<SourcedLogin>)>,
}

impl Keyring {
    /// Adds a configuration from `source`. A location that is no URL is ignored, as upstream.
    pub fn add(&mut self, config: DockerConfig, source: &LoginSource) {
        for (text, login) in config.logins {
            let Some(location) = RegistryLocation::of_config(&text) else { continue };
            let entry = self.by_location.entry(location.key()).or_insert_with(|| (location, Vec::new()));
            entry.1.push(SourcedLogin { login, source: source.clone() });
        }
    }

    /// The logins for a fully qualified image name, in the order in which to try them.
    pub fn lookup(&self, name: &str) -> Vec<SourcedLogin> {
        let Some(image) = RegistryLocation::parse(name) else { return Vec::new() };
        let covering = self.by_location.values().rev().filter(|(location, _)| location.covers(&image));
        let found: Vec<SourcedLogin> = covering.flat_map(|(_, logins)| logins.iter().cloned()).collect();
        if !found.is_empty() || !name.starts_with("docker.io/") {
            return found;
        }
        self.by_location.get(DEFAULT_REGISTRY).map(|(_, logins)| logins.clone()).unwrap_or_default()
    }
}

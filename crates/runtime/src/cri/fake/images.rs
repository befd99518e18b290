//! The image store and the registry behind it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::wire::{self, AuthConfig};

/// The registry's response to a pull.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// How long the registry takes.
    pub latency: Duration,
    /// The runtime's error, if it fails.
    pub error: Option<String>,
}

/// Images by normalized name, and the registry's responses.
#[derive(Debug, Default)]
pub(super) struct Images {
    present: BTreeMap<String, wire::Image>,
    pulls: BTreeMap<String, Pull>,
    /// The logins of private images.
    logins: BTreeMap<String, AuthConfig>,
}

impl Images {
    /// Adds an image and returns its ID.
    pub(super) fn add(&mut self, name: &str) -> String {
        let name = normalise(name);
        let digest = digest(&name);
        let repository = repository(&name).to_owned();
        let tagged = !name.contains('@');
        let image = wire::Image {
            id: digest.clone(),
            repo_tags: tagged.then(|| name.clone()).into_iter().collect(),
            repo_digests: vec![format!("{repository}@{digest}")],
            size: 1 << 20,
            ..wire::Image::default()
        };
        self.present.insert(name, image);
        digest
    }

    /// Changes an image as the runtime lists it, under all its names.
    pub(super) fn change(&mut self, name: &str, change: impl Fn(&mut wire::Image)) {
        if let Some(id) = self.find(name).map(|image| image.id.clone()) {
            self.present.values_mut().filter(|image| image.id == id).for_each(change);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(id) = self.find(name).map(|image| image.id.clone()) {
            self.present.retain(|_, image| image.id != id);
        }
    }

    pub(super) fn script(&mut self, name: &str, pull: Pull) {
        self.pulls.insert(normalise(name), pull);
    }

    pub(super) fn require_login(&mut self, name: &str, auth: AuthConfig) {
        self.logins.insert(normalise(name), auth);
    }

    pub(super) fn pull(&self, name: &str, auth: Option<&AuthConfig>) -> Pull {
        let name = normalise(name);
        let known = self.pulls.get(&name).cloned();
        let mut pull = known.unwrap_or(Pull { latency: Duration::ZERO, error: None });
        if self.logins.get(&name).is_some_and(|required| Some(required) != auth) {
            pull.error = Some("pull access denied, repository may require authorization".to_owned());
        }
        pull
    }

    /// An image by full ID (with or without `sha256:`), name or digest.
    pub(super) fn find(&self, name: &str) -> Option<&wire::Image> {
        self.present.get(&normalise(name)).or_else(|| {
            self.present.values().find(|image| {
                image.id == name
                    || image.id.strip_prefix("sha256:") == Some(name)
                    || image.repo_digests.iter().any(|known| *known == normalise(name))
            })
        })
    }

    pub(super) fn list(&self) -> Vec<wire::Image> {
        self.present.values().cloned().collect()
    }
}

/// The name as stored by containerd: `busybox` becomes `docker.io/library/busybox:latest`.
fn normalise(name: &str) -> String {
    let with_host = match name.split_once('/') {
        None => format!("docker.io/library/{name}"),
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => name.to_owned(),
        Some(_) => format!("docker.io/{name}"),
    };
    if repository(&with_host).len() == with_host.len() { format!("{with_host}:latest") } else { with_host }
}

/// The name without tag and digest.
fn repository(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or(name);
    let path = name.rfind('/').map_or(0, |slash| slash + 1);
    name[path..].find(':').map_or(name, |colon| &name[..path + colon])
}

/// A fake digest, reproducible by name.
fn digest(name: &str) -> String {
    if let Some((_, digest)) = name.split_once('@') {
        return digest.to_owned();
    }
    // Four FNV-1a hashes with different seeds: only the format matters.
    let part = |salt: u64| {
        name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    format!("sha256:{:016x}{:016x}{:016x}{:016x}", part(1), part(2), part(3), part(4))
}

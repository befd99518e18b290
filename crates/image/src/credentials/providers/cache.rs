//! The cached responses of one credential provider. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::super::{DockerConfig, ObjectIdentity};
use super::protocol::CacheKeyType;

/// A response is asked for again after this time, however long it is valid.
const MAX_KEPT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whose token a response was given for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AccountKey {
    pub(super) identity: ObjectIdentity,
    /// The annotations that the provider received.
    pub(super) annotations: BTreeMap<String, String>,
    /// The UID of the pod, if the response is for its token only.
    pub(super) pod: Option<String>,
}

/// What a response applies to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Image(String),
    Registry(String),
    Global,
}

#[derive(Debug)]
struct Entry {
    config: DockerConfig,
    expires: Instant,
}

/// The responses that have not expired.
#[derive(Debug, Default)]
pub(super) struct ResponseCache {
    entries: HashMap<(Scope, Option<AccountKey>), Entry>,
}

impl ResponseCache {
    /// The logins for an image and an account, of the most specific response.
    pub(super) fn get(
        &self,
        image: &str,
        account: Option<&AccountKey>,
        now: Instant,
    ) -> Option<&DockerConfig> {
        let scopes = [CacheKeyType::Image, CacheKeyType::Registry, CacheKeyType::Global];
        let keys = scopes.into_iter().map(|key_type| (scope(key_type, image), account.cloned()));
        let mut entries = keys.filter_map(|key| self.entries.get(&key));
        entries.find(|entry| now <= entry.expires).map(|entry| &entry.config)
    }

    /// Keeps the logins in the response to a request for `image` and `account`, unless `duration` is zero.
    pub(super) fn insert(
        &mut self,
        key_type: CacheKeyType,
        image: &str,
        account: Option<AccountKey>,
        config: DockerConfig,
        duration: Duration,
        now: Instant,
    ) {
        self.entries.retain(|_, entry| now <= entry.expires);
        if !duration.is_zero() {
            let expires = now + duration.min(MAX_KEPT);
            self.entries.insert((scope(key_type, image), account), Entry { config, expires });
        }
    }
}

fn scope(key_type: CacheKeyType, image: &str) -> Scope {
    match key_type {
        CacheKeyType::Image => Scope::Image(image.to_owned()),
        CacheKeyType::Registry => Scope::Registry(image.split('/').next().unwrap_or_default().to_owned()),
        CacheKeyType::Global => Scope::Global,
    }
}

//! The Secrets of a pod's `imagePullSecrets`, watched from its first sync until it terminates, so that a later pull needs no request,
//! and its service account. Does not read the credentials in them.

use std::sync::Arc;

use async_trait::async_trait;
use hostlet_image::credentials::{ObjectIdentity, PodAccount, PullSecret, PullSecrets};
use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::{ObjectRef, ObjectSource, ObjectState, Watched};

use super::pull_account::PullAccount;

/// The pull Secrets of one pod. Clones share the watches.
#[derive(Clone, Debug, Default)]
pub(super) struct PodPullSecrets {
    /// In the order of the spec.
    wanted: Vec<ObjectRef>,
    watched: Watched,
    account: Option<PullAccount>,
}

impl PodPullSecrets {
    /// Watches what `pod` names, and nothing else.
    pub(super) fn follow(&mut self, pod: &AdmittedPod, source: &Arc<dyn ObjectSource>) {
        self.account = PullAccount::of(pod, source);
        self.wanted = pull_secret_references(pod).collect();
        self.watched.follow(&self.wanted, |object| source.watch(object));
    }

    /// The names of those that are not available.
    pub(super) fn missing(&self) -> Vec<&str> {
        let known = self.watched.clone().snapshot();
        let is_missing = |secret: &&ObjectRef| !matches!(known.get(*secret), Some(ObjectState::Found(_)));
        self.wanted.iter().filter(is_missing).map(|secret| secret.name.as_str()).collect()
    }
}

/// The Secrets that `pod` names for its image pulls, in the order of its spec.
pub(super) fn pull_secret_references(pod: &AdmittedPod) -> impl Iterator<Item = ObjectRef> {
    let named = pod.spec().image_pull_secrets.iter().flatten();
    // The API permits empty names, which name nothing.
    let named = named.map(|reference| reference.name.as_str()).filter(|name| !name.is_empty());
    named.map(|name| ObjectRef::secret(name, &pod.reference.namespace))
}

#[async_trait]
impl PullSecrets for PodPullSecrets {
    async fn get(&self) -> Vec<PullSecret> {
        let mut watched = self.watched.clone();
        watched.first_answers().await;
        let known = watched.snapshot();
        let secret = |wanted: &ObjectRef| match known.get(wanted)? {
            ObjectState::Found(object) => {
                let (namespace, name, uid) = (&wanted.namespace, &wanted.name, &object.uid);
                let [namespace, name, uid] = [namespace, name, uid].map(String::clone);
                let identity = ObjectIdentity { namespace, name, uid };
                PullSecret::new(identity, &object.secret_type, |key| object.get(key))
            }
            ObjectState::Pending | ObjectState::Failed(_) => None,
        };
        self.wanted.iter().filter_map(secret).collect()
    }

    fn account(&self) -> Option<&dyn PodAccount> {
        self.account.as_ref().map(|account| account as &dyn PodAccount)
    }
}

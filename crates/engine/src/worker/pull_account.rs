//! The service account of a pod, as credential providers see it: read from the API server when a pull needs it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use hostlet_base::PodRef;
use hostlet_image::credentials::{
    AccountDescription, AccountError, AccountToken, ObjectIdentity, PodAccount,
};
use hostlet_pod::AdmittedPod;
use hostlet_pod::objects::{ObjectError, ObjectSource, TokenRequest};

/// The API server's default lifetime of a token, seconds.
const LIFETIME_SECONDS: i64 = 3600;

/// The service account of one pod.
#[derive(Clone)]
pub(super) struct PullAccount {
    name: String,
    pod: PodRef,
    source: Arc<dyn ObjectSource>,
}

impl fmt::Debug for PullAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullAccount").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PullAccount {
    /// The account of `pod`; `None` if it names none.
    pub(super) fn of(pod: &AdmittedPod, source: &Arc<dyn ObjectSource>) -> Option<Self> {
        let name = pod.spec().service_account_name.clone().filter(|name| !name.is_empty())?;
        Some(Self { name, pod: pod.reference.clone(), source: source.clone() })
    }
}

#[async_trait]
impl PodAccount for PullAccount {
    fn pod_uid(&self) -> &str {
        self.pod.uid.as_str()
    }

    async fn describe(&self) -> Result<AccountDescription, AccountError> {
        let (namespace, name) = (self.pod.namespace.to_string(), self.name.clone());
        let found = self.source.service_account(&namespace, &name).await.map_err(unavailable)?;
        let identity = ObjectIdentity { namespace, name, uid: found.uid };
        Ok(AccountDescription { identity, annotations: found.annotations })
    }

    async fn token(&self, account: &ObjectIdentity, audience: &str) -> Result<AccountToken, AccountError> {
        let request = TokenRequest {
            namespace: self.pod.namespace.to_string(),
            service_account: self.name.clone(),
            service_account_uid: Some(account.uid.clone()),
            audiences: vec![audience.to_owned()],
            expiration_seconds: LIFETIME_SECONDS,
            pod_name: self.pod.name.to_string(),
            pod_uid: self.pod.uid.to_string(),
        };
        let token = self.source.request_token(&request).await.map_err(unavailable)?;
        // As tokens in volumes.
        let lifetime = token.expires.duration_since(token.issued) / 5 * 4;
        Ok(AccountToken { value: token.value, renewed_after: lifetime.try_into().unwrap_or_default() })
    }
}

fn unavailable(error: ObjectError) -> AccountError {
    AccountError(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hostlet_base::WallClock;
    use hostlet_pod::objects::{FakeObjects, ServiceAccountInfo};

    #[tokio::test(start_paused = true)]
    async fn account_and_token_are_read_from_the_source() {
        let objects = FakeObjects::new(WallClock::system());
        let source: Arc<dyn ObjectSource> = Arc::new(objects.clone());
        let pod = PodRef::new("ns", "web", "u1");
        let account = PullAccount { name: "builder".to_owned(), pod, source };
        assert_eq!(
            account.describe().await.unwrap_err().to_string(),
            "serviceaccounts \"builder\" not found"
        );
        let annotations: std::collections::BTreeMap<_, _> = [("a".to_owned(), "b".to_owned())].into();
        let info = ServiceAccountInfo { uid: "7".to_owned(), annotations: annotations.clone() };
        objects.set_account("ns", "builder", info);
        let [namespace, name, uid] = ["ns", "builder", "7"].map(str::to_owned);
        let identity = ObjectIdentity { namespace, name, uid };
        let description = account.describe().await.unwrap();
        assert_eq!(description, AccountDescription { identity: identity.clone(), annotations });
        let token = account.token(&identity, "r.io").await.unwrap();
        assert_eq!((token.value.as_str(), token.renewed_after), ("token-1", Duration::from_secs(2880)));
        assert_eq!(account.pod_uid(), "u1");
        objects.fail_tokens(Some(ObjectError::Forbidden("no".to_owned())));
        assert_eq!(account.token(&identity, "r.io").await.unwrap_err().to_string(), "no");
    }
}

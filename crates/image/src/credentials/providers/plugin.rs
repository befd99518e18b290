//! One credential provider: when it is run, and its responses. Concurrent requests for an image share one run, which their
//! callers drive together: it ends with the last of them, and then the process is killed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use hostlet_base::RegistryLocation;
use hostlet_base::settings::{CredentialProvider, TokenAttributes};
use hostlet_host::{ProgramError, run_program};
use parking_lot::Mutex;
use tokio::process::Command;
use tokio::time::Instant;

use super::super::{AccountError, AccountToken, DockerConfig, LoginSource, PodAccount};
use super::cache::{AccountKey, ResponseCache};
use super::metrics::PluginMetrics;
use super::protocol::{ProviderResponse, ResponseError, request};

/// Time limit of a run, as upstream.
const LIMIT: Duration = Duration::from_secs(60);

/// Why a provider yielded no credentials.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error(transparent)]
    Run(#[from] ProgramError),
    #[error(transparent)]
    Response(#[from] ResponseError),
    #[error("cannot read the pod's service account")]
    Account(#[source] AccountError),
    #[error("cannot get a token of the pod's service account")]
    Token(#[source] AccountError),
    /// Other pods of the service account would get it.
    #[error("it returned the service account's token as a password, which needs cacheType: Token")]
    EchoedToken,
}

type Outcome = Result<DockerConfig, Arc<PluginError>>;

/// The runs in progress, by image and account.
type Runs = HashMap<(String, Option<AccountKey>), WeakShared<BoxFuture<'static, Outcome>>>;

/// A credential provider. Clones share its responses.
#[derive(Clone)]
pub(super) struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    settings: CredentialProvider,
    program: PathBuf,
    responses: Mutex<ResponseCache>,
    runs: Mutex<Runs>,
    /// Why it yielded nothing when it was asked last.
    failure: Mutex<Option<String>>,
    metrics: PluginMetrics,
}

impl Plugin {
    /// The provider whose executable is in `bin_dir`.
    pub(super) fn new(settings: CredentialProvider, bin_dir: &Path, metrics: PluginMetrics) -> Self {
        let program = bin_dir.join(&settings.name);
        let (responses, runs, failure) = Default::default();
        Self { inner: Arc::new(Inner { settings, program, responses, runs, failure, metrics }) }
    }

    pub(super) fn name(&self) -> &str {
        &self.inner.settings.name
    }

    /// Why it yielded nothing when it was asked last; `None` if it did.
    pub(super) fn failure(&self) -> Option<String> {
        self.inner.failure.lock().clone()
    }

    /// Sets why it yielded nothing.
    pub(super) fn set_failure(&self, failure: Option<String>) {
        *self.inner.failure.lock() = failure;
    }

    /// Whether it is to be asked about the image with this fully qualified name.
    pub(super) fn matches(&self, image: &str) -> bool {
        let Some(image) = RegistryLocation::parse(image) else { return false };
        self.inner.settings.match_images.iter().any(|location| location.covers(&image))
    }

    /// Its logins for the image with this fully qualified name and a pod with this service account, and their source: cached, or
    /// from a run. Cancel-safe.
    pub(super) async fn provide(
        &self,
        image: &str,
        account: Option<&dyn PodAccount>,
    ) -> Result<(DockerConfig, LoginSource), Arc<PluginError>> {
        let settings = &self.inner.settings;
        let Some((attributes, account)) = settings.token.as_ref().zip(account) else {
            // It may insist on service accounts, which e.g. static pods do not have.
            if settings.token.as_ref().is_some_and(|attributes| attributes.is_required) {
                return Ok((DockerConfig::default(), LoginSource::Node));
            }
            return Ok((self.cached_or_run(image, None).await?, LoginSource::Node));
        };
        let described = account.describe().await.map_err(|error| Arc::new(PluginError::Account(error)))?;
        let source = LoginSource::ServiceAccount(described.identity.clone());
        let Some(annotations) = wanted_annotations(attributes, &described.annotations) else {
            return Ok((DockerConfig::default(), source));
        };
        let pod = attributes.is_cached_by_token.then(|| account.pod_uid().to_owned());
        let key = AccountKey { identity: described.identity, annotations, pod };
        Ok((self.cached_or_run(image, Some((key, attributes, account))).await?, source))
    }

    async fn cached_or_run(
        &self,
        image: &str,
        account: Option<(AccountKey, &TokenAttributes, &dyn PodAccount)>,
    ) -> Outcome {
        let key = account.as_ref().map(|(key, ..)| key);
        if let Some(config) = self.inner.responses.lock().get(image, key, Instant::now()) {
            return Ok(config.clone());
        }
        let account = match account {
            Some((key, attributes, account)) => {
                let token = account.token(&key.identity, &attributes.audience).await;
                Some((key, token.map_err(|error| Arc::new(PluginError::Token(error)))?))
            }
            None => None,
        };
        self.join_or_start(image, account).await
    }

    fn join_or_start(
        &self,
        image: &str,
        account: Option<(AccountKey, AccountToken)>,
    ) -> Shared<BoxFuture<'static, Outcome>> {
        let key = (image.to_owned(), account.as_ref().map(|(key, _)| key.clone()));
        let mut runs = self.inner.runs.lock();
        // A finished run is not joined.
        runs.retain(|_, run| run.upgrade().is_some_and(|run| run.peek().is_none()));
        if let Some(run) = runs.get(&key).and_then(WeakShared::upgrade) {
            return run;
        }
        let (inner, image) = (self.inner.clone(), image.to_owned());
        let run = async move { inner.run(&image, account).await.map_err(Arc::new) }.boxed().shared();
        if let Some(weak) = run.downgrade() {
            runs.insert(key, weak);
        }
        run
    }
}

/// The annotations that a provider gets; `None` if it is not to be asked, because one that it requires is missing.
fn wanted_annotations(
    attributes: &TokenAttributes,
    found: &BTreeMap<String, String>,
) -> Option<BTreeMap<String, String>> {
    if !attributes.required_annotations.iter().all(|key| found.contains_key(key)) {
        return None;
    }
    let is_wanted = |key: &String| {
        attributes.required_annotations.contains(key) || attributes.optional_annotations.contains(key)
    };
    Some(found.iter().filter(|(key, _)| is_wanted(key)).map(|(k, v)| (k.clone(), v.clone())).collect())
}

impl Inner {
    async fn run(
        &self,
        image: &str,
        account: Option<(AccountKey, AccountToken)>,
    ) -> Result<DockerConfig, PluginError> {
        let settings = &self.settings;
        let mut command = Command::new(&self.program);
        // Its environment is hostlet's own, e.g. with a proxy, and these.
        command.args(&settings.args).envs(settings.env.iter().map(|(name, value)| (name, value)));
        let given = account.as_ref().map(|(key, token)| (token.value.as_str(), &key.annotations));
        let input = request(&settings.api_version, image, given);
        let started = Instant::now();
        let output = run_program(command, input, LIMIT).await;
        self.metrics.ran(&settings.name, started.elapsed(), output.is_err());
        let response = ProviderResponse::parse(&output?, &settings.api_version)?;
        let mut duration = response.cache_duration.unwrap_or(settings.default_cache_duration);
        let config = response.config;
        if let Some((key, token)) = &account {
            if key.pod.is_some() {
                // With the next token, the provider is asked again.
                duration = duration.min(token.renewed_after);
            } else if config.logins.values().any(|login| login.password == token.value) {
                return Err(PluginError::EchoedToken);
            }
        }
        let key = account.map(|(key, _)| key);
        let mut responses = self.responses.lock();
        responses.insert(response.cache_key_type, image, key, config.clone(), duration, Instant::now());
        drop(responses);
        Ok(config)
    }
}

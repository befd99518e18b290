//! Volumes of CSI drivers, in a pod or behind a claim: what is asked of the owner of the volume, and the Secrets and tokens that this
//! needs. Where upstream words an error, that is its wording. Pure.

use std::collections::BTreeMap;

use hostlet_base::causes::Group;
use hostlet_csi::{
    AccessMode, Form, KnownDrivers, MissingSecret, Publish, Secrets, VolumeId, ephemeral_handle,
};
use hostlet_pod::migration::migrated_inline;
use hostlet_pod::objects::{
    ClaimState, Object, ObjectError, ObjectRef, ObjectState, Token, TokenRequest, claim_name,
};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, CSIVolumeSource, PersistentVolume, Pod, SecretReference, Volume,
};
use serde::Serialize;

use super::csi_driver::{Driver, Lifecycle, LifecycleError, pod_info};
use super::csi_label::label;
use super::csi_rules::RULES;
use super::kind::Kind;
use crate::error::{VolumeProblem, VolumeStep};
use crate::model::{Context, DesiredVolume, DriverVolume, KindDirectory, Persistent, Provider, TokenKey};

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/csi", provider: Provider::Driver };

/// Where drivers find the pod's tokens.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// The kind of volumes of CSI drivers.
pub(super) struct Csi;

impl Kind for Csi {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.csi.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn references(&self, volume: &Volume, namespace: &str) -> Vec<ObjectRef> {
        let secret = volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref());
        secret.map(|secret| ObjectRef::secret(&secret.name, namespace)).into_iter().collect()
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.csi.as_ref()?;
        Some(DesiredVolume::Driver(Box::new(of_pod(&volume.name, source, context))))
    }

    fn desired_persistent(&self, volume: &Persistent<'_>, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.spec.csi.as_ref()?;
        let label = match label(volume, &source.driver, context) {
            Ok(label) => label,
            Err(error) => return Some(DesiredVolume::Unprocessed(error.to_string())),
        };
        Some(DesiredVolume::Driver(Box::new(of_claim(volume, source, label, context))))
    }

    fn has_devices(&self) -> bool {
        true
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

/// What the volumes of a pod need beside their specs, as far as it is known what they are.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// The names of the drivers.
    pub(crate) drivers: Vec<String>,
    /// The Secrets of PersistentVolumes.
    pub(crate) secrets: Vec<ObjectRef>,
    pub(crate) tokens: BTreeMap<TokenKey, TokenRequest>,
}

/// What the volumes of `pod` need, by what is known of its claims and of the drivers.
pub(crate) fn needs(pod: &Pod, claims: &BTreeMap<String, ClaimState>, known: &KnownDrivers) -> Needs {
    let mut needs = Needs::default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
        let (driver, has_tokens) = if let Some(source) = &volume.csi {
            (source.driver.clone(), true)
        } else {
            let claim = claim_name(name, volume).and_then(|claim| claims.get(&claim));
            let persistent = match claim {
                Some(ClaimState::Bound(persistent)) => Some(PersistentVolume::clone(persistent)),
                Some(ClaimState::Pending | ClaimState::Failed(_)) => None,
                None => migrated_inline(volume, namespace).ok().flatten(),
            };
            let Some(spec) = persistent.and_then(|persistent| persistent.spec) else { continue };
            let Some(source) = &spec.csi else { continue };
            needs.secrets.extend(secrets_of(source));
            (source.driver.clone(), spec.volume_mode.as_deref() != Some("Block"))
        };
        if has_tokens {
            let tokens = Driver::of(&driver, known).tokens(pod);
            needs.tokens.extend(tokens.map(|(audience, token)| (key(&volume.name, audience), token)));
        }
        needs.drivers.push(driver);
    }
    needs
}

fn key(volume: &str, audience: &str) -> TokenKey {
    (volume.to_owned(), audience.to_owned())
}

/// The Secrets of a PersistentVolume.
pub(crate) fn secrets_of(source: &CSIPersistentVolumeSource) -> impl Iterator<Item = ObjectRef> {
    let secrets =
        [&source.node_stage_secret_ref, &source.node_publish_secret_ref, &source.node_expand_secret_ref];
    secrets.into_iter().flatten().map(secret_of)
}

fn secret_of(reference: &SecretReference) -> ObjectRef {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    ObjectRef::secret(&text(&reference.name), &text(&reference.namespace))
}

/// A volume that only lives in the pod.
fn of_pod(name: &str, source: &CSIVolumeSource, context: &Context<'_>) -> DriverVolume {
    let driver = Driver::of(&source.driver, &context.snapshot.drivers);
    let pod = context.uid();
    let id = VolumeId { driver: source.driver.clone(), handle: ephemeral_handle(&pod, name) };
    let read_only = source.read_only.unwrap_or(false);
    let fs_type = source.fs_type.clone().unwrap_or_default();
    let secret = source.node_publish_secret_ref.as_ref();
    let secret = secret.map(|secret| ObjectRef::secret(&secret.name, context.namespace()));
    let request = || {
        driver.check(Lifecycle::Ephemeral).map_err(|why| lifecycle_problem(name, &why))?;
        let secrets = secrets(secret.as_ref(), context);
        let secrets = secrets.map_err(|why| publish_secret_problem(name, secret.as_ref(), &why))?;
        let extra = extra(name, driver, Lifecycle::Ephemeral, context);
        let (pod_attributes, publish_secrets) = extra.map_err(|why| token_problem(name, &why))?.with(secrets);
        Ok(Publish {
            id: id.clone(),
            pod: pod.clone(),
            spec_name: name.to_owned(),
            is_ephemeral: true,
            is_attached: false,
            own_group: own_group(driver, &fs_type, None, read_only, context),
            form: Form::Filesystem { fs_type, options: Vec::new() },
            access_mode: AccessMode::ReadWriteOnce,
            read_only,
            attributes: source.volume_attributes.clone().unwrap_or_default(),
            pod_attributes,
            stage_secrets: Secrets::default(),
            publish_secrets,
            group: context.group().map(i64::from),
            is_republished: driver.is_republished(),
            se_linux_label: None,
            claim: None,
            is_migrated: false,
            expand_secrets: Ok(Secrets::default()),
        })
    };
    DriverVolume {
        request: request(),
        id,
        spec_name: name.to_owned(),
        is_block: false,
        read_only,
        is_republished: driver.is_republished(),
        is_labelled: false,
        is_migrated: false,
    }
}

/// A PersistentVolume.
fn of_claim(
    volume: &Persistent<'_>,
    source: &CSIPersistentVolumeSource,
    label: Option<String>,
    context: &Context<'_>,
) -> DriverVolume {
    let driver = Driver::of(&source.driver, &context.snapshot.drivers);
    let id = VolumeId { driver: source.driver.clone(), handle: source.volume_handle.clone() };
    let fs_type = source.fs_type.clone().unwrap_or_default();
    let request = || {
        let (stage_secrets, publish_secrets) = persistent_secrets(volume, source, context)?;
        let (pod_attributes, publish_secrets) = if volume.is_block {
            // As upstream, without tokens.
            Extra::info(driver, Lifecycle::Persistent, context).with(publish_secrets)
        } else {
            let name = volume.name;
            driver.check(Lifecycle::Persistent).map_err(|why| lifecycle_problem(name, &why))?;
            let extra = extra(volume.volume, driver, Lifecycle::Persistent, context);
            extra.map_err(|why| token_problem(name, &why))?.with(publish_secrets)
        };
        let (form, group, own_group) = if volume.is_block {
            (Form::Block, None, None)
        } else {
            // The annotation with mount options has no effect on volumes of drivers.
            let options = volume.spec.mount_options.clone().unwrap_or_default();
            let own_group = own_group(driver, &fs_type, Some(volume), volume.read_only, context);
            let form = Form::Filesystem { fs_type: fs_type.clone(), options };
            (form, context.group().map(i64::from), own_group)
        };
        Ok(Publish {
            id: id.clone(),
            pod: context.uid(),
            spec_name: volume.name.to_owned(),
            is_ephemeral: false,
            is_attached: driver.is_attached(),
            form,
            access_mode: access_mode(volume),
            read_only: volume.read_only,
            attributes: source.volume_attributes.clone().unwrap_or_default(),
            pod_attributes,
            stage_secrets,
            publish_secrets,
            group,
            own_group,
            is_republished: driver.is_republished(),
            se_linux_label: label.clone(),
            claim: volume.claim(context),
            is_migrated: volume.is_migrated,
            expand_secrets: expand_secrets(source, context),
        })
    };
    DriverVolume {
        request: request(),
        id,
        spec_name: volume.name.to_owned(),
        is_block: volume.is_block,
        read_only: volume.read_only,
        is_republished: driver.is_republished(),
        is_labelled: label.is_some(),
        is_migrated: volume.is_migrated,
    }
}

/// The secrets for its driver when it grows the volume.
fn expand_secrets(
    source: &CSIPersistentVolumeSource,
    context: &Context<'_>,
) -> Result<Secrets, MissingSecret> {
    let secret = source.node_expand_secret_ref.as_ref().map(secret_of);
    secrets(secret.as_ref(), context).map_err(|why| {
        let of = place(secret.as_ref());
        MissingSecret(format!("expander.NodeExpand failed to get NodeExpandSecretRef {of}: {why}"))
    })
}

/// The first access mode, as upstream.
fn access_mode(volume: &Persistent<'_>) -> AccessMode {
    match volume.spec.access_modes.iter().flatten().next().map(String::as_str) {
        Some("ReadOnlyMany") => AccessMode::ReadOnlyMany,
        Some("ReadWriteMany") => AccessMode::ReadWriteMany,
        Some("ReadWriteOncePod") => AccessMode::ReadWriteOncePod,
        Some(_) | None => AccessMode::ReadWriteOnce,
    }
}

fn own_group(
    driver: Driver<'_>,
    fs_type: &str,
    volume: Option<&Persistent<'_>>,
    read_only: bool,
    context: &Context<'_>,
) -> Option<(u32, hostlet_host::GroupChange)> {
    let is_permitted = !read_only && driver.permits_group(fs_type, volume.map(|volume| volume.spec));
    context.group().filter(|_| is_permitted).map(|group| (group, context.group_change()))
}

/// What a driver gets besides a volume's attributes and secrets.
struct Extra {
    attributes: BTreeMap<String, String>,
    secrets: BTreeMap<String, String>,
}

impl Extra {
    /// Facts about the pod, if the driver wants them.
    fn info(driver: Driver<'_>, lifecycle: Lifecycle, context: &Context<'_>) -> Self {
        let info = driver.has_pod_info().then(|| pod_info(context, lifecycle));
        let attributes = info.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        Self { attributes: attributes.collect(), secrets: BTreeMap::new() }
    }

    /// The attributes, and these secrets with those that are added.
    fn with(self, mut secrets: Secrets) -> (BTreeMap<String, String>, Secrets) {
        secrets.0.extend(self.secrets);
        (self.attributes, secrets)
    }
}

/// Facts about the pod and its tokens, as far as the driver wants them. Fails if it wants a token that is not available.
fn extra(
    volume: &str,
    driver: Driver<'_>,
    lifecycle: Lifecycle,
    context: &Context<'_>,
) -> Result<Extra, ObjectError> {
    let mut extra = Extra::info(driver, lifecycle, context);
    let mut tokens = BTreeMap::new();
    for (audience, _) in driver.tokens(context.pod) {
        let missing = || ObjectError::Unavailable("no token was requested yet".to_owned());
        let token = context.snapshot.tokens.get(&key(volume, audience)).ok_or_else(missing)?;
        tokens.insert(audience, TokenStatus::from(token.as_ref().map_err(Clone::clone)?));
    }
    if !tokens.is_empty() {
        let text = serde_json::to_string(&tokens);
        let text = as_go(&text.map_err(|error| ObjectError::Unavailable(error.to_string()))?);
        let to = if driver.has_tokens_in_secrets() { &mut extra.secrets } else { &mut extra.attributes };
        to.insert(TOKENS.to_owned(), text);
    }
    Ok(extra)
}

/// A token as the API's `TokenRequestStatus`, with its order of fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenStatus<'a> {
    token: &'a str,
    expiration_timestamp: String,
}

impl<'a> From<&'a Token> for TokenStatus<'a> {
    fn from(token: &'a Token) -> Self {
        let expiration_timestamp = token.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Self { token: &token.value, expiration_timestamp }
    }
}

/// JSON as Go writes it, which escapes what is special in HTML.
fn as_go(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text
}

/// The secrets of a PersistentVolume: those for staging it, and those for publishing it.
fn persistent_secrets(
    volume: &Persistent<'_>,
    source: &CSIPersistentVolumeSource,
    context: &Context<'_>,
) -> Result<(Secrets, Secrets), VolumeProblem> {
    let name = volume.name;
    let (stage, publish) = (&source.node_stage_secret_ref, &source.node_publish_secret_ref);
    let (stage, publish) = (stage.as_ref().map(secret_of), publish.as_ref().map(secret_of));
    let staged = secrets(stage.as_ref(), context).map_err(|why| {
        let of = place(stage.as_ref());
        if volume.is_block {
            let cause = log(&format!("failed to get NodeStageSecretRef {of}: {why}"));
            return problem(VolumeStep::SetUpDevice, name, cause);
        }
        problem(VolumeStep::MountDevice, name, format!("fetching NodeStageSecretRef {of} failed: {why}"))
    });
    let published = secrets(publish.as_ref(), context).map_err(|why| {
        if !volume.is_block {
            return publish_secret_problem(name, publish.as_ref(), &why);
        }
        let of = place(publish.as_ref());
        let what = "blockMapper.publishVolumeForBlock failed to get NodePublishSecretRef";
        problem(VolumeStep::MapPodDevice, name, log(&format!("{what} {of}: {why}")))
    });
    Ok((staged?, published?))
}

/// A Secret is not available. The wording is upstream's.
#[derive(Debug, thiserror::Error)]
#[error("{}: failed to find the secret {} in the namespace {} with error: {why}", DIRECTORY.plugin, of.name, of.namespace)]
struct SecretError {
    of: ObjectRef,
    why: String,
}

/// The entries of a Secret; none without a reference.
fn secrets(reference: Option<&ObjectRef>, context: &Context<'_>) -> Result<Secrets, SecretError> {
    let Some(reference) = reference else { return Ok(Secrets::default()) };
    let name = &reference.name;
    let why = match context.snapshot.objects.get(reference) {
        Some(ObjectState::Found(secret)) => return Ok(entries(secret)),
        Some(ObjectState::Failed(ObjectError::NotFound(_))) => format!("secrets {name:?} not found"),
        Some(ObjectState::Failed(error)) => error.to_string(),
        Some(ObjectState::Pending) | None => format!("timed out waiting for the secret {name:?}"),
    };
    Err(SecretError { of: reference.clone(), why })
}

fn entries(secret: &Object) -> Secrets {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    Secrets(secret.entries().map(|(name, value)| (name.to_owned(), text(value))).collect())
}

fn place(reference: Option<&ObjectRef>) -> String {
    reference.map(|reference| format!("{}/{}", reference.namespace, reference.name)).unwrap_or_default()
}

fn publish_secret_problem(volume: &str, reference: Option<&ObjectRef>, why: &SecretError) -> VolumeProblem {
    let of = place(reference);
    problem(VolumeStep::SetUp, volume, format!("fetching NodePublishSecretRef {of} failed: {why}"))
}

fn lifecycle_problem(volume: &str, why: &LifecycleError) -> VolumeProblem {
    let cause = log(&format!("mounter.SetupAt failed to check volume lifecycle mode: {why}"));
    problem(VolumeStep::SetUp, volume, cause)
}

fn token_problem(volume: &str, why: &ObjectError) -> VolumeProblem {
    // The misspelling is upstream's.
    let cause = log(&format!("mounter.SetUpAt failed to get service accoount token attributes: {why}"));
    problem(VolumeStep::SetUp, volume, cause)
}

fn problem(step: VolumeStep, volume: &str, cause: String) -> VolumeProblem {
    VolumeProblem::Volume { step, volume: volume.to_owned(), cause }
}

/// A message with the name of upstream's plugin.
fn log(message: &str) -> String {
    format!("{}: {message}", DIRECTORY.plugin)
}

#[cfg(test)]
#[path = "csi_tests.rs"]
mod tests;

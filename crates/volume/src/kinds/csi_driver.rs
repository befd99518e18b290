//! What a CSIDriver object says of its driver's volumes, with the API server's defaults. A driver without one has persistent volumes only,
//! which are attached. Pure.

use hostlet_csi::KnownDrivers;
use hostlet_pod::objects::TokenRequest;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, Pod};
use k8s_openapi::api::storage::v1::CSIDriverSpec;

use crate::model::Context;

/// Default lifetime of a token, in seconds.
const TOKEN_SECONDS: i64 = 3600;

/// How long a volume lives (`volumeLifecycleModes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifecycle {
    Persistent,
    Ephemeral,
}

impl Lifecycle {
    fn name(self) -> &'static str {
        match self {
            Self::Persistent => "Persistent",
            Self::Ephemeral => "Ephemeral",
        }
    }
}

/// Why a driver has no volumes that live as long. The wording is upstream's.
#[derive(Debug, thiserror::Error)]
pub(super) enum LifecycleError {
    /// Nothing says that it has.
    #[error("volume mode {requested:?} not supported by driver {driver} (no CSIDriver object)")]
    NoObject { requested: &'static str, driver: String },
    /// It has others.
    #[error("volume mode {requested:?} not supported by driver {driver} (only supports [{modes}])")]
    NotListed {
        requested: &'static str,
        driver: String,
        /// Those that it has.
        modes: String,
    },
}

/// A driver.
#[derive(Clone, Copy)]
pub(super) struct Driver<'a> {
    name: &'a str,
    spec: Option<&'a CSIDriverSpec>,
}

impl<'a> Driver<'a> {
    pub(super) fn of(name: &'a str, known: &'a KnownDrivers) -> Self {
        Self { name, spec: known.specs.get(name).map(|spec| &**spec) }
    }

    /// Whether a controller attaches its volumes.
    pub(super) fn is_attached(self) -> bool {
        self.spec.and_then(|spec| spec.attach_required).unwrap_or(true)
    }

    /// Checks that it has volumes that live as long (upstream `supportsVolumeLifecycleMode`).
    pub(super) fn check(self, lifecycle: Lifecycle) -> Result<(), LifecycleError> {
        let (driver, requested) = (|| self.name.to_owned(), lifecycle.name());
        let Some(spec) = self.spec else {
            return match lifecycle {
                Lifecycle::Persistent => Ok(()),
                Lifecycle::Ephemeral => Err(LifecycleError::NoObject { requested, driver: driver() }),
            };
        };
        let default = [Lifecycle::Persistent.name().to_owned()];
        let modes = spec.volume_lifecycle_modes.as_deref().filter(|modes| !modes.is_empty());
        let modes = modes.unwrap_or(&default);
        if modes.iter().any(|mode| mode == requested) {
            return Ok(());
        }
        let modes: Vec<String> = modes.iter().map(|mode| format!("{mode:?}")).collect();
        Err(LifecycleError::NotListed { requested, driver: driver(), modes: modes.join(" ") })
    }

    /// Whether hostlet gives a volume's files to the pod's group if the driver does not (upstream `supportsFSGroup`). `volume` is the
    /// PersistentVolume; `None` for a volume that only lives in the pod.
    pub(super) fn permits_group(self, fs_type: &str, volume: Option<&PersistentVolumeSpec>) -> bool {
        match self.spec.and_then(|spec| spec.fs_group_policy.as_deref()) {
            Some("None") => false,
            Some("File") => true,
            // `ReadWriteOnceWithFSType`.
            Some(_) | None => {
                let is_single = |mode: &String| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
                let modes = volume.map(|volume| volume.access_modes.iter().flatten());
                !fs_type.is_empty() && modes.is_none_or(|mut modes| modes.any(is_single))
            }
        }
    }

    /// Whether its volumes are published again from time to time.
    pub(super) fn is_republished(self) -> bool {
        self.spec.and_then(|spec| spec.requires_republish).unwrap_or(false)
    }

    /// Whether its volumes can be mounted with an SELinux label.
    pub(super) fn has_labels(self) -> bool {
        self.spec.and_then(|spec| spec.se_linux_mount).unwrap_or(false)
    }

    /// Whether it is told which pod a volume is for.
    pub(super) fn has_pod_info(self) -> bool {
        self.spec.and_then(|spec| spec.pod_info_on_mount).unwrap_or(false)
    }

    /// Whether it gets tokens with its secrets, not with its attributes.
    pub(super) fn has_tokens_in_secrets(self) -> bool {
        self.spec.and_then(|spec| spec.service_account_token_in_secrets).unwrap_or(false)
    }

    /// The tokens of the pod that it gets, by audience; empty for the API server.
    pub(super) fn tokens(self, pod: &Pod) -> impl Iterator<Item = (&'a str, TokenRequest)> {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let namespace = text(&pod.metadata.namespace);
        let (pod_name, pod_uid) = (text(&pod.metadata.name), text(&pod.metadata.uid));
        let account = service_account(pod).to_owned();
        let requests = self.spec.into_iter().flat_map(|spec| spec.token_requests.iter().flatten());
        requests.map(move |token| {
            let audience = Some(token.audience.clone()).filter(|audience| !audience.is_empty());
            let request = TokenRequest {
                namespace: namespace.clone(),
                service_account: account.clone(),
                service_account_uid: None,
                audiences: audience.into_iter().collect(),
                expiration_seconds: token.expiration_seconds.unwrap_or(TOKEN_SECONDS),
                pod_name: pod_name.clone(),
                pod_uid: pod_uid.clone(),
            };
            (token.audience.as_str(), request)
        })
    }
}

/// The facts about the pod that drivers get (upstream `getPodInfoAttrs`).
pub(super) fn pod_info(context: &Context<'_>, lifecycle: Lifecycle) -> [(&'static str, String); 5] {
    let meta = &context.pod.metadata;
    [
        ("csi.storage.k8s.io/pod.name", meta.name.clone().unwrap_or_default()),
        ("csi.storage.k8s.io/pod.namespace", context.namespace().to_owned()),
        ("csi.storage.k8s.io/pod.uid", meta.uid.clone().unwrap_or_default()),
        ("csi.storage.k8s.io/serviceAccount.name", service_account(context.pod).to_owned()),
        ("csi.storage.k8s.io/ephemeral", (lifecycle == Lifecycle::Ephemeral).to_string()),
    ]
}

fn service_account(pod: &Pod) -> &str {
    let name = pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    name.unwrap_or_default()
}

//! Reads claims and their PersistentVolumes, each time anew, as the Node authorizer permits no watch, and publishes what became of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hostlet_base::{PodEvent, WallClock};
use hostlet_csi::{
    ClaimOfPod, ClaimUpdateError, Expansions, GrowError, Growth, Look, Moment, NodeSize, Protocol,
};
use hostlet_pod::PodEvents;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use super::rules::{Plan, bytes, plan, storage};
use super::status;
use crate::api::events::{EventRecord, EventRecorder};
use crate::api::{TypedApi, Wire};
use crate::node::{RequestError, within};

/// Timeout of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

const SUCCESS: &str = "FileSystemResizeSuccessful";
const READ_ONLY: &str = "FileSystemResizeFailed";
const FAILED: &str = "VolumeResizeFailed";

/// Dependencies of [`ApiExpansions`].
pub struct ExpansionDeps {
    /// Reads claims and PersistentVolumes, and patches claims.
    pub client: Client,
    /// The name of this node.
    pub node_name: String,
    /// Recorder of pods' events.
    pub pod_events: PodEvents,
    /// Recorder of claims' events.
    pub recorder: EventRecorder,
    /// The clock of conditions.
    pub clock: WallClock,
}

/// The claims of a cluster.
pub struct ApiExpansions {
    deps: ExpansionDeps,
    volumes: TypedApi<PersistentVolume>,
}

impl ApiExpansions {
    /// Reads with `deps`.
    pub fn new(deps: ExpansionDeps) -> Self {
        Self { volumes: TypedApi::all(deps.client.clone()), deps }
    }

    fn claims(&self, of: &ClaimOfPod) -> TypedApi<PersistentVolumeClaim> {
        TypedApi::namespaced(self.deps.client.clone(), &of.pod.namespace)
    }

    async fn patch(&self, of: &ClaimOfPod, patch: Value) -> Result<PersistentVolumeClaim, ClaimUpdateError> {
        let (claims, parameters, patch) = (self.claims(of), PatchParams::default(), Patch::Strategic(patch));
        let patched = within(REQUEST_TIMEOUT, claims.patch_status(&of.name, &parameters, &patch)).await;
        let Wire(claim) = patched.map_err(|error| {
            let text = format!("patchPVCStatus failed to patch PVC {:?}: {}", of.name, error.text());
            ClaimUpdateError(text)
        })?;
        Ok(claim)
    }

    /// Records an event of the pod and of the claim.
    fn record(&self, of: &ClaimOfPod, claim: &PersistentVolumeClaim, event: PodEvent) {
        (self.deps.pod_events)(&of.pod, None, &event);
        self.deps.recorder.record(EventRecord {
            object: reference(claim),
            kind: event.kind,
            reason: event.reason.into_owned(),
            message: event.message,
            annotations: event.annotations,
        });
    }

    async fn publish_failure(
        &self,
        of: &ClaimOfPod,
        growth: &Growth,
        error: &GrowError,
    ) -> Result<(), ClaimUpdateError> {
        let gives_up = match growth.protocol {
            Protocol::Recovery { gives_up } => gives_up,
            Protocol::Shared => false,
            Protocol::Legacy => return Ok(()),
        };
        let is_infeasible = match error {
            GrowError::Infeasible(_) => true,
            GrowError::Secrets(_) | GrowError::InUse(_) | GrowError::Call(_) | GrowError::Host(_) => gives_up,
        };
        let now = self.deps.clock.now();
        match status::failed(&growth.claim, is_infeasible, &error.to_string(), now) {
            Some(patch) => self.patch(of, patch).await.map(drop),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Expansions for ApiExpansions {
    async fn look(&self, of: &ClaimOfPod, at: Moment, size: NodeSize) -> Result<Look, ClaimUpdateError> {
        let name = &of.volume;
        let failed = |what: &str, error: RequestError| {
            ClaimUpdateError(format!("mountVolume.NodeExpandVolume get {what} failed : {}", error.text()))
        };
        let claims = self.claims(of);
        let claim = within(REQUEST_TIMEOUT, claims.get(&of.name)).await;
        let Wire(claim) = claim.map_err(|error| failed("PVC", error))?;
        let object = within(REQUEST_TIMEOUT, self.volumes.get(name)).await;
        let Wire(object) = object.map_err(|error| failed("PV", error))?;
        let spec = object.spec.unwrap_or_default();
        // Another claim of the same name says nothing of this volume.
        let owner = spec.claim_ref.as_ref().and_then(|owner| owner.uid.as_ref());
        if owner != claim.metadata.uid.as_ref() {
            return Ok(Look::Unchanged(None));
        }
        let claim = Arc::new(claim);
        match plan(claim.clone(), storage(spec.capacity.as_ref()), of.read_only, at, size) {
            Plan::Nothing(size) => Ok(Look::Unchanged(size)),
            Plan::ReadOnly => {
                let text = format!(
                    "MountVolume.NodeExpandVolume failed for volume {name:?} requested read-only file system"
                );
                self.record(of, &claim, PodEvent::warning(READ_ONLY, text));
                Ok(Look::Unchanged(None))
            }
            Plan::Grow(mut growth) => {
                if let Protocol::Recovery { .. } = growth.protocol {
                    growth.claim = Arc::new(self.patch(of, status::in_progress(&claim)).await?);
                }
                Ok(Look::Grow(growth))
            }
        }
    }

    async fn grown(
        &self,
        of: &ClaimOfPod,
        at: Moment,
        growth: &Growth,
        result: &Result<(), GrowError>,
    ) -> Result<(), ClaimUpdateError> {
        let name = &of.volume;
        match result {
            Ok(()) => {
                let node = &self.deps.node_name;
                let text = format!("MountVolume.NodeExpandVolume succeeded for volume {name:?} {node}");
                self.record(of, &growth.claim, PodEvent::normal(SUCCESS, text));
                if has_size(growth) {
                    return Ok(());
                }
                self.patch(of, status::finished(&growth.claim, &growth.quantity)).await.map(drop)
            }
            Err(error) => {
                let is_in_use = matches!(error, GrowError::InUse(_));
                // What keeps a pod from starting is an event of its volumes.
                if at == Moment::InUse && !is_in_use {
                    let text =
                        format!("NodeExpandVolume.NodeExpandVolume failed for volume {name:?} : {error}");
                    (self.deps.pod_events)(&of.pod, None, &PodEvent::warning(FAILED, text));
                }
                self.publish_failure(of, growth, error).await
            }
        }
    }
}

/// Whether the claim says so already, by another node.
fn has_size(growth: &Growth) -> bool {
    let status = growth.claim.status.as_ref();
    let claimed = storage(status.and_then(|status| status.capacity.as_ref())).and_then(bytes);
    match growth.protocol {
        Protocol::Shared => true,
        Protocol::Legacy => claimed.is_some_and(|claimed| claimed >= growth.size),
        Protocol::Recovery { .. } => false,
    }
}

fn reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    let meta = &claim.metadata;
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        ..ObjectReference::default()
    }
}

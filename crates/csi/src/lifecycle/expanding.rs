//! Grows a volume that its claim has a larger size for: before a pod uses it, and while pods use it. Each attempt reads the claim anew.

use std::path::Path;

use hostlet_base::error_chain;
use tokio::time::timeout;
use tonic::Code;

use super::node_size::soon;
use super::plan::{Due, Key};
use super::worker::{Interrupted, VolumeWorker};
use crate::{
    CallError, Capability, ExpandCall, GrowError, LOOK_TIMEOUT, Look, Moment, NodeCapabilities, NodeService,
    NodeSize, Publish, VolumePhase,
};

/// Why a volume did not grow.
enum Failure {
    /// A job is processed first.
    Interrupted,
    /// The API server says nothing, or did not take the result.
    Claim(String),
    /// It did not grow.
    Failed(String),
}

impl From<Interrupted> for Failure {
    fn from(Interrupted: Interrupted) -> Self {
        Self::Interrupted
    }
}

/// Why a volume may not be used yet.
pub(super) enum NotYet {
    /// A job is processed first.
    Interrupted,
    /// It is tried again.
    Failed(String),
}

impl VolumeWorker {
    /// Grows a volume that is published for a pod and not used by it yet, if it is to grow.
    pub(super) async fn expand_before_use(
        &mut self,
        desired: &Publish,
        service: &dyn NodeService,
        capabilities: NodeCapabilities,
        target: &Path,
    ) -> Result<(), NotYet> {
        match self.grow(desired, service, capabilities, target, Moment::Mounting).await {
            Ok(next) => {
                self.expanding.due = next;
                Ok(())
            }
            Err(Failure::Interrupted) => Err(NotYet::Interrupted),
            // A pod does not wait for the API server.
            Err(Failure::Claim(text)) => {
                tracing::warn!(volume = %self.record.id, "{text}; the pod uses the volume meanwhile");
                self.try_again();
                Ok(())
            }
            Err(Failure::Failed(text)) => Err(NotYet::Failed(text)),
        }
    }

    /// Looks whether the volume of a pod that uses it is to grow.
    pub(super) async fn expand(&mut self, key: &Key) {
        let Some(desired) = self.desired.get(key).map(|desired| desired.publish.clone()) else { return };
        let (Ok(service), Some(target)) = (self.service(), self.target(key)) else {
            self.expanding.due = Due::OnChange;
            return;
        };
        let grown = match service.capabilities().await {
            Ok(capabilities) => self.grow(&desired, &*service, capabilities, &target, Moment::InUse).await,
            Err(error) => Err(Failure::Claim(error_chain(&error))),
        };
        match grown {
            Ok(next) => self.expanding.due = next,
            // It stays due.
            Err(Failure::Interrupted) => {}
            Err(Failure::Claim(text)) => {
                tracing::debug!(volume = %self.record.id, "{text}");
                self.try_again();
            }
            Err(Failure::Failed(text)) => {
                let text = format!(
                    "NodeExpandVolume.NodeExpandVolume failed for volume {:?} : {text}",
                    desired.spec_name
                );
                tracing::warn!(volume = %self.record.id, "{text}");
                self.show_failure(Some(text));
                self.try_again();
            }
        }
    }

    fn try_again(&mut self) {
        let next = self.later(self.expanding.backoff);
        self.expanding.backoff = Some(next);
        self.expanding.due = Due::At(next.updated + next.delay);
    }

    /// Shows why the volume does not grow; `None` ends what was shown.
    fn show_failure(&mut self, error: Option<String>) {
        let before = std::mem::replace(&mut self.expanding.error, error.clone());
        if error.is_some() || before == self.last_error {
            self.last_error = error;
        }
    }

    /// Grows the volume if its claim says so. Returns when to look again.
    async fn grow(
        &mut self,
        desired: &Publish,
        service: &dyn NodeService,
        capabilities: NodeCapabilities,
        target: &Path,
        at: Moment,
    ) -> Result<Due, Failure> {
        let (Some(expansions), Some(claim)) = (self.shared.expansions.clone(), &desired.claim) else {
            return Ok(Due::Never);
        };
        if !capabilities.expand {
            // Another instance of the driver may.
            return Ok(Due::OnChange);
        }
        let look = expansions.look(claim, at, self.expanding.size);
        let answer = match at {
            Moment::Mounting => self.unless_released(timeout(LOOK_TIMEOUT, look)).await?,
            Moment::InUse => Ok(self.unless_asked(look).await?),
        };
        let growth = match answer {
            Ok(Ok(Look::Unchanged(size))) => {
                self.expanding.size.known = size.or(self.expanding.size.known);
                return Ok(self.settled());
            }
            Ok(Ok(Look::Grow(growth))) => growth,
            Ok(Err(error)) => return Err(Failure::Claim(error.to_string())),
            Err(_elapsed) => {
                return Err(Failure::Claim("the API server does not tell the size of the claim".to_owned()));
            }
        };
        self.enter(VolumePhase::Expanding);
        let result = match &desired.expand_secrets {
            Ok(secrets) => {
                let call = ExpandCall {
                    handle: self.record.id.handle.clone(),
                    path: target.to_owned(),
                    staging: capabilities.stage.then(|| self.staging()),
                    size: u64::try_from(growth.size).unwrap_or_default(),
                    capability: Capability {
                        form: desired.form.clone(),
                        access_mode: desired.access_mode,
                        group: None,
                    },
                    secrets: secrets.clone(),
                    is_migrated: desired.is_migrated,
                };
                service.expand(&call).await.map(drop).map_err(grow_error)
            }
            Err(why) => Err(why.clone().into()),
        };
        let published = expansions.grown(claim, at, &growth, &result).await;
        match result {
            Ok(()) => {
                published.map_err(|error| Failure::Claim(error.to_string()))?;
                self.expanding.size = NodeSize { known: Some(growth.size), has_failed: false };
                Ok(self.settled())
            }
            Err(error) => {
                self.expanding.size.has_failed = true;
                let text = error.to_string();
                match error {
                    // As upstream, pods may use it as it is.
                    GrowError::InUse(_) => {
                        tracing::warn!(volume = %self.record.id, "{text}");
                        self.show_failure(Some(text));
                        Ok(Due::Never)
                    }
                    GrowError::Secrets(_)
                    | GrowError::Infeasible(_)
                    | GrowError::Call(_)
                    | GrowError::Host(_) => Err(Failure::Failed(text)),
                }
            }
        }
    }

    /// The volume has its size for now. Returns when to look again.
    fn settled(&mut self) -> Due {
        self.expanding.backoff = None;
        self.show_failure(None);
        soon(rand::random())
    }
}

/// What a driver's answer means (upstream `inUseError`, `isInfeasibleError`).
fn grow_error(error: CallError) -> GrowError {
    match error.code {
        Code::FailedPrecondition => GrowError::InUse(error),
        Code::InvalidArgument | Code::OutOfRange | Code::NotFound => GrowError::Infeasible(error),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => GrowError::Call(error),
    }
}

//! ConfigMaps, Secrets, claims of volumes, service account tokens, trust bundles, certificates, Services and RuntimeClasses as pods use
//! them: the trait [`ObjectSource`], the source of standalone hosts, handles to what is known, and a fake. Knows no pods and no API
//! server.

mod certificates;
mod claims;
#[cfg(any(test, feature = "fakes"))]
mod fake;
mod object;
mod references;
mod runtime_classes;
pub mod services;
mod source;
mod standalone;
mod trust_bundles;
mod watched;

pub use certificates::{CertificateError, CertificateRef, CertificateState, Credential};
pub use claims::{
    ClaimError, ClaimRef, ClaimState, GROUP, MIGRATED_TO, MOUNT_OPTIONS, claim_name, reduced_volume,
};
#[cfg(any(test, feature = "fakes"))]
pub use fake::FakeObjects;
pub use object::{Object, ObjectError, ObjectKind, ObjectRef, ObjectState};
pub use references::{ObjectReferences, VolumeNeeds};
pub use runtime_classes::{KnownClasses, RuntimeClassError, RuntimeClasses};
pub use source::{ObjectSource, ServiceAccountInfo, Token, TokenRequest};
pub use standalone::{CsiDriverSpecs, FileObject, Standalone};
pub use trust_bundles::{TrustAnchors, TrustBundleRef, TrustBundleState};
pub use watched::{ObjectStates, Watched};

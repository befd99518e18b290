//! The objects of a host without an API server: those that manifests define. Claims are bound to volumes by `volumeName` or
//! `claimRef`. Reads no files. There are no tokens, trust bundles and certificates.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use async_trait::async_trait;
use hostlet_base::watching::publish;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::CSIDriverSpec;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    CertificateError, CertificateRef, CertificateState, ClaimError, ClaimRef, ClaimState, Object,
    ObjectError, ObjectRef, ObjectSource, ObjectState, ServiceAccountInfo, Token, TokenRequest,
    TrustBundleRef, TrustBundleState, reduced_volume,
};

/// An object that a file defines. `Display` identifies it.
#[derive(Clone, Debug, PartialEq)]
pub enum FileObject {
    /// A ConfigMap or a Secret.
    Data(ObjectRef, Arc<Object>),
    /// A PersistentVolume, without what a mount does not need.
    Volume(Arc<PersistentVolume>),
    /// A PersistentVolumeClaim, with the volume that it names.
    Claim(ClaimRef, Option<String>),
    /// A CSIDriver object: the driver's name, and its spec with defaults.
    CsiDriver(String, Arc<CSIDriverSpec>),
}

/// The specs of all CSIDriver objects of files, by the driver's name.
pub type CsiDriverSpecs = BTreeMap<Box<str>, Arc<CSIDriverSpec>>;

impl FileObject {
    /// A PersistentVolume.
    pub fn volume(volume: PersistentVolume) -> Self {
        Self::Volume(Arc::new(reduced_volume(volume)))
    }
}

impl fmt::Display for FileObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(object, _) => write!(f, "{} {}/{}", object.kind, object.namespace, object.name),
            Self::Volume(volume) => {
                write!(f, "persistentvolume {}", volume.metadata.name.as_deref().unwrap_or_default())
            }
            Self::Claim(claim, _) => write!(f, "persistentvolumeclaim {}/{}", claim.namespace, claim.name),
            Self::CsiDriver(name, _) => write!(f, "csidriver {name}"),
        }
    }
}

/// The source of objects from files. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Standalone(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// `None` before all files were read once: a missing object may still be found.
    files: Option<Files>,
    objects: HashMap<ObjectRef, watch::Sender<ObjectState>>,
    claims: HashMap<ClaimRef, watch::Sender<ClaimState>>,
    csi_drivers: watch::Sender<Option<CsiDriverSpecs>>,
}

/// The objects of all files.
#[derive(Debug, Default)]
struct Files {
    data: BTreeMap<ObjectRef, Arc<Object>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
    claims: BTreeMap<ClaimRef, Option<String>>,
}

impl Standalone {
    /// Replaces all objects by the contents of all files. Receivers see changes at once.
    pub fn set(&self, objects: impl IntoIterator<Item = FileObject>) {
        let (mut files, mut csi_drivers) = (Files::default(), CsiDriverSpecs::new());
        for object in objects {
            match object {
                FileObject::Data(reference, data) => drop(files.data.insert(reference, data)),
                FileObject::Volume(volume) => {
                    let name = volume.metadata.name.clone().unwrap_or_default();
                    files.volumes.insert(name, volume);
                }
                FileObject::Claim(claim, volume) => drop(files.claims.insert(claim, volume)),
                FileObject::CsiDriver(name, spec) => drop(csi_drivers.insert(name.into(), spec)),
            }
        }
        let mut inner = self.0.lock();
        inner.objects.retain(|_, known| known.receiver_count() > 0);
        inner.claims.retain(|_, known| known.receiver_count() > 0);
        for (object, known) in &inner.objects {
            publish(known, files.object(object));
        }
        for (claim, known) in &inner.claims {
            publish(known, files.claim(claim));
        }
        publish(&inner.csi_drivers, Some(csi_drivers));
        inner.files = Some(files);
    }

    /// The CSIDriver objects; `None` before all files were read once.
    pub fn csi_drivers(&self) -> watch::Receiver<Option<CsiDriverSpecs>> {
        self.0.lock().csi_drivers.subscribe()
    }
}

impl Files {
    fn object(&self, object: &ObjectRef) -> ObjectState {
        match self.data.get(object) {
            Some(data) => ObjectState::Found(data.clone()),
            None => ObjectState::Failed(ObjectError::not_found(object)),
        }
    }

    fn claim(&self, claim: &ClaimRef) -> ClaimState {
        match self.bound(claim) {
            Ok(volume) => ClaimState::Bound(volume.clone()),
            Err(error) => ClaimState::Failed(error),
        }
    }

    /// The volume of a claim: the one that it names, or else the first by name that names it. A volume that names a claim is for
    /// that one, else for the first claim by namespace and name that names it.
    fn bound(&self, claim: &ClaimRef) -> Result<&Arc<PersistentVolume>, ClaimError> {
        let Some(named) = self.claims.get(claim) else {
            let name = format!("{}/{}", claim.namespace, claim.name);
            return Err(ClaimError::Undefined { kind: "PersistentVolumeClaim", name });
        };
        let Some(name) = named else {
            let fits = |volume: &&Arc<PersistentVolume>| claim_of(volume).as_ref() == Some(claim);
            return self.volumes.values().find(fits).ok_or(ClaimError::NotBound);
        };
        let Some(volume) = self.volumes.get(name) else {
            return Err(ClaimError::Undefined { kind: "PersistentVolume", name: name.clone() });
        };
        let first = || self.claims.iter().find(|(_, named)| named.as_ref() == Some(name));
        let owner = claim_of(volume).or_else(|| first().map(|(claim, _)| claim.clone()));
        match owner {
            Some(owner) if owner != *claim => {
                let claim = format!("{}/{}", owner.namespace, owner.name);
                Err(ClaimError::ClaimedBy { name: name.clone(), claim })
            }
            Some(_) | None => Ok(volume),
        }
    }
}

/// The claim that a volume names.
fn claim_of(volume: &PersistentVolume) -> Option<ClaimRef> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let namespace = reference.namespace.clone().filter(|namespace| !namespace.is_empty());
    Some(ClaimRef {
        namespace: namespace.unwrap_or_else(|| "default".to_owned()),
        name: reference.name.clone().unwrap_or_default(),
        owner: None,
    })
}

/// The receiver of a state that changes with the files.
fn subscribe<K: Eq + Hash + Clone, S: Default>(
    known: &mut HashMap<K, watch::Sender<S>>,
    key: &K,
    state: Option<S>,
) -> watch::Receiver<S> {
    known.entry(key.clone()).or_insert_with(|| watch::Sender::new(state.unwrap_or_default())).subscribe()
}

fn no_api_server() -> ObjectError {
    ObjectError::Unavailable("there is no API server".to_owned())
}

#[async_trait]
impl ObjectSource for Standalone {
    fn watch(&self, object: &ObjectRef) -> watch::Receiver<ObjectState> {
        let inner = &mut *self.0.lock();
        let state = inner.files.as_ref().map(|files| files.object(object));
        subscribe(&mut inner.objects, object, state)
    }

    fn watch_claim(&self, claim: &ClaimRef) -> watch::Receiver<ClaimState> {
        let inner = &mut *self.0.lock();
        let state = inner.files.as_ref().map(|files| files.claim(claim));
        subscribe(&mut inner.claims, claim, state)
    }

    fn watch_trust_bundles(&self, _: &TrustBundleRef) -> watch::Receiver<TrustBundleState> {
        watch::channel(TrustBundleState::Failed(no_api_server())).1
    }

    fn watch_certificate(&self, _: &CertificateRef) -> watch::Receiver<CertificateState> {
        let error = CertificateError::Unavailable(no_api_server());
        watch::channel(CertificateState::Failed(error)).1
    }

    async fn service_account(&self, _: &str, _: &str) -> Result<ServiceAccountInfo, ObjectError> {
        Err(no_api_server())
    }

    async fn request_token(&self, _: &TokenRequest) -> Result<Token, ObjectError> {
        Err(no_api_server())
    }

    fn stored_token(&self, _: &TokenRequest) -> Option<Token> {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn config_map(name: &str, value: &str) -> FileObject {
        let text = [("k".to_owned(), value.to_owned())].into();
        let data = Object { text, ..Object::default() };
        FileObject::Data(ObjectRef::config_map(name, "default"), Arc::new(data))
    }

    fn volume(name: &str, claim: Value) -> FileObject {
        let spec = json!({"local": {"path": "/mnt"}, "claimRef": claim});
        let volume = json!({"metadata": {"name": name}, "spec": spec});
        FileObject::Volume(Arc::new(serde_json::from_value(volume).unwrap()))
    }

    fn reference(name: &str) -> ClaimRef {
        ClaimRef { namespace: "default".to_owned(), name: name.to_owned(), owner: None }
    }

    fn claim(name: &str, volume: Option<&str>) -> FileObject {
        FileObject::Claim(reference(name), volume.map(str::to_owned))
    }

    /// The volume of a claim, or why it has none.
    fn bound(objects: Vec<FileObject>, name: &str) -> Result<String, String> {
        let source = Standalone::default();
        source.set(objects);
        match &*source.watch_claim(&reference(name)).borrow() {
            ClaimState::Bound(volume) => Ok(volume.metadata.name.clone().unwrap()),
            ClaimState::Failed(error) => Err(error.to_string()),
            ClaimState::Pending => Err("pending".to_owned()),
        }
    }

    #[test]
    fn objects_are_unknown_until_the_files_are_read_and_then_follow_them() {
        let source = Standalone::default();
        let object = ObjectRef::config_map("c", "default");
        let mut known = source.watch(&object);
        assert_eq!(*known.borrow_and_update(), ObjectState::Pending);
        source.set([]);
        assert_eq!(*known.borrow_and_update(), ObjectState::Failed(ObjectError::not_found(&object)));
        for value in ["one", "two"] {
            source.set([config_map("c", value)]);
            let state = known.borrow_and_update().clone();
            let ObjectState::Found(data) = state else { panic!("{state:?}") };
            assert_eq!(data.get("k"), Some(value.as_bytes()));
            source.set([config_map("c", value), config_map("other", "x")]);
            assert!(!known.has_changed().unwrap(), "only changes wake");
        }
        drop(known);
        source.set([]);
        assert!(source.0.lock().objects.is_empty());
    }

    #[test]
    fn claims_are_bound_by_either_side() {
        let of = |name: &str| json!({"name": name});
        assert_eq!(bound(vec![claim("a", Some("v")), volume("v", Value::Null)], "a"), Ok("v".into()));
        let two = vec![claim("a", None), volume("v2", of("a")), volume("v1", of("a")), volume("v0", of("b"))];
        assert_eq!(bound(two, "a"), Ok("v1".into()));
        assert_eq!(bound(vec![claim("a", Some("v")), volume("v", of("a"))], "a"), Ok("v".into()));
        let error = |objects, name| bound(objects, name).unwrap_err();
        let absent = "no manifest defines the PersistentVolumeClaim default/a";
        assert_eq!(error(vec![], "a"), absent);
        assert_eq!(error(vec![claim("a", None), volume("v", Value::Null)], "a"), "PVC is not bound");
        let absent = "no manifest defines the PersistentVolume v";
        assert_eq!(error(vec![claim("a", Some("v"))], "a"), absent);
        let taken = "found PV object v but it belongs to the claim default/b";
        assert_eq!(error(vec![claim("a", Some("v")), volume("v", of("b"))], "a"), taken);
        let both = || vec![claim("b", Some("v")), claim("c", Some("v")), volume("v", Value::Null)];
        assert_eq!(bound(both(), "b"), Ok("v".into()));
        assert_eq!(error(both(), "c"), taken);
    }

    #[test]
    fn drivers_follow_their_files() {
        let source = Standalone::default();
        let mut drivers = source.csi_drivers();
        assert_eq!(*drivers.borrow_and_update(), None);
        let driver = || FileObject::CsiDriver("d".to_owned(), Arc::default());
        source.set([driver()]);
        assert!(drivers.borrow_and_update().as_ref().unwrap().contains_key("d"));
        source.set([driver(), claim("a", None)]);
        assert!(!drivers.has_changed().unwrap(), "only changes wake");
        source.set([]);
        assert!(drivers.borrow_and_update().as_ref().unwrap().is_empty());
    }

    #[test]
    fn a_claim_follows_its_files() {
        let source = Standalone::default();
        let mut known = source.watch_claim(&reference("a"));
        source.set([claim("a", None)]);
        assert!(matches!(&*known.borrow_and_update(), ClaimState::Failed(ClaimError::NotBound)));
        source.set([claim("a", None), volume("v", json!({"name": "a"}))]);
        assert!(matches!(&*known.borrow_and_update(), ClaimState::Bound(_)));
    }
}

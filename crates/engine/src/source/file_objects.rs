//! ConfigMaps, Secrets, PersistentVolumes, claims and CSIDriver objects in manifests, for a host without an API server: validated as by the API server.
//! No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::context::{FileAccess, ManifestContext};
use super::csi_driver::csi_driver;
use super::decode::{Decoded, DecodedObject, Mistakes};
use hostlet_base::names;
use hostlet_pod::objects::{ClaimRef, FileObject, Object, ObjectRef};
use hostlet_pod::validation::{FieldError, FieldPath};

/// Maximum bytes of all data of a ConfigMap or Secret.
const MAX_DATA: usize = 1 << 20;

/// The object of a document, or its mistakes.
pub(super) fn file_object(
    decoded: DecodedObject,
    context: &ManifestContext<'_>,
) -> Result<FileObject, Mistakes> {
    match decoded {
        DecodedObject::ConfigMap(decoded) => checked(decoded, config_map),
        DecodedObject::Secret(decoded) => checked(decoded, |object| secret(object, context)),
        DecodedObject::Volume(decoded) => checked(*decoded, volume),
        DecodedObject::Claim(decoded) => checked(*decoded, claim),
        DecodedObject::CsiDriver(decoded) => checked(decoded, |object| {
            let (object, found) = csi_driver(object);
            let mut errors = Errors::new();
            found.into_iter().for_each(|error| add(&mut errors, error));
            (object, errors)
        }),
    }
}

/// Paths of fields, each with a message.
type Errors = Vec<(String, String)>;

fn checked<T>(
    decoded: Decoded<T>,
    read: impl FnOnce(T) -> (FileObject, Errors),
) -> Result<FileObject, Mistakes> {
    let Decoded { object, document, unknown } = decoded;
    let (object, errors) = read(object);
    let mistakes = Mistakes::locate(&document, unknown.into_iter().chain(errors));
    if mistakes.is_empty() { Ok(object) } else { Err(mistakes) }
}

fn add(errors: &mut Errors, error: FieldError) {
    errors.push((error.path.clone(), error.to_string()));
}

/// The namespace and the name of an object.
fn identity(meta: &ObjectMeta, errors: &mut Errors) -> (String, String) {
    let namespace = meta.namespace.clone().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.unwrap_or_else(|| "default".to_owned());
    let path = FieldPath::root("metadata").child("namespace");
    for sentence in names::dns_label(&namespace) {
        add(errors, FieldError::invalid(&path, &namespace, sentence));
    }
    (namespace, name(meta, errors))
}

fn name(meta: &ObjectMeta, errors: &mut Errors) -> String {
    let name = meta.name.clone().unwrap_or_default();
    let path = FieldPath::root("metadata").child("name");
    if name.is_empty() {
        add(errors, FieldError::required(&path, ""));
        return name;
    }
    for sentence in names::dns_subdomain(&name) {
        add(errors, FieldError::invalid(&path, &name, sentence));
    }
    name
}

fn config_map(map: ConfigMap) -> (FileObject, Errors) {
    let mut errors = Errors::new();
    let (namespace, name) = identity(&map.metadata, &mut errors);
    let object = Object::from(map);
    check_keys("data", object.text.keys(), &mut errors);
    check_keys("binaryData", object.binary.keys(), &mut errors);
    for key in object.binary.keys().filter(|key| object.text.contains_key(*key)) {
        let path = FieldPath::root("binaryData").key(key);
        add(&mut errors, FieldError::invalid(&path, key, "duplicate of key present in data"));
    }
    check_size("data", &object, &mut errors);
    (FileObject::Data(ObjectRef::config_map(&name, &namespace), Arc::new(object)), errors)
}

fn secret(mut secret: Secret, context: &ManifestContext<'_>) -> (FileObject, Errors) {
    let mut errors = Errors::new();
    let (namespace, name) = identity(&secret.metadata, &mut errors);
    // As the API server does on creation.
    let texts = secret.string_data.take().unwrap_or_default();
    let texts = texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes())));
    secret.data.get_or_insert_with(BTreeMap::new).extend(texts);
    let object = Object::from(secret);
    check_keys("data", object.binary.keys(), &mut errors);
    check_size("data", &object, &mut errors);
    let reference = ObjectRef::secret(&name, &namespace);
    let file = context.file.display();
    let remedy = match context.access {
        FileAccess::Private => None,
        FileAccess::Shared => Some(format!("others than root may read or change the file: chmod 600 {file}")),
        FileAccess::Foreign => {
            Some(format!("the file does not belong to root: chown root {file}; chmod 600 {file}"))
        }
    };
    if let Some(remedy) = remedy {
        errors.push(("kind".to_owned(), format!("secret {namespace}/{name}: {remedy}")));
    }
    (FileObject::Data(reference, Arc::new(object)), errors)
}

fn check_keys<'k>(field: &str, keys: impl Iterator<Item = &'k String>, errors: &mut Errors) {
    let path = FieldPath::root(field);
    for key in keys {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_valid = !key.is_empty() && key.len() <= names::SUBDOMAIN_MAX && key.bytes().all(is_plain);
        if !is_valid || key == "." || key.starts_with("..") {
            let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.', and not begin with '..'";
            add(errors, FieldError::invalid(&path.key(key), key, rule));
        }
    }
}

fn check_size(field: &str, object: &Object, errors: &mut Errors) {
    let size: usize = object.entries().map(|(_, data)| data.len()).sum();
    if size > MAX_DATA {
        add(errors, FieldError::too_long(&FieldPath::root(field), MAX_DATA));
    }
}

fn volume(volume: PersistentVolume) -> (FileObject, Errors) {
    let mut errors = Errors::new();
    name(&volume.metadata, &mut errors);
    let path = FieldPath::root("spec");
    match &volume.spec {
        None => add(&mut errors, FieldError::required(&path, "")),
        Some(spec) => {
            let paths = [
                ("local", spec.local.as_ref().map(|source| source.path.as_str())),
                ("hostPath", spec.host_path.as_ref().map(|source| source.path.as_str())),
                ("nfs", spec.nfs.as_ref().map(|source| source.path.as_str())),
            ];
            let given: Vec<_> = paths.iter().filter_map(|(field, path)| Some((*field, (*path)?))).collect();
            let types: Vec<_> =
                given.iter().map(|(field, _)| *field).chain(spec.csi.iter().map(|_| "csi")).collect();
            if types.is_empty() {
                let detail = "one of local, hostPath, nfs and csi; hostlet mounts no other PersistentVolumes";
                add(&mut errors, FieldError::required(&path, detail));
            }
            for field in types.iter().skip(1) {
                let detail = "may not specify more than 1 volume type";
                add(&mut errors, FieldError::forbidden(&path.child(field), detail));
            }
            for (field, value) in given {
                let path = path.child(field).child("path");
                if !value.starts_with('/') {
                    add(&mut errors, FieldError::invalid(&path, value, "must be an absolute path"));
                } else if names::has_backsteps(value) {
                    add(&mut errors, FieldError::invalid(&path, value, "must not contain '..'"));
                }
            }
            if spec.nfs.as_ref().is_some_and(|source| source.server.is_empty()) {
                add(&mut errors, FieldError::required(&path.child("nfs").child("server"), ""));
            }
            if let Some(csi) = &spec.csi {
                let path = path.child("csi");
                for problem in names::dns_subdomain(&csi.driver.to_ascii_lowercase()) {
                    add(&mut errors, FieldError::invalid(&path.child("driver"), &csi.driver, &problem));
                }
                if csi.volume_handle.is_empty() {
                    add(&mut errors, FieldError::required(&path.child("volumeHandle"), ""));
                }
            }
            let claim = spec.claim_ref.as_ref();
            if claim.is_some_and(|claim| claim.name.as_deref().unwrap_or_default().is_empty()) {
                add(&mut errors, FieldError::required(&path.child("claimRef").child("name"), ""));
            }
        }
    }
    (FileObject::volume(volume), errors)
}

fn claim(claim: PersistentVolumeClaim) -> (FileObject, Errors) {
    let mut errors = Errors::new();
    let (namespace, name) = identity(&claim.metadata, &mut errors);
    let volume = claim.spec.and_then(|spec| spec.volume_name).filter(|name| !name.is_empty());
    (FileObject::Claim(ClaimRef { namespace, name, owner: None }, volume), errors)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::source::manifest::read_manifest;

    fn read(mut object: Value, kind: &str) -> Result<FileObject, String> {
        (object["apiVersion"], object["kind"]) = (json!("v1"), json!(kind));
        let file = Path::new("/m/x.yaml");
        let context = ManifestContext { file, access: FileAccess::Private, node_name: "n", is_alone: true };
        let read = read_manifest(object.to_string().as_bytes(), &context, Timestamp::UNIX_EPOCH);
        read.map(|manifest| manifest.objects[0].clone()).map_err(|error| error.to_string())
    }

    fn named(more: Value) -> Value {
        let mut object = json!({"metadata": {"name": "x"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    }

    #[test]
    fn data_is_read_and_checked() {
        let read_map = |data| read(named(data), "ConfigMap");
        let FileObject::Data(reference, object) =
            read_map(json!({"data": {"k": "v"}, "binaryData": {"b": "AAE="}})).unwrap()
        else {
            panic!()
        };
        assert_eq!(reference, ObjectRef::config_map("x", "default"));
        assert_eq!((object.get("k"), object.get("b")), (Some(&b"v"[..]), Some(&[0_u8, 1][..])));
        for (data, expected) in [
            (json!({"data": {"a/b": ""}}), "data[a/b]: Invalid value"),
            (json!({"data": {"..k": ""}}), "data[..k]: Invalid value"),
            (json!({"data": {"k": ""}, "binaryData": {"k": ""}}), "duplicate of key present in data"),
            (json!({"data": {"k": "x".repeat(MAX_DATA + 1)}}), "data: Too long"),
            (json!({"datum": {}}), "datum: unknown field, did you mean \"data\"?"),
        ] {
            let error = read_map(data).unwrap_err();
            assert!(error.starts_with("line 1: ") && error.contains(expected), "{error}");
        }
        let secret =
            read(named(json!({"data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y"}})), "Secret");
        let FileObject::Data(reference, object) = secret.unwrap() else { panic!() };
        assert_eq!(reference, ObjectRef::secret("x", "default"));
        assert_eq!((object.get("a"), object.get("b")), (Some(&b"x"[..]), Some(&b"y"[..])));
        let error = read(json!({"metadata": {"namespace": "A"}}), "ConfigMap").unwrap_err();
        assert!(
            error.contains("metadata.namespace: Invalid value") && error.contains("metadata.name: Required")
        );
    }

    #[test]
    fn volumes_and_claims_are_read_and_checked() {
        let read_volume = |spec| read(named(json!({"spec": spec})), "PersistentVolume");
        let full = json!({"local": {"path": "/mnt"}, "claimRef": {"namespace": "a", "name": "b"},
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        assert_eq!(read_volume(full).unwrap().to_string(), "persistentvolume x");
        let csi = json!({"csi": {"driver": "csi.Example.com", "volumeHandle": "h"}});
        assert_eq!(read_volume(csi).unwrap().to_string(), "persistentvolume x");
        for (spec, expected) in [
            (json!({}), "spec: Required value: one of local, hostPath, nfs and csi"),
            (
                json!({"iscsi": {"targetPortal": "h", "iqn": "i", "lun": 0}}),
                "one of local, hostPath, nfs and csi",
            ),
            (
                json!({"csi": {"driver": "../d", "volumeHandle": "h"}}),
                "spec.csi.driver: Invalid value: \"../d\"",
            ),
            (json!({"csi": {"driver": "d", "volumeHandle": ""}}), "spec.csi.volumeHandle: Required value"),
            (
                json!({"csi": {"driver": "d", "volumeHandle": "h"}, "local": {"path": "/"}}),
                "more than 1 volume type",
            ),
            (
                json!({"local": {"path": "mnt"}}),
                "spec.local.path: Invalid value: \"mnt\": must be an absolute path",
            ),
            (json!({"hostPath": {"path": "/a/../b"}}), "spec.hostPath.path: Invalid value"),
            (json!({"nfs": {"server": "", "path": "/"}}), "spec.nfs.server: Required value"),
            (json!({"nfs": {"server": "s", "path": "/"}, "local": {"path": "/"}}), "more than 1 volume type"),
            (json!({"local": {"path": "/"}, "claimRef": {}}), "spec.claimRef.name: Required value"),
        ] {
            let error = read_volume(spec).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let FileObject::Claim(claim, volume) =
            read(named(json!({"spec": {"volumeName": "pv-1"}})), "PersistentVolumeClaim").unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (claim.namespace.as_str(), claim.name.as_str(), volume.as_deref()),
            ("default", "x", Some("pv-1"))
        );
    }
}

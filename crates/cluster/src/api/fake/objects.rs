//! The objects, their versions and history, and the verbs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::path::{Resource, Target};
use super::strategic::apply_strategic;
use super::validate;

/// A rejected request: code, reason, message.
pub(super) type RejectedRequest = (u16, &'static str, String);

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) resource: Resource,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(super) kind: &'static str,
    pub(super) object: Value,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<(Resource, String, String), Value>,
    pub(super) version: u64,
    pub(super) history: Vec<Change>,
    /// Watches from before this version get 410 Gone.
    pub(super) compacted: u64,
    created: u64,
    /// Whether ResourceSlices can have attributes with lists (feature gate `DRAListTypeAttributes`).
    pub(super) stores_lists: bool,
}

impl Objects {
    fn key(target: &Target) -> (Resource, String, String) {
        (target.resource.clone(), target.namespace.clone(), target.name.clone().unwrap_or_default())
    }

    pub(super) fn list(&self, target: &Target) -> Vec<Value> {
        let is_in = |((resource, namespace, _), _): &(&(Resource, String, String), &Value)| {
            *resource == target.resource && (target.namespace.is_empty() || *namespace == target.namespace)
        };
        self.all.iter().filter(is_in).map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn get(&self, target: &Target) -> Result<Value, RejectedRequest> {
        self.all.get(&Self::key(target)).cloned().ok_or_else(|| not_found(target))
    }

    pub(super) fn create(
        &mut self,
        target: &Target,
        mut object: Value,
        now: Timestamp,
    ) -> Result<Value, RejectedRequest> {
        if is_slice(target) {
            validate::resource_slice(None, &mut object, self.stores_lists)?;
        }
        self.created += 1;
        let metadata = fields(&mut object, "metadata");
        if let (None, Some(prefix)) =
            (metadata.get("name"), metadata.get("generateName").and_then(Value::as_str))
        {
            let name = format!("{prefix}{:05}", self.created);
            metadata.insert("name".to_owned(), name.into());
        }
        let Some(name) = metadata.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return Err((422, "Invalid", "metadata.name: Required value".to_owned()));
        };
        let target = Target { name: Some(name.clone()), ..target.clone() };
        let key = Self::key(&target);
        if self.all.contains_key(&key) {
            return Err((409, "AlreadyExists", format!("{} \"{name}\" already exists", target.resource.0)));
        }
        if !target.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), target.namespace.clone().into());
        }
        metadata.insert("uid".to_owned(), format!("00000000-0000-4000-8000-{:012}", self.created).into());
        metadata.insert("creationTimestamp".to_owned(), seconds(now).into());
        if target.resource.0 == "v1/pods" {
            metadata.insert("generation".to_owned(), 1.into());
            fields(&mut object, "status").entry("phase").or_insert_with(|| "Pending".into());
        }
        Ok(self.store(key, object, "ADDED"))
    }

    pub(super) fn replace(&mut self, target: &Target, mut object: Value) -> Result<Value, RejectedRequest> {
        let old = self.get(target)?;
        precondition(&old, &object)?;
        if target.subresource.as_deref() == Some("status") {
            let status = object["status"].take();
            object = old.clone();
            object["status"] = status;
        } else {
            for field in ["namespace", "uid", "creationTimestamp"] {
                if !old["metadata"][field].is_null() {
                    object["metadata"][field] = old["metadata"][field].clone();
                }
            }
        }
        let object = self.accepted(target, &old, object)?;
        Ok(self.changed(target, &old, object))
    }

    /// Returns the object as stored, or why it is rejected.
    fn accepted(&self, target: &Target, old: &Value, mut new: Value) -> Result<Value, RejectedRequest> {
        if is_slice(target) {
            validate::resource_slice(Some(old), &mut new, self.stores_lists)?;
        }
        if target.resource.0 == "v1/pods" && target.subresource.as_deref() == Some("status") {
            validate::pod_status(old, &mut new)?;
        }
        Ok(new)
    }

    /// Applies a patch of this content type.
    pub(super) fn patch(
        &mut self,
        target: &Target,
        kind: &str,
        patch: &Value,
    ) -> Result<Value, RejectedRequest> {
        let old = self.get(target)?;
        precondition(&old, patch)?;
        let mut new = old.clone();
        if kind.contains("strategic-merge-patch") {
            let (_, kind) = kind_of(&target.resource);
            apply_strategic(&kind, &mut new, patch).map_err(|error| (400, "BadRequest", error))?;
        } else if kind.contains("merge-patch") {
            merge(&mut new, patch);
        } else {
            return Err((
                415,
                "UnsupportedMediaType",
                format!("the fake does not know patches of type {kind}"),
            ));
        }
        let new = match target.subresource.as_deref() {
            Some("status") => {
                let mut updated = old.clone();
                updated["status"] = new["status"].take();
                // As registry/core/node/strategy.go: a status of a Node may change its labels.
                if target.resource.0 == "v1/nodes" {
                    updated["metadata"]["labels"] = new["metadata"]["labels"].take();
                }
                updated
            }
            _ => new,
        };
        let new = self.accepted(target, &old, new)?;
        Ok(self.changed(target, &old, new))
    }

    /// Deletes an object. A pod that is bound and has not terminated is only marked, and deleted by its kubelet.
    pub(super) fn delete(
        &mut self,
        target: &Target,
        options: &Value,
        now: Timestamp,
    ) -> Result<Value, RejectedRequest> {
        let old = self.get(target)?;
        if let Some(uid) = options["preconditions"]["uid"].as_str()
            && old["metadata"]["uid"] != uid
        {
            return Err((
                409,
                "Conflict",
                format!("the UID in the precondition ({uid}) is not the object's"),
            ));
        }
        let requested = options["gracePeriodSeconds"].as_i64();
        let grace = requested.or(old["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
        let is_terminal = matches!(old["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let is_bound = target.resource.0 == "v1/pods" && old["spec"]["nodeName"].is_string();
        let is_graceful = is_bound && !is_terminal && grace > 0;
        let blocked = old["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !is_graceful && !blocked {
            let key = Self::key(target);
            self.all.remove(&key);
            self.version += 1;
            let mut object = old;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
            self.record(target, "DELETED", object.clone());
            return Ok(object);
        }
        let mut new = old.clone();
        let metadata = fields(&mut new, "metadata");
        let shorter =
            metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).is_none_or(|g| grace < g);
        if shorter {
            let due = now.checked_add(std::time::Duration::from_secs(grace.unsigned_abs())).unwrap_or(now);
            metadata.insert("deletionTimestamp".to_owned(), seconds(due).into());
            metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
            let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
        Ok(self.changed(target, &old, new))
    }

    /// Stores an update. An unchanged object keeps its version and causes no event.
    fn changed(&mut self, target: &Target, old: &Value, mut new: Value) -> Value {
        if *old == new {
            return new;
        }
        let is_pod = target.resource.0 == "v1/pods";
        if is_pod && old["spec"] != new["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
            new["metadata"]["generation"] = (generation + 1).into();
        }
        self.store(Self::key(target), new, "MODIFIED")
    }

    fn store(&mut self, key: (Resource, String, String), mut object: Value, kind: &'static str) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let (api_version, object_kind) = kind_of(&key.0);
        object["apiVersion"] = api_version.into();
        object["kind"] = object_kind.into();
        let change = Change { version: self.version, resource: key.0.clone(), kind, object: object.clone() };
        self.history.push(change);
        self.all.insert(key, object.clone());
        object
    }

    fn record(&mut self, target: &Target, kind: &'static str, object: Value) {
        self.history.push(Change { version: self.version, resource: target.resource.clone(), kind, object });
    }
}

/// `apiVersion` and `kind` of a resource.
pub(super) fn kind_of(resource: &Resource) -> (String, String) {
    let (version, plural) = resource.0.rsplit_once('/').unwrap_or(("v1", &resource.0));
    let kind = match plural {
        "nodes" => "Node",
        "pods" => "Pod",
        "services" => "Service",
        "events" => "Event",
        "leases" => "Lease",
        "secrets" => "Secret",
        "configmaps" => "ConfigMap",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "persistentvolumes" => "PersistentVolume",
        "serviceaccounts" => "ServiceAccount",
        "namespaces" => "Namespace",
        "certificatesigningrequests" => "CertificateSigningRequest",
        "clustertrustbundles" => "ClusterTrustBundle",
        "podcertificaterequests" => "PodCertificateRequest",
        "resourceslices" => "ResourceSlice",
        "runtimeclasses" => "RuntimeClass",
        "csidrivers" => "CSIDriver",
        "csinodes" => "CSINode",
        "volumeattachments" => "VolumeAttachment",
        other => other,
    };
    (version.to_owned(), kind.to_owned())
}

fn is_slice(target: &Target) -> bool {
    target.resource.0.starts_with("resource.k8s.io/") && target.resource.0.ends_with("/resourceslices")
}

fn not_found(target: &Target) -> RejectedRequest {
    let name = target.name.as_deref().unwrap_or_default();
    let plural = target.resource.0.rsplit('/').next().unwrap_or_default();
    (404, "NotFound", format!("{plural} \"{name}\" not found"))
}

/// Checks the request's preconditions: UID and version.
fn precondition(old: &Value, request: &Value) -> Result<(), RejectedRequest> {
    for field in ["uid", "resourceVersion"] {
        let named = &request["metadata"][field];
        if named.is_string() && *named != old["metadata"][field] {
            let message = format!("the {field} in the precondition ({named}) is not the object's");
            return Err((409, "Conflict", message));
        }
    }
    Ok(())
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (field, value) in patch {
        if value.is_null() {
            target.remove(field);
        } else {
            merge(target.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
}

fn fields<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !object[field].is_object() {
        object[field] = json!({});
    }
    match &mut object[field] {
        Value::Object(fields) => fields,
        _ => unreachable!("it was just made an object"),
    }
}

fn seconds(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

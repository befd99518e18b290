//! The identity of static pods: namespace, name, UID and annotations. All are the stock kubelet's, but for a UID that is made of the
//! content: there it is the hash of how a version of it prints its own structures. No I/O.

use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, Toleration};
use md5::{Digest, Md5};

use hostlet_base::{CONFIG_HASH_ANNOTATION, CONFIG_SEEN_ANNOTATION, CONFIG_SOURCE_ANNOTATION};

/// Where a static pod is from.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodSource<'a> {
    File(&'a Path),
    /// A URL, as it is configured.
    Url(&'a str),
}

/// What determines the identity of static pods, besides their content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    pub(super) source: PodSource<'a>,
    pub(super) node_name: &'a str,
    /// When the content was first read.
    pub(super) seen: Timestamp,
}

impl Identity<'_> {
    /// Makes a decoded pod a static pod of this node.
    pub(super) fn assign(self, pod: &mut Pod) {
        assign(pod, self.source, self.node_name, self.seen);
    }
}

fn assign(pod: &mut Pod, source: PodSource<'_>, node_name: &str, seen: Timestamp) {
    clear_server_fields(pod);
    if pod.metadata.uid.as_deref().unwrap_or_default().is_empty() {
        pod.metadata.uid = Some(content_uid(pod, source, node_name));
    }
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let metadata = &mut pod.metadata;
    // A missing name stays missing, so that validation reports it.
    if let Some(name) = metadata.name.take().filter(|name| !name.is_empty()) {
        metadata.name = Some(format!("{name}-{}", node_name.to_lowercase()));
    }
    if metadata.namespace.as_deref().unwrap_or_default().is_empty() {
        metadata.namespace = Some("default".to_owned());
    }
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_HASH_ANNOTATION.to_owned(), uid);
    let name = match source {
        PodSource::File(_) => "file",
        PodSource::Url(_) => "http",
    };
    annotations.insert(CONFIG_SOURCE_ANNOTATION.to_owned(), name.to_owned());
    annotations.insert(CONFIG_SEEN_ANNOTATION.to_owned(), seen.to_string());

    let spec = pod.spec.get_or_insert_default();
    spec.node_name = Some(node_name.to_owned());
    match source {
        PodSource::File(_) => tolerate_eviction_taints(spec),
        // As upstream: these can be evicted.
        PodSource::Url(_) => {}
    }
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
}

/// Clears the fields that the API server sets and would clear on creation: a manifest may be copied from a cluster.
fn clear_server_fields(pod: &mut Pod) {
    let metadata = &mut pod.metadata;
    metadata.creation_timestamp = None;
    metadata.deletion_timestamp = None;
    metadata.deletion_grace_period_seconds = None;
    metadata.generation = None;
    metadata.managed_fields = None;
    metadata.resource_version = None;
    metadata.self_link = None;
    pod.status = None;
}

/// The UID of a pod without one: a hash of content and source (and node, for a file, as upstream), so that a changed pod is a
/// new pod. It is computed before defaulting, so that new defaults never replace running pods.
fn content_uid(pod: &Pod, source: PodSource<'_>, node_name: &str) -> String {
    let mut hash = Md5::new();
    // Maps of the Kubernetes types are sorted, so the bytes are deterministic.
    hash.update(serde_json::to_vec(pod).unwrap_or_default());
    match source {
        PodSource::File(file) => {
            hash.update(format!("host:{node_name}"));
            hash.update(format!("file:{}", file.display()));
        }
        PodSource::Url(url) => hash.update(format!("url:{url}")),
    }
    hex::encode(hash.finalize())
}

/// Adds the toleration that keeps `NoExecute` taints from evicting a static pod.
fn tolerate_eviction_taints(spec: &mut PodSpec) {
    let toleration = Toleration {
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Toleration::default()
    };
    let tolerations = spec.tolerations.get_or_insert_default();
    if !tolerations.contains(&toleration) {
        tolerations.push(toleration);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::{PodSource, assign};

    fn pod(metadata: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "c", "image": "a"}]}}))
        .unwrap()
    }

    fn assigned(metadata: serde_json::Value, file: &str, node: &str, seen: i64) -> Pod {
        let mut pod = pod(metadata);
        assign(&mut pod, PodSource::File(Path::new(file)), node, Timestamp::new(seen, 456_605_653).unwrap());
        pod
    }

    #[test]
    fn a_static_pod_has_the_stock_kubelets_identity() {
        let pod =
            assigned(json!({"name": "web", "labels": {"app": "web"}}), "/m/web.yaml", "Node1", 1_795_247_334);
        let uid = pod.metadata.uid.clone().unwrap();
        assert!(uid.len() == 32 && uid.bytes().all(|b| b.is_ascii_hexdigit()), "{uid}");
        assert_eq!(
            serde_json::to_value(&pod).unwrap(),
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "web-node1",
                    "namespace": "default",
                    "uid": uid,
                    "labels": {"app": "web"},
                    "annotations": {
                        "kubernetes.io/config.hash": uid,
                        "kubernetes.io/config.seen": "2026-11-21T07:48:54.456605653Z",
                        "kubernetes.io/config.source": "file"
                    }
                },
                "spec": {
                    "containers": [{"name": "c", "image": "a"}],
                    "nodeName": "Node1",
                    "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]
                },
                "status": {"phase": "Pending"}
            })
        );
    }

    #[test]
    fn the_uid_follows_content_node_and_file_and_nothing_else() {
        let uid = |metadata, file, node, seen| assigned(metadata, file, node, seen).metadata.uid.unwrap();
        let base = uid(json!({"name": "a"}), "/m/a", "n", 1);
        assert_eq!(base, uid(json!({"name": "a"}), "/m/a", "n", 2));
        assert_eq!(base, uid(json!({"name": "a", "resourceVersion": "7"}), "/m/a", "n", 1));
        assert_ne!(base, uid(json!({"name": "b"}), "/m/a", "n", 1));
        assert_ne!(base, uid(json!({"name": "a"}), "/m/b", "n", 1));
        assert_ne!(base, uid(json!({"name": "a"}), "/m/a", "o", 1));
        assert_eq!("mine", uid(json!({"name": "a", "uid": "mine"}), "/m/a", "n", 1));
    }

    #[test]
    fn what_a_server_wrote_is_wiped() {
        let pod = assigned(
            json!({"name": "a", "namespace": "x", "deletionTimestamp": "2026-01-01T00:00:00Z", "generation": 3}),
            "/m/a",
            "n",
            1,
        );
        assert_eq!(pod.metadata.deletion_timestamp, None);
        assert_eq!(pod.metadata.generation, None);
        assert_eq!(pod.metadata.namespace.as_deref(), Some("x"));
    }
}

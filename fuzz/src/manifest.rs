//! Manifests: an accepted pod has safe names and is the same when read again, objects have safe names; an error names the line.

use std::collections::BTreeSet;
use std::path::Path;

use hostlet_engine::source::{
    AnswerContext, DecodeError, FileAccess, Manifest, ManifestContext, ManifestError, StaticPod, read_answer,
    read_manifest,
};
use hostlet_pod::ManifestOrigin;
use jiff::Timestamp;

fn read(bytes: &[u8]) -> Result<Manifest, ManifestError> {
    let file = Path::new("/manifests/pod.yaml");
    let context = ManifestContext { file, access: FileAccess::Private, node_name: "node", is_alone: true };
    read_manifest(bytes, &context, Timestamp::UNIX_EPOCH)
}

/// Checks that a manifest gives a valid pod or a helpful message.
pub fn manifest(data: &[u8]) {
    match read(data) {
        Ok(manifest) => {
            if let Some(pod) = &manifest.pod {
                check_names(pod);
                check_reads_back(pod);
            }
            for object in &manifest.objects {
                let text = object.to_string();
                let name = text.split([' ', '/']).next_back().unwrap_or_default();
                assert!(is_name(name, 253, "-."), "name of {text:?}");
            }
        }
        Err(error) => {
            check_error(&error);
        }
    }
}

/// Checks that the answer of a URL gives valid pods of different names or a helpful message.
pub fn pod_answer(data: &[u8]) {
    let origin = ManifestOrigin::Url("http://h/pods".to_owned());
    let context = AnswerContext { url: "http://h/pods", origin: &origin, node_name: "node", is_alone: true };
    match read_answer(data, &context, Timestamp::UNIX_EPOCH) {
        Ok(pods) => {
            pods.iter().for_each(check_names);
            let name = |pod: &StaticPod| (pod.pod.metadata.namespace.clone(), pod.pod.metadata.name.clone());
            let names: BTreeSet<_> = pods.iter().map(name).collect();
            assert_eq!(names.len(), pods.len(), "two pods of one name");
        }
        Err(error) => check_error(&error),
    }
}

fn check_error(error: &ManifestError) {
    let message = error.to_string();
    super::check_message(&message);
    let told = message.strip_prefix("not YAML or JSON: ").unwrap_or(&message);
    if names_lines(error) {
        for line in told.lines() {
            let number: String = line.chars().skip("line ".len()).take_while(char::is_ascii_digit).collect();
            assert!(line.starts_with("line ") && !number.is_empty(), "names no line: {line:?}");
        }
    }
}

fn names_lines(error: &ManifestError) -> bool {
    match error {
        ManifestError::Invalid { .. } => true,
        ManifestError::Decode(error) => match error {
            DecodeError::Syntax(_) | DecodeError::Fields(_) => true,
            // These are about the whole text.
            DecodeError::NotUtf8(_)
            | DecodeError::Empty
            | DecodeError::SeveralPods(_)
            | DecodeError::List(_)
            | DecodeError::OtherKind { .. }
            | DecodeError::NoPods { .. } => false,
        },
    }
}

/// Names become directories, cgroups and host names.
fn check_names(read: &StaticPod) {
    let metadata = &read.pod.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    assert!(is_name(name, 253, "-."), "pod name {name:?}");
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    assert!(is_name(namespace, 63, "-"), "namespace {namespace:?}");
    let uid = metadata.uid.as_deref().unwrap_or_default();
    assert!(is_name(&uid.to_ascii_lowercase(), 63, "-"), "uid {uid:?}");
    let Some(spec) = &read.pod.spec else { panic!("a pod without a spec") };
    let mut seen = Vec::new();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        assert!(is_name(&container.name, 63, "-"), "container name {:?}", container.name);
        assert!(!seen.contains(&&container.name), "two containers {:?}", container.name);
        seen.push(&container.name);
    }
    assert!(!spec.containers.is_empty(), "a pod without containers");
    for volume in spec.volumes.iter().flatten() {
        assert!(is_name(&volume.name, 63, "-"), "volume name {:?}", volume.name);
    }
}

/// Lower-case letters and digits, with these characters in between.
fn is_name(text: &str, most: usize, between: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= most
        && text.starts_with(plain)
        && text.ends_with(plain)
        && text.chars().all(|c| plain(c) || between.contains(c))
}

/// A pod with all its defaults is a manifest of the same pod.
fn check_reads_back(first: &StaticPod) {
    let mut pod = first.pod.as_ref().clone();
    // Each read appends the node's name to the pod's.
    pod.metadata.name = Some("again".to_owned());
    let Ok(text) = serde_json::to_vec(&pod) else { panic!("a pod that cannot be written") };
    match read(&text) {
        Ok(second) => {
            let Some(second) = second.pod else { panic!("no pod when read again") };
            assert_eq!(second.pod.spec, first.pod.spec, "another spec");
            assert_eq!(second.unsupported, first.unsupported, "other unsupported fields");
        }
        Err(error) => panic!("does not read back: {error}\n{}", String::from_utf8_lossy(&text)),
    }
}

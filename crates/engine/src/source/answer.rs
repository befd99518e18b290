//! Turns the answer of a URL into static pods: decoded, with identity and defaults, validated. All or none: of an answer with a
//! mistake, nothing is used. No I/O.

use std::collections::HashMap;

use hostlet_pod::ManifestOrigin;
use hostlet_pod::pod_ref;
use jiff::Timestamp;

use super::decode::{DecodedPods, Mistakes, decode_pods, within};
use super::identity::{Identity, PodSource};
use super::manifest::{ManifestError, completed};
use super::state::StaticPod;

/// A URL and the node that reads it.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext<'a> {
    /// The URL as it is configured.
    pub url: &'a str,
    /// The URL as it is shown.
    pub origin: &'a ManifestOrigin,
    /// The node's name, which is appended to the names of static pods.
    pub node_name: &'a str,
    /// Whether the node has no API server.
    pub is_alone: bool,
}

/// Reads an answer with these bytes. `seen` is when this content was first read.
pub fn read_answer(
    bytes: &[u8],
    context: &AnswerContext<'_>,
    seen: Timestamp,
) -> Result<Vec<StaticPod>, ManifestError> {
    let DecodedPods { pods: decoded, document, unknown: mut mistakes } = decode_pods(bytes)?;
    let identity = Identity { source: PodSource::Url(context.url), node_name: context.node_name, seen };
    let (mut names, mut uids) = (HashMap::new(), HashMap::new());
    let mut pods = Vec::new();
    for (place, pod) in decoded {
        let (pod, errors) = completed(pod, context.origin.clone(), identity, context.is_alone);
        let invalid = errors.into_iter().map(|error| (error.path.clone(), error.to_string()));
        mistakes.extend(invalid.map(|mistake| within(&place, mistake)));
        let reference = pod_ref(&pod.pod);
        let first = names.insert(reference.full_name(), place.clone());
        if let Some(first) = first.or(uids.insert(reference.uid.clone(), place.clone())) {
            let message = format!("metadata: {first} has the same name or uid; change one of the two");
            mistakes.push(within(&place, ("metadata".to_owned(), message)));
        }
        pods.push(pod);
    }
    if mistakes.is_empty() {
        return Ok(pods);
    }
    let pod = match &*pods {
        [one] => Some(pod_ref(&one.pod).to_string()),
        _ => None,
    };
    Err(ManifestError::Invalid { pod, errors: Mistakes::locate(&document, mistakes.into_iter()) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use hostlet_base::{CONFIG_SOURCE_ANNOTATION, PodUid};

    const URL: &str = "http://h/pods";

    fn read_on(node_name: &str, text: &str) -> Result<Vec<StaticPod>, String> {
        let origin = ManifestOrigin::Url(URL.to_owned());
        let context = AnswerContext { url: URL, origin: &origin, node_name, is_alone: false };
        read_answer(text.as_bytes(), &context, Timestamp::UNIX_EPOCH).map_err(|error| error.to_string())
    }

    fn read(text: &str) -> Result<Vec<StaticPod>, String> {
        read_on("node1", text)
    }

    fn pod(name: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "a"}]}})
    }

    fn list(pods: &[Value]) -> String {
        json!({"apiVersion": "v1", "kind": "PodList", "items": pods}).to_string()
    }

    #[test]
    fn a_pod_and_a_list_have_the_identity_that_the_stock_kubelet_gives_to_pods_of_a_url() {
        let one =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: a}]}\n";
        let pods = [read(one).unwrap(), read(&list(&[pod("a"), pod("b")])).unwrap()].concat();
        let names: Vec<_> = pods.iter().map(|pod| pod.pod.metadata.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["a-node1", "a-node1", "b-node1"]);
        let metadata = &pods[0].pod.metadata;
        assert_eq!(metadata.annotations.as_ref().unwrap()[CONFIG_SOURCE_ANNOTATION], "http");
        assert_eq!(pods[0].pod.spec.as_ref().unwrap().tolerations, None, "it can be evicted");
        assert_eq!(pods[0].origin, ManifestOrigin::Url(URL.to_owned()));
        let uid = |node| PodUid::from(read_on(node, one).unwrap()[0].pod.metadata.uid.as_deref().unwrap());
        assert_eq!(uid("n1"), uid("n2"), "the node is not part of it");
        assert!(read(&list(&[])).unwrap().is_empty());
    }

    #[test]
    fn of_an_answer_with_mistakes_nothing_is_used() {
        let mut broken = pod("b");
        broken["spec"]["containers"][0]["image"] = json!(7);
        assert_eq!(
            read(&list(&[pod("a"), broken])).unwrap_err(),
            "line 1: items[1].spec.containers[0].image: 7 is not text; put it in quotes"
        );
        let mut invalid = pod("b");
        invalid["spec"]["containers"][0]["zzz"] = json!(7);
        invalid["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "c", "image": "a"}));
        let error = read(&list(&[pod("a"), invalid])).unwrap_err();
        assert!(error.contains("line 1: items[1].spec.containers[0].zzz: unknown field"), "{error}");
        assert!(error.contains("line 1: items[1].spec.containers[1].name: Duplicate value"), "{error}");
        let error = read(&list(&[pod("a"), pod("a")])).unwrap_err();
        assert_eq!(
            error,
            "line 1: items[1].metadata: items[0] has the same name or uid; change one of the two"
        );
    }

    #[test]
    fn a_list_has_no_other_fields() {
        let error = read("apiVersion: v1\nkind: PodList\nitems: {a: 1}").unwrap_err();
        assert_eq!(error, "line 3: items: must be a list");
        let error = read("apiVersion: v1\nkind: PodList\nitemz: []").unwrap_err();
        assert_eq!(error, "line 3: itemz: unknown field");
    }

    #[test]
    fn something_else_is_named() {
        for (text, found) in [
            ("apiVersion: v1\nkind: List\nitems: []", "the answer contains List;"),
            ("<html>", "the answer contains no object with a kind;"),
            (
                "{apiVersion: v1, kind: Pod}\n---\n{apiVersion: v1, kind: Pod}",
                "the answer contains 2 documents;",
            ),
            ("", "the answer contains 0 documents;"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(found), "{error}");
        }
        assert!(read("{").unwrap_err().starts_with("not YAML or JSON"));
    }
}

//! Answers and failures of a URL in sequence.

use hostlet_base::testing::at;
use http::StatusCode;
use serde_json::json;

use super::*;

fn list(images: &[&str]) -> Result<Bytes, FetchError> {
    let pods = images.iter().map(
        |image| json!({"metadata": {"name": image}, "spec": {"containers": [{"name": "c", "image": image}]}}),
    );
    let list = json!({"apiVersion": "v1", "kind": "PodList", "items": pods.collect::<Vec<_>>()});
    Ok(Bytes::from(list.to_string()))
}

fn reader(adopted: &[StaticPod]) -> UrlReader {
    UrlReader::new(&"http://u:secret@h/pods?x".parse().unwrap(), "n", true, adopted)
}

fn names(reader: &UrlReader) -> Vec<String> {
    reader.state().pods.iter().map(|pod| pod.pod.metadata.name.clone().unwrap()).collect()
}

fn problem(reader: &UrlReader) -> String {
    reader
        .state()
        .problems
        .into_iter()
        .map(|problem| format!("{}: {}", problem.origin, problem.message))
        .collect()
}

#[test]
fn answers_change_the_pods_and_failures_keep_them() {
    let mut reader = reader(&[]);
    let failed = || Err(FetchError::Status(StatusCode::BAD_GATEWAY));
    assert!(reader.apply(failed(), at(1)) && !reader.apply(failed(), at(2)));
    assert_eq!(
        problem(&reader),
        "http://u:xxxxx@h/pods?x: it cannot be fetched: the server answered 502 Bad Gateway"
    );
    assert!(!reader.state().ready, "its pods are not known");
    assert!(reader.apply(list(&["a", "b"]), at(3)));
    assert!(reader.state().ready && problem(&reader).is_empty());
    assert_eq!(names(&reader), ["a-n", "b-n"]);
    let first = reader.state().pods;
    assert!(!reader.apply(list(&["a", "b"]), at(4)));

    assert!(reader.apply(failed(), at(5)));
    assert_eq!((names(&reader).len(), reader.state().ready), (2, true));
    assert!(reader.apply(list(&["a", "b"]), at(6)), "the problem is over");
    assert!(reader.apply(Ok(Bytes::from("{")), at(7)) && problem(&reader).contains("not YAML or JSON"));
    assert_eq!(names(&reader).len(), 2);

    assert!(reader.apply(list(&["c", "b"]), at(8)));
    assert_eq!(names(&reader), ["c-n", "b-n"]);
    assert!(Arc::ptr_eq(&reader.state().pods[1], &first[1]), "the same as before");
    assert!(reader.apply(Ok(Bytes::new()), at(9)) && names(&reader).is_empty());
    assert!(problem(&reader).contains("the answer is empty"));
}

#[test]
fn a_new_daemon_continues_with_the_pods_of_its_url_until_there_is_an_answer() {
    let mut before = reader(&[]);
    before.apply(list(&["a"]), at(1));
    let mut stored: Vec<StaticPod> = before.state().pods.iter().map(|pod| StaticPod::clone(pod)).collect();
    let mut other = stored[0].clone();
    other.origin = ManifestOrigin::Url("http://other".to_owned());
    stored.push(other);
    let mut after = reader(&stored);
    assert_eq!((names(&after), after.state().ready), (vec!["a-n".to_owned()], false));
    assert!(after.apply(Ok(Bytes::from("{")), at(2)) && !after.state().ready);
    assert_eq!(names(&after).len(), 1);
    let known = after.state().pods[0].clone();
    assert!(after.apply(list(&["a"]), at(3)) && after.state().ready);
    assert!(Arc::ptr_eq(&known, &after.state().pods[0]), "it is not restarted");
}

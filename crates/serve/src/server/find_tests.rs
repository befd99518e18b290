//! Queries for pods and containers, and the errors that list candidates.

use serde_json::{Value, json};

use super::*;

fn name(namespace: &str, name: &str) -> PodRef {
    PodRef::new(namespace, name, "uid")
}

fn with(namespace: &str, name: &str, containers: &[&str], status: Value) -> Pod {
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}-{name}")},
        "spec": {"containers": containers},
        "status": status,
    }))
    .unwrap()
}

fn found(names: &[PodRef], requested: &str, namespace: Option<&str>) -> Result<String, String> {
    let name = find_name(names, "node1", requested, namespace);
    name.map(PodRef::to_string).map_err(|error| error.to_string())
}

#[test]
fn a_pod_is_found_by_any_of_its_names() {
    let pods = [name("default", "web-node1"), name("default", "web-node1-node1"), name("b", "db-node1")];
    for (requested, namespace, name) in [
        ("web", None, "default/web-node1"),
        ("web-node1", None, "default/web-node1"),
        ("web-node1-node1", None, "default/web-node1-node1"),
        ("default/web", None, "default/web-node1"),
        ("default/web", Some("default"), "default/web-node1"),
        ("db", Some("b"), "b/db-node1"),
    ] {
        assert_eq!(found(&pods, requested, namespace).as_deref(), Ok(name), "{requested}");
    }
}

#[test]
fn errors_list_the_candidates() {
    let pods = [name("b", "web-node1"), name("a", "web-node1"), name("a", "other-node1")];
    let error = |requested, namespace| found(&pods, requested, namespace).unwrap_err();
    assert_eq!(
        error("web", None),
        r#"more than one pod is called "web", choose one of: [a/web-node1 b/web-node1]"#
    );
    assert_eq!(error("wep", None), r#"pod "wep" not found; did you mean web-node1?"#);
    assert_eq!(error("b/other", None), r#"pod "b/other" not found; did you mean other-node1?"#);
    assert_eq!(
        error("b/web", Some("a")),
        r#"the pod's name has namespace "b", but namespace "a" was requested"#
    );
    assert!(find_name(&pods, "node1", "zzz", None).unwrap_err().is_not_found());
}

#[test]
fn two_versions_of_a_pod_have_one_name() {
    let versions = [PodRef::new("a", "web-node1", "old"), PodRef::new("a", "web-node1", "new")];
    assert_eq!(found(&versions, "web", None).as_deref(), Ok("a/web-node1"));
}

#[test]
fn a_container_name_is_required_unless_there_is_only_one() {
    let (one, mut two) = (with("a", "p", &["c"], json!({})), with("a", "p", &["x", "y"], json!({})));
    assert_eq!(find_container(&one, None), Ok("c"));
    assert_eq!(find_container(&two, Some("y")), Ok("y"));
    assert_eq!(
        find_container(&two, None).unwrap_err().to_string(),
        "a container name must be specified for pod p, choose one of: [x y]"
    );
    assert_eq!(
        find_container(&two, Some("z")).unwrap_err().to_string(),
        "container z is not valid for pod p, choose one of: [x y]"
    );
    two.metadata.annotations = Some([(DEFAULT_CONTAINER.to_owned(), "y".to_owned())].into());
    assert_eq!(find_container(&two, None), Ok("y"));
}

#[test]
fn the_instance_is_selected_like_in_the_kubelet() {
    let instance = |status: Value, previous| {
        let pod = with("a", "p", &["c"], json!({"containerStatuses": [status]}));
        find_instance(&pod, "c", previous).map(|id| id.to_string()).map_err(|error| error.to_string())
    };
    let status = |state: Value, last: Value| {
        let base = json!({"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0});
        let mut status = base;
        status["containerID"] = json!("containerd://now");
        status["state"] = state;
        status["lastState"] = last;
        status
    };
    let terminated = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
    let (running, waiting) = (json!({"running": {}}), json!({"waiting": {"reason": "ErrImagePull"}}));
    let backoff = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let ok = |id: &str| Ok(id.to_owned());
    assert_eq!(instance(status(running.clone(), terminated("containerd://old")), false), ok("now"));
    assert_eq!(instance(status(running.clone(), terminated("containerd://old")), true), ok("old"));
    assert_eq!(instance(status(terminated("containerd://now"), json!({})), false), ok("now"));
    assert_eq!(instance(status(backoff.clone(), terminated("containerd://old")), false), ok("old"));
    assert_eq!(
        instance(status(running, json!({})), true).unwrap_err(),
        r#"previous terminated container "c" in pod "p" not found"#
    );
    assert_eq!(
        instance(status(waiting, json!({})), false).unwrap_err(),
        r#"container "c" in pod "p" is waiting to start: image can't be pulled"#
    );
    assert_eq!(
        instance(status(terminated(""), json!({})), false).unwrap_err(),
        r#"container "c" in pod "p" is terminated"#
    );
    let rejected = with("a", "p", &["c"], json!({"reason": "OutOfpods", "message": "too many"}));
    assert_eq!(
        find_instance(&rejected, "c", false).unwrap_err().to_string(),
        r#"container "c" in pod "p" is not available: OutOfpods: too many"#
    );
}

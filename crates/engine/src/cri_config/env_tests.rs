//! Environments of containers from every source, with upstream's errors.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::cri_config::testing::{host, pod};

fn resolved(env: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    made(json!({"env": env}))
}

/// The states of ConfigMap `cm`, Secret `sec`, and others.
fn objects() -> ObjectStates {
    let text = [("k", "v"), ("other.txt", "$(k)")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    let bytes = |bytes: &[u8]| bytes.to_vec();
    let binary = [("bin".to_owned(), bytes(b"x"))].into();
    let map = Object { text: text.into(), binary, ..Object::default() };
    let secrets = [("password".to_owned(), bytes(b"s3cret"))];
    let secret = Object { binary: secrets.into(), ..Object::default() };
    let image = Object { binary: [("png".to_owned(), bytes(&[0xff, 0]))].into(), ..Object::default() };
    let absent = |object: ObjectRef| {
        let error = ObjectError::not_found(&object);
        (object, ObjectState::Failed(error))
    };
    [
        (ObjectRef::config_map("cm", "ns"), ObjectState::Found(Arc::new(map))),
        (ObjectRef::secret("sec", "ns"), ObjectState::Found(Arc::new(secret))),
        (ObjectRef::secret("image", "ns"), ObjectState::Found(Arc::new(image))),
        absent(ObjectRef::config_map("none", "ns")),
        absent(ObjectRef::secret("none", "ns")),
        (
            ObjectRef::config_map("refused", "ns"),
            ObjectState::Failed(ObjectError::Forbidden("not yours".into())),
        ),
        (ObjectRef::config_map("pending", "ns"), ObjectState::Pending),
    ]
    .into()
}

/// The values from files of the variables FOUND, MISSING, INVALID and NOWHERE.
fn files() -> BTreeMap<String, FileValue> {
    [
        ("FOUND", FileValue::Found("$(k)".to_owned())),
        ("MISSING", FileValue::Missing("/v/file".into())),
        ("INVALID", FileValue::Invalid),
        ("NOWHERE", FileValue::NoVolume("e".to_owned())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn variables_from_files_have_upstreams_errors() {
    let of = |name: &str, optional: bool| {
        let file = json!({"volumeName": "e", "path": "file", "key": "K", "optional": optional});
        resolved(json!([{"name": name, "valueFrom": {"fileKeyRef": file}}]))
    };
    assert_eq!(texts(of("FOUND", false)), ["FOUND=$(k)"]);
    assert_eq!(texts(of("MISSING", true)), [""; 0]);
    for (name, error) in [
        ("MISSING", "environment variable key \"K\" not found in file \"/v/file\""),
        ("INVALID", "couldn't parse env file"),
        ("NOWHERE", "cannot find the volume \"e\" referenced by FileKeyRef"),
        ("UNREAD", "cannot find the volume \"e\" referenced by FileKeyRef"),
    ] {
        assert_eq!(of(name, false).unwrap_err().to_string(), error, "{name}");
    }
}

/// The environment of a container with these fields, on a host without Services.
fn made(container: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    made_with(container, ServiceVariables::new())
}

fn with_services(container: Value) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    let services = [("SVC_HOST", "10.0.0.9"), ("k", "never"), ("GREETING", "never")];
    made_with(container, services.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
}

fn made_with(
    mut container: Value,
    services: ServiceVariables,
) -> Result<Vec<(String, Vec<u8>)>, ConfigError> {
    container["name"] = "c".into();
    let pod: Pod = pod(json!({"containers": [container], "serviceAccountName": "sa"}));
    let ips = ["fd00::2".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let mut sources = EnvSources {
        pod_ips: &ips,
        objects: objects(),
        files: files(),
        services: Some(services),
        ..EnvSources::default()
    };
    let references = env_references(container, "ns");
    sources.objects.retain(|object, _| references.contains(object));
    environment((&pod).into(), container, &sources, &host()).map(Environment::into_variables)
}

fn texts(variables: Result<Vec<(String, Vec<u8>)>, ConfigError>) -> Vec<String> {
    let text = |value| String::from_utf8(value).unwrap();
    variables.unwrap().into_iter().map(|(name, value)| format!("{name}={}", text(value))).collect()
}

fn one(source: Value) -> Result<String, ConfigError> {
    let variables = resolved(json!([{"name": "X", "valueFrom": source}]));
    variables.map(|mut variables| String::from_utf8(variables.remove(0).1).unwrap())
}

#[test]
fn values_refer_to_earlier_variables_and_the_last_declaration_wins() {
    let env = json!([
        {"name": "EARLY", "value": "hi $(LATE)"},
        {"name": "LATE", "value": "x"},
        {"name": "AFTER", "value": "$(LATE) $$(LATE) $(EARLY)"},
        {"name": "LATE", "value": "$(LATE)y"},
        {"name": "EMPTY"}
    ]);
    let expected = ["EARLY=hi $(LATE)", "LATE=xy", "AFTER=x $(LATE) hi $(LATE)", "EMPTY="];
    assert_eq!(texts(resolved(env)), expected);
}

#[test]
fn fields_of_the_pod() {
    for (path, value) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a.b/c']", "x['y"),
        ("spec.nodeName", "node1"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "192.0.2.1"),
        ("status.hostIPs", "192.0.2.1"),
        ("status.podIP", "10.0.0.2"),
        ("status.podIPs", "10.0.0.2,fd00::2"),
    ] {
        assert_eq!(one(json!({"fieldRef": {"fieldPath": path}})).unwrap(), value, "{path}");
    }
    // On the host's network, the runtime reports no address.
    let env = json!([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    let spec = json!({"hostNetwork": true, "containers": [{"name": "c", "env": env}]});
    let sources = EnvSources { services: Some(ServiceVariables::default()), ..EnvSources::default() };
    let pod = pod(spec);
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let made = environment((&pod).into(), container, &sources, &host()).unwrap().into_variables();
    assert_eq!(texts(Ok(made)), ["X=192.0.2.1"]);
    // Without a limit, the node's allocatable is the limit.
    assert_eq!(one(json!({"resourceFieldRef": {"resource": "limits.cpu"}})).unwrap(), "4");
    let field = |path| one(json!({"fieldRef": {"fieldPath": path}})).unwrap_err().to_string();
    assert_eq!(field("status.phase"), "field label not supported: status.phase");
    assert_eq!(field("spec.x['y']"), "field label does not support subscript: spec.x['y']");
}

#[test]
fn objects_are_merged_in_order_and_overridden_by_declared_variables() {
    // The golden file's pod: a prefix, and a key that is not a shell identifier.
    let from = json!([{"prefix": "CM_", "configMapRef": {"name": "cm"}}]);
    let env = json!([{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "password"}}},
        {"name": "SEEN", "value": "$(CM_k) $(PW) $(CM_other.txt)"}, {"name": "CM_k", "value": "mine"}]);
    let all = ["CM_k=mine", "CM_other.txt=$(k)", "PW=s3cret", "SEEN=v s3cret $(k)"];
    assert_eq!(texts(made(json!({"envFrom": from, "env": env}))), all);
    // A later object overrides an earlier one; a missing optional object is skipped.
    let from = json!([{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "none", "optional": true}},
        {"prefix": "k", "secretRef": {"name": "sec"}}, {"configMapRef": {"name": "cm"}}]);
    let env = json!([
        {"name": "k", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "x", "optional": true}}},
        {"name": "X", "valueFrom": {"secretKeyRef": {"name": "sec", "key": "x", "optional": true}}}
    ]);
    let all = ["k=v", "other.txt=$(k)", "kpassword=s3cret"];
    assert_eq!(texts(made(json!({"envFrom": from, "env": env}))), all);
}

#[test]
fn an_ephemeral_container_selects_its_own_amounts() {
    let pod: Pod = pod(json!({"containers": [{"name": "app"}]}));
    let of = |name: Option<&str>| {
        let field = json!({"resource": "limits.cpu", "containerName": name});
        let env = json!([{"name": "X", "valueFrom": {"resourceFieldRef": field}}]);
        let debugger = serde_json::from_value(json!({"name": "debugger", "env": env})).unwrap();
        let sources = EnvSources { services: Some(ServiceVariables::new()), ..EnvSources::default() };
        environment((&pod).into(), &debugger, &sources, &host()).map(Environment::into_variables)
    };
    assert_eq!(texts(of(None)), ["X=4"]);
    assert_eq!(texts(of(Some("app"))), ["X=4"]);
    assert_eq!(of(Some("debugger")).unwrap_err().to_string(), "container debugger not found");
}

#[test]
fn a_secrets_value_may_be_any_bytes() {
    let env = json!([{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "image", "key": "png"}}},
        {"name": "COPY", "value": "<$(KEY)>"}]);
    let made = made(json!({"envFrom": [{"secretRef": {"name": "image"}}], "env": env})).unwrap();
    let expected: [(&str, &[u8]); 3] = [("png", b"\xff\0"), ("KEY", b"\xff\0"), ("COPY", b"<\xff\0>")];
    assert_eq!(made, expected.map(|(name, value)| (name.to_owned(), value.to_vec())));
}

#[test]
fn service_variables_do_not_override_declared_ones_and_can_be_referred_to() {
    let env = json!([{"name": "GREETING", "value": "$(SVC_HOST) $(k)"}, {"name": "k", "value": "mine"},
        {"name": "AFTER", "value": "$(k)"}]);
    let all = ["GREETING=10.0.0.9 never", "k=mine", "AFTER=mine", "SVC_HOST=10.0.0.9"];
    assert_eq!(texts(with_services(json!({"env": env}))), all);
    let pod = pod(json!({"containers": [{"name": "c"}]}));
    let container = &pod.spec.as_ref().unwrap().containers[0];
    let error = environment((&pod).into(), container, &EnvSources::default(), &host()).unwrap_err();
    let text = "services have not yet been read at least once, cannot construct envvars";
    assert_eq!(error.to_string(), text);
}

#[test]
fn missing_objects_have_upstreams_messages() {
    let error = |source: Value| one(source).unwrap_err().to_string();
    for (source, expected) in [
        (json!({"configMapKeyRef": {"name": "none", "key": "k"}}), "configmap \"none\" not found"),
        (json!({"secretKeyRef": {"name": "none", "key": "k"}}), "secret \"none\" not found"),
        (
            json!({"configMapKeyRef": {"name": "cm", "key": "bin"}}),
            "couldn't find key bin in ConfigMap ns/cm",
        ),
        (json!({"secretKeyRef": {"name": "sec", "key": "x"}}), "couldn't find key x in Secret ns/sec"),
        // Its existence is unknown, so being optional does not help.
        (json!({"configMapKeyRef": {"name": "refused", "key": "k", "optional": true}}), "not yours"),
        (
            json!({"configMapKeyRef": {"name": "pending", "key": "k", "optional": true}}),
            "timed out waiting for the configmap \"pending\"",
        ),
        (
            json!({"resourceFieldRef": {"resource": "limits.gpu"}}),
            "unsupported container resource : limits.gpu",
        ),
    ] {
        assert_eq!(error(source), expected);
    }
    let error = made(json!({"envFrom": [{"secretRef": {"name": "none"}}]})).unwrap_err();
    assert_eq!(error.to_string(), "secret \"none\" not found");
}

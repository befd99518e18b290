//! Content of manifests, decoded or rejected with its mistakes by line.

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;

use super::DecodeError;

fn decode_pod(bytes: &[u8]) -> Result<Pod, DecodeError> {
    let decoded = super::decode_manifest(bytes)?.pod.unwrap();
    match decoded.unknown.is_empty() {
        true => Ok(decoded.object),
        false => {
            Err(DecodeError::Fields(super::Mistakes::locate(&decoded.document, decoded.unknown.into_iter())))
        }
    }
}

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: a}\n";

#[test]
fn yaml_and_json_are_decoded() {
    let yaml = decode_pod(POD.as_bytes()).unwrap();
    let json = decode_pod(
        br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"a"}]}}"#,
    )
    .unwrap();
    assert_eq!(yaml, json);
    assert_eq!(decode_pod(format!("---\n{POD}---\n").as_bytes()).unwrap(), yaml);
    let octal = POD.to_owned() + "  volumes: [{name: s, secret: {secretName: s, defaultMode: 0400}}]\n";
    let volumes = decode_pod(octal.as_bytes()).unwrap().spec.unwrap().volumes.unwrap();
    assert_eq!(volumes[0].secret.as_ref().unwrap().default_mode, Some(256));
}

/// What `kubectl create --dry-run=client -o yaml` makes of the same text.
#[test]
fn yaml_is_read_like_by_the_kubelet() {
    let text = r#"
apiVersion: v1
kind: Pod
metadata:
  name: q
  annotations: &notes {owner: a}
  labels: {yes: a, 1: b, 1.5: c, 010: d, 1e3: e, 2024-01-01: f, "on": g, <<: *notes}
spec:
  securityContext: {runAsUser: 01750, runAsGroup: 1_000, fsGroup: 0x3e8}
  hostNetwork: no
  enableServiceLinks: Off
  initContainers:
  - &base
    name: base
    image: a
    env: &env [{name: FIRST, value: "1"}]
  containers:
  - <<: [*base, {workingDir: /tmp, image: not-this-one}]
    name: c
    env: *env
    securityContext: {readOnlyRootFilesystem: yes, privileged: off}
    tty: n
    ports: [{containerPort: 8e1}, {containerPort: 80.0, protocol: UDP}]
"#;
    let pod = decode_pod(text.as_bytes()).unwrap();
    let labels = pod.metadata.labels.unwrap();
    let labels: Vec<(&str, &str)> =
        labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("1", "b"),
        ("1.5", "c"),
        ("1000", "e"),
        ("2024-01-01", "f"),
        ("8", "d"),
        ("on", "g"),
        ("owner", "a"),
    ];
    assert_eq!(labels[..7], expected);
    assert_eq!(labels[7], ("true", "a"));
    let spec = pod.spec.unwrap();
    let context = spec.security_context.unwrap();
    assert_eq!(
        (context.run_as_user, context.run_as_group, context.fs_group),
        (Some(1000), Some(1000), Some(1000))
    );
    assert_eq!((spec.host_network, spec.enable_service_links), (Some(false), Some(false)));
    let container = &spec.containers[0];
    assert_eq!((container.name.as_str(), container.image.as_deref()), ("c", Some("a")));
    assert_eq!((container.working_dir.as_deref(), container.tty), (Some("/tmp"), Some(false)));
    assert_eq!(container.env.as_ref().unwrap()[0].value.as_deref(), Some("1"));
    let ports: Vec<i32> = container.ports.iter().flatten().map(|port| port.container_port).collect();
    assert_eq!(ports, [80, 80]);
}

#[test]
fn other_content_is_rejected_with_the_remedy() {
    let error = |text: &str| decode_pod(text.as_bytes()).unwrap_err();
    for empty in ["", "\n", "# nothing\n", "---\n", "null"] {
        assert_eq!(error(empty), DecodeError::Empty, "{empty:?}");
    }
    assert_eq!(error(&format!("{POD}---\n{POD}")), DecodeError::SeveralPods(2));
    assert_eq!(error("apiVersion: v1\nkind: PodList\nitems: []"), DecodeError::List("PodList".into()));
    assert_eq!(error("[]"), DecodeError::List("list".into()));
    for other in
        ["5", "x", "{}", "kind: Pod", "apiVersion: apps/v1\nkind: Deployment", "apiVersion: v2\nkind: Pod"]
    {
        assert!(matches!(error(other), DecodeError::OtherKind { .. }), "{other}");
    }
    assert_eq!(decode_pod(b"a: \xff"), Err(DecodeError::NotUtf8(3)));
    assert!(matches!(error("a: [1"), DecodeError::Syntax(_)));
}

#[test]
fn a_duplicate_key_is_rejected_with_its_line() {
    let error =
        decode_pod(format!("{POD}  hostNetwork: true\n  hostNetwork: false\n").as_bytes()).unwrap_err();
    let DecodeError::Syntax(message) = error else { panic!("{error}") };
    assert!(message.contains("hostNetwork") && message.contains("8"), "{message}");
}

#[test]
fn mistakes_are_listed_with_their_lines() {
    let text = format!("{POD}  hostNetwork: 1\n  zzz: {{}}\n  restartpolicy: Never\n");
    let error = decode_pod(text.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 7: spec.hostNetwork: found integer `1`, expected a boolean\n\
         line 8: spec.zzz: unknown field\n\
         line 9: spec.restartpolicy: unknown field, did you mean \"restartPolicy\"?"
    );
}

#[test]
fn messages_stay_readable_for_hostile_files() {
    let error = |text: &str| decode_pod(text.as_bytes()).unwrap_err().to_string();
    let unknown: String = (0..1000).map(|n| format!("  z{n}: 1\n")).collect();
    let message = error(&format!("{POD}{unknown}"));
    assert_eq!(message.lines().count(), 101);
    assert!(message.ends_with("\nline 107: 900 more mistakes from here on"), "{message}");

    let message = error(&format!("{POD}  \"a\\nline 1: b\\e[2J\": 1\n  ? {}\n  : 1\n", "k".repeat(1 << 20)));
    assert_eq!(message.lines().count(), 2, "{message}");
    assert!(message.len() < 1500 && !message.contains('\u{1b}'), "{message}");
    assert!(error(&format!("apiVersion: v1\nkind: {}\n", "K".repeat(1 << 20))).len() < 300);
}

#[test]
fn objects_may_be_beside_a_pod_and_have_the_lines_of_the_file() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n";
    let decoded = super::decode_manifest(format!("{config}---\n{POD}---\n{config}").as_bytes()).unwrap();
    assert!(decoded.pod.is_some() && decoded.objects.len() == 2);
    let error = super::decode_manifest(format!("{POD}---\n{config}immutable: 7\n").as_bytes()).err().unwrap();
    assert_eq!(error.to_string(), "line 12: immutable: found integer `7`, expected a boolean");
}

#[test]
fn a_message_never_has_the_value_of_a_secret() {
    for (data, remedy) in [
        ("data: {k: plain text!}", "is not base64; encode the value"),
        ("data: {k: 31415926}", "is not base64; encode the value"),
        ("stringData: {k: 31415926}", "is not a text; put the value in quotes"),
        ("data: plain text!", "must be a map of keys and values"),
    ] {
        let text = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n{data}\n");
        let error = super::decode_manifest(text.as_bytes()).err().unwrap().to_string();
        assert!(error.starts_with("line 4: ") && error.contains(remedy), "{error}");
        assert!(!error.contains("plain") && !error.contains("31415926"), "{error}");
    }
}

proptest! {
    #[test]
    fn hostile_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = super::decode_manifest(&bytes);
    }

    #[test]
    fn damaged_manifests_do_not_panic(at in 0_usize..90, byte in any::<u8>()) {
        let mut bytes = POD.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = super::decode_manifest(&bytes);
    }
}

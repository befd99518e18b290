//! Planned blobs, their order, and the names.

use serde_json::{Value, json};

use super::super::samples::{OCI_INDEX, OCI_LAYER, OCI_MANIFEST, Sample, oci, survey};
use super::{Content, Plan, PlanError, plan};

fn plan_of(archive: &[u8]) -> Result<Plan, PlanError> {
    plan(&survey(archive).unwrap(), "amd64")
}

fn error_of(archive: &[u8]) -> String {
    plan_of(archive).unwrap_err().to_string()
}

fn names(plan: &Plan) -> Vec<Vec<String>> {
    plan.images.iter().map(|image| image.records.clone()).collect()
}

fn named(mut descriptor: Value, annotation: &str, name: &str) -> Value {
    descriptor["annotations"] = json!({ annotation: name });
    descriptor
}

#[test]
fn an_oci_image_gets_its_records_and_labels() {
    let plan = plan_of(&oci("busybox", b"layer")).unwrap();
    let [layer, config, manifest] = &plan.blobs[..] else { panic!("{plan:?}") };
    assert!(matches!(&layer.content, Content::File(name) if name.starts_with("blobs/")));
    assert!(matches!(manifest.content, Content::Known(_)));
    assert_eq!(manifest.labels["containerd.io/gc.ref.content.config"], config.digest.as_str());
    assert_eq!(manifest.labels["containerd.io/gc.ref.content.l.0"], layer.digest.as_str());
    let digested = format!("docker.io/library/busybox@{}", manifest.digest);
    let tagged = "docker.io/library/busybox:latest".to_owned();
    assert_eq!(names(&plan), [[config.digest.to_string(), tagged, digested]]);
    assert_eq!(plan.images[0].target.media_type, OCI_MANIFEST);
}

#[test]
fn names_come_from_either_annotation() {
    for (annotation, name, expected) in [
        ("io.containerd.image.name", "r.example/a:1", Some("r.example/a:1")),
        ("org.opencontainers.image.ref.name", "r.example/a:1", Some("r.example/a:1")),
        ("org.opencontainers.image.ref.name", "busybox:1", Some("docker.io/library/busybox:1")),
        ("org.opencontainers.image.ref.name", "latest", None),
    ] {
        let mut sample = Sample::default();
        let root = named(sample.image("amd64", b"layer"), annotation, name);
        match (plan_of(&sample.layout(&[root]).end()), expected) {
            (Ok(plan), Some(expected)) => assert_eq!(plan.images[0].records[1], expected),
            (Err(PlanError::NoName), None) => {}
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
    let mut sample = Sample::default();
    let root = named(sample.image("amd64", b"layer"), "io.containerd.image.name", "r.example/A B");
    assert!(error_of(&sample.layout(&[root]).end()).contains("cannot be used"));
}

#[test]
fn only_this_platform_is_taken_from_an_index() {
    let mut sample = Sample::default();
    let mut own = sample.image("amd64", b"own");
    own["platform"] = json!({"os": "linux", "architecture": "amd64"});
    let mut other = json!({"mediaType": OCI_MANIFEST, "digest": own["digest"].clone(), "size": 1});
    other["platform"] = json!({"os": "linux", "architecture": "s390x"});
    let unmarked = sample.image("arm64", b"unmarked");
    let index = json!({"schemaVersion": 2, "manifests": [other, unmarked, own]}).to_string();
    let root = named(sample.blob(OCI_INDEX, index.as_bytes()), "io.containerd.image.name", "r.example/a:1");
    let archive = sample.layout(&[root]).end();
    let plan = plan_of(&archive).unwrap();
    assert_eq!(plan.blobs.len(), 4, "layer, configuration, manifest, index: {plan:?}");
    assert_eq!(plan.blobs[3].labels["containerd.io/gc.ref.content.m.0"], plan.blobs[2].digest.as_str());
    assert_eq!(plan.images[0].target.digest, plan.blobs[3].digest);
    let arm = super::plan(&survey(&archive).unwrap(), "riscv64").unwrap_err();
    let expected =
        "has no image for this host, which is linux/riscv64, only for linux/amd64, linux/arm64, linux/s390x";
    assert_eq!(arm.to_string(), expected);
}

#[test]
fn the_output_of_docker_save_gets_containerds_manifest() {
    const CONFIG: &str = r#"{"os":"linux","architecture":"amd64"}"#;
    let manifest = json!([
        {"Config": "c.json", "RepoTags": ["app:1", "r.example/app:2"], "Layers": ["x/layer.tar", "y/layer.tar"]},
        {"Config": "c.json", "RepoTags": null, "Layers": []},
    ]);
    let archive = Sample::default()
        .file("x/layer.tar", b"one")
        .symlink("y/layer.tar", "../x/layer.tar")
        .file("c.json", CONFIG.as_bytes())
        .file("manifest.json", manifest.to_string().as_bytes())
        .end();
    let plan = plan_of(&archive).unwrap();
    assert_eq!(plan.blobs.len(), 3, "the same layer twice is one blob: {plan:?}");
    let [layer, config, manifest] = ["three", "config", "manifest"].map(|what| {
        plan.blobs.iter().position(|blob| match what {
            "three" => blob.size == 3,
            "manifest" => !blob.labels.is_empty(),
            _ => blob.size != 3 && blob.labels.is_empty(),
        })
    });
    let digest = |at: Option<usize>| plan.blobs[at.unwrap()].digest.clone();
    let Content::Known(text) = &plan.blobs[manifest.unwrap()].content else { panic!() };
    let layer_text = format!(
        "{{\"mediaType\":\"application/vnd.docker.image.rootfs.diff.tar\",\"digest\":\"{}\",\"size\":3}}",
        digest(layer)
    );
    let expected = format!(
        "{{\"schemaVersion\":2,\"mediaType\":\"application/vnd.docker.distribution.manifest.v2+json\",\"config\":\
         {{\"mediaType\":\"application/vnd.docker.container.image.v1+json\",\"digest\":\"{}\",\"size\":{}}},\
         \"layers\":[{layer_text},{layer_text}]}}",
        digest(config),
        CONFIG.len()
    );
    assert_eq!(std::str::from_utf8(text).unwrap(), expected);
    assert_eq!(
        names(&plan).concat().iter().filter(|name| name.ends_with(":1") || name.ends_with(":2")).count(),
        2
    );
}

#[test]
fn errors_name_what_is_wrong_with_an_image() {
    assert!(error_of(&Sample::default().file("a", b"").end()).contains("not an image archive"));
    let old =
        Sample::default().file("oci-layout", b"{\"imageLayoutVersion\":\"2.0.0\"}").file("index.json", b"{}");
    assert!(error_of(&old.end()).contains("2.0.0"));
    assert!(error_of(&Sample::default().file("manifest.json", b"[").end()).contains("manifest.json"));
    assert!(error_of(&Sample::default().file("oci-layout", b"text").end()).contains("JSON document"));

    let root = |descriptor| named(descriptor, "io.containerd.image.name", "r.example/a:1");
    let mut sample = Sample::default();
    let layer = root(sample.blob(OCI_LAYER, b"layer"));
    assert!(error_of(&sample.layout(&[layer]).end()).contains("which is not an image"));

    let mut sample = Sample::default();
    let mut short = sample.image("amd64", b"layer");
    short["size"] = json!(1);
    assert!(error_of(&sample.layout(&[root(short)]).end()).contains("does not have the length"));

    let missing =
        json!({"mediaType": OCI_MANIFEST, "digest": format!("sha256:{}", "0".repeat(64)), "size": 1});
    assert!(error_of(&Sample::default().layout(&[root(missing)]).end()).contains("lacks"));

    let mut sample = Sample::default();
    let mut nested = sample.image("amd64", b"layer");
    for _ in 0..6 {
        let index = json!({"schemaVersion": 2, "manifests": [nested]}).to_string();
        nested = sample.blob(OCI_INDEX, index.as_bytes());
    }
    assert!(error_of(&sample.layout(&[root(nested)]).end()).contains("too deeply"));
}

//! Trust anchors and certificates in volumes: ClusterTrustBundles, and PodCertificateRequests whose signer is the test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use hostlet_net::tls::fake::FakeAuthority;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{ClusterTrustBundle, PodCertificateRequest};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{
    IDLE, LATER, SOON, assert_undisturbed, delete, is_ready, name, pod, uid, wait_for_object,
    wait_until_clean, wait_until_gone,
};

/// Issues all certificates of this signer, for two hours, and denies those of the other.
async fn sign(tenant: &Tenant, authority: &FakeAuthority, issues: &str, denies: &str) -> Result<()> {
    let requests = tenant.api::<PodCertificateRequest>();
    loop {
        for request in requests.list(&ListParams::default()).await?.items {
            let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
            if conditions.is_some_and(|conditions| !conditions.is_empty()) {
                continue;
            }
            let now = Timestamp::from_second(Timestamp::now().as_second())?;
            let condition = |kind: &str| {
                json!([{"type": kind, "status": "True", "reason": "Test", "message": "as the test wants",
                    "lastTransitionTime": now.to_string()}])
            };
            let status = if request.spec.signer_name == issues {
                let stub = STANDARD.encode(&request.spec.stub_pkc_s10_request.0);
                let stub = format!(
                    "-----BEGIN CERTIFICATE REQUEST-----\n{stub}\n-----END CERTIFICATE REQUEST-----\n"
                );
                let life = Duration::from_secs(2 * 3600);
                let chain = format!("{}{}", authority.issue(&stub, now, life)?, authority.certificate()?);
                json!({"conditions": condition("Issued"), "certificateChain": chain,
                    "notBefore": now.to_string(), "notAfter": (now + life).to_string(),
                    "beginRefreshAt": (now + life / 2).to_string()})
            } else if request.spec.signer_name == denies {
                json!({"conditions": condition("Denied")})
            } else {
                continue;
            };
            let name = request.metadata.name.unwrap_or_default();
            let patch = Patch::Merge(json!({"status": status}));
            requests.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// What OpenSSL answers about a text.
fn openssl(arguments: &[&str], input: &str) -> Result<String> {
    let mut openssl = Command::new("openssl");
    openssl.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut openssl = openssl.spawn().context("running openssl")?;
    openssl.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = openssl.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The certificate of a new authority.
fn anchor() -> Result<String> {
    let key = ["-newkey", "ed25519", "-nodes", "-keyout", "/dev/null"];
    openssl(&[&["req", "-x509", "-subj", "/CN=test", "-days", "2"][..], &key].concat(), "")
}

/// Fails unless the key is that of the chain's first certificate.
fn assert_pair(key: &Path, chain: &Path) -> Result<()> {
    let (key, chain) = (fs::read_to_string(key)?, fs::read_to_string(chain)?);
    let of_key = openssl(&["pkey", "-pubout"], &key)?;
    let of_chain = openssl(&["x509", "-noout", "-pubkey"], &chain)?;
    ensure!(of_key == of_chain, "the certificate is for another key");
    Ok(())
}

/// Waits until the file has this content, or another one than it had.
async fn wait_for_file(path: &Path, wanted: impl Fn(&str) -> bool) -> Result<()> {
    wait_for(&format!("a change of {}", path.display()), LATER, async || {
        let content = fs::read_to_string(path).unwrap_or_default();
        Ok(if wanted(&content) { Look::Done(()) } else { Look::NotYet(format!("{} bytes", content.len())) })
    })
    .await
}

#[tokio::test]
async fn trust_anchors_and_certificates_are_in_volumes_and_follow_their_sources() {
    let mut tenant = Tenant::new("pod-certificates", 1).await.unwrap();
    let own = tenant.namespace().to_owned();
    let (signer, denying) = (format!("example.com/{own}"), format!("denies.example.com/{own}"));
    let authority = FakeAuthority::new();
    let (anchor, another) = (anchor().unwrap(), anchor().unwrap());
    let bundles: Api<ClusterTrustBundle> = Api::all(tenant.client());
    let bundle = |name: &str, signer: Option<&str>, pem: &str| -> ClusterTrustBundle {
        let metadata = json!({"name": name, "labels": {"tier": "live"}});
        let spec = json!({"signerName": signer, "trustBundle": pem});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    let of_signer = format!("example.com:{own}:live");
    let parameters = PostParams::default();
    bundles.create(&parameters, &bundle(&own, None, &format!("# A comment.\n{anchor}"))).await.unwrap();
    bundles.create(&parameters, &bundle(&of_signer, Some(&signer), &anchor)).await.unwrap();

    let certificate = |kind: &str, paths: Value| {
        let mut source = json!({"signerName": signer, "keyType": kind, "maxExpirationSeconds": 7200});
        source.as_object_mut().unwrap().extend(paths.as_object().unwrap().clone());
        json!({"podCertificate": source})
    };
    let mut object = pod("web", IDLE);
    object["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    object["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [
        {"clusterTrustBundle": {"name": own, "path": "named.pem"}},
        {"clusterTrustBundle": {"signerName": signer, "labelSelector": {"matchLabels": {"tier": "live"}}, "path": "signer.pem"}},
        {"clusterTrustBundle": {"name": "no-such-bundle", "optional": true, "path": "none.pem"}},
        certificate("ED25519", json!({"credentialBundlePath": "bundle.pem"})),
        certificate("ECDSAP521", json!({"keyPath": "key.pem", "certificateChainPath": "chain.pem"})),
        certificate("RSA3072", json!({"credentialBundlePath": "rsa.pem"})),
    ]}}]);
    let mut denied = pod("denied", IDLE);
    denied["spec"]["volumes"] = json!([{"name": "v", "projected": {"sources": [
        {"podCertificate": {"signerName": denying, "keyType": "ECDSAP256", "credentialBundlePath": "b.pem"}}]}}]);

    let requests = tenant.api::<PodCertificateRequest>();
    let (pods, web) = (tenant.api::<Pod>(), name(&tenant.create_pod(object).await.unwrap()));
    tenant.create_pod(denied).await.unwrap();
    let before = tokio::select! {
        failed = sign(&tenant, &authority, &signer, &denying) => panic!("{failed:?}"),
        ready = wait_for_object(&pods, &web, SOON, is_ready) => ready.unwrap(),
    };
    let dir: PathBuf =
        tenant.nodes[0].root_dir().join("pods").join(uid(&before)).join("volumes/kubernetes.io~projected/v");
    let read = |file: &str| fs::read_to_string(dir.join(file)).unwrap();
    assert_eq!(
        ["named.pem", "signer.pem", "none.pem"].map(read),
        [anchor.clone(), anchor.clone(), String::new()]
    );
    assert_pair(&dir.join("key.pem"), &dir.join("chain.pem")).unwrap();
    for file in ["bundle.pem", "rsa.pem"] {
        assert_pair(&dir.join(file), &dir.join(file)).unwrap();
    }
    assert_eq!(read("chain.pem").matches("BEGIN CERTIFICATE").count(), 2);

    let text = "permanently denied";
    wait_for("the event of a denied certificate", SOON, async || {
        let events = tenant.api::<Event>().list(&ListParams::default()).await?.items;
        let messages: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
        let is_there = messages.iter().any(|message| message.contains(text));
        Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
    })
    .await
    .unwrap();

    let patch = Patch::Merge(json!({"spec": {"trustBundle": another}}));
    bundles.patch(&of_signer, &PatchParams::default(), &patch).await.unwrap();
    wait_for_file(&dir.join("signer.pem"), |content| content == another).await.unwrap();

    let (old, count) = (read("bundle.pem"), requests.list(&ListParams::default()).await.unwrap().items.len());
    tenant.nodes[0].kill_agent().unwrap();
    tenant.nodes[0].start_agent().unwrap();
    let path = dir.join("bundle.pem");
    let changed = |content: &str| !content.is_empty() && content != old;
    tokio::select! {
        failed = sign(&tenant, &authority, &signer, &denying) => panic!("{failed:?}"),
        changed = wait_for_file(&path, changed) => changed.unwrap(),
    }
    assert!(requests.list(&ListParams::default()).await.unwrap().items.len() > count);
    assert_pair(&path, &path).unwrap();
    assert_undisturbed(&tenant, &before).await.unwrap();

    for pod in ["web", "denied"] {
        delete(&tenant, pod, Some(0)).await.unwrap();
        wait_until_gone::<Pod>(&tenant.api(), pod).await.unwrap();
    }
    wait_until_clean(&tenant.nodes[0]).await.unwrap();
    for bundle in [&own, &of_signer] {
        bundles.delete(bundle, &Default::default()).await.unwrap();
    }
}

//! The node's own API: through the API server, with credentials and rights of every kind, and with a certificate of the cluster.

use std::process::Command;

use anyhow::{Context, Result, bail};
use hostlet_integration::cluster::{Agent, Joining, Node, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::support::{LATER, SOON};

/// What the API server says about a path of a node.
fn through_the_api_server(tenant: &Tenant, path: &str) -> Result<String> {
    let path = format!("/api/v1/nodes/{}/proxy{path}", tenant.nodes[0].name());
    tenant.cluster().kubectl(&["get", "--raw", &path])
}

/// The status code and body of a request that is sent to the node itself.
fn ask(node: &Node, path: &str, arguments: &[&str]) -> Result<(String, String)> {
    let mut curl: Command = node.host().command("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--insecure",
        "--max-time",
        "60",
        "--write-out",
        "\n%{http_code}",
    ]);
    let output = curl.args(arguments).arg(format!("https://{}:10250{path}", node.address())).output();
    let output = output.context("running curl")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, code) = text.rsplit_once('\n').context("no status code")?;
    Ok((code.to_owned(), body.to_owned()))
}

#[tokio::test]
async fn the_api_server_reaches_a_node_and_strangers_do_not() {
    let mut tenant = Tenant::new("node-api", 1).await.unwrap();
    let client = tenant.client();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    assert_eq!(through_the_api_server(&tenant, "/healthz").unwrap(), "ok");
    assert_eq!(through_the_api_server(&tenant, "/healthz/syncloop").unwrap(), "ok");

    let node = &tenant.nodes[0];
    let unauthorized = ("401".to_owned(), "Unauthorized".to_owned());
    for arguments in [&[][..], &["--header", "Authorization: Bearer none"]] {
        assert_eq!(ask(node, "/healthz", arguments).unwrap(), unauthorized);
        assert_eq!(ask(node, "/exec/a/b/c", arguments).unwrap(), unauthorized);
    }

    let account: ServiceAccount = tenant
        .create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}))
        .await
        .unwrap();
    let namespace = account.metadata.namespace.unwrap();
    let token = tenant.cluster().kubectl(&["create", "token", "reader", "-n", &namespace]).unwrap();
    let header = format!("Authorization: Bearer {}", token.trim());
    let with_token = |path: &str| ask(node, path, &["--header", &header]);
    let (code, text) = with_token("/healthz").unwrap();
    let user = format!("system:serviceaccount:{namespace}:reader");
    let forbidden =
        format!("Forbidden (user={user}, verb=get, resource=nodes, subresource(s)=[healthz proxy])\n");
    assert_eq!((code.as_str(), text), ("403", forbidden));

    let role = format!("{namespace}-reader");
    let rights = ["--verb=get", "--resource=nodes/healthz"];
    tenant.cluster().kubectl(&["create", "clusterrole", &role, rights[0], rights[1]]).unwrap();
    let binding = [&format!("--clusterrole={role}"), &format!("--serviceaccount={namespace}:reader")];
    tenant.cluster().kubectl(&["create", "clusterrolebinding", &role, binding[0], binding[1]]).unwrap();
    // The refusal is kept for 30 s.
    wait_for("the reader may read", SOON, async || {
        let (code, text) = with_token("/healthz")?;
        let may = code == "200" && text == "ok";
        Ok(if may { Look::Done(()) } else { Look::NotYet(format!("{code} {text}")) })
    })
    .await
    .unwrap();
    assert_eq!(with_token("/stats/summary").unwrap().0, "403");
    for kind in ["clusterrolebinding", "clusterrole"] {
        tenant.cluster().kubectl(&["delete", kind, &role]).unwrap();
    }
}

/// The requests for serving certificates of a node that nobody has approved.
async fn pending(tenant: &Tenant) -> Result<Vec<String>> {
    let user = format!("system:node:{}", tenant.nodes[0].name());
    let requests: Api<CertificateSigningRequest> = Api::all(tenant.client());
    let all = requests.list(&ListParams::default()).await.context("listing requests")?;
    let is_pending = |request: &CertificateSigningRequest| {
        let conditions = request.status.as_ref().and_then(|status| status.conditions.as_ref());
        request.spec.signer_name == "kubernetes.io/kubelet-serving"
            && request.spec.username.as_deref() == Some(&user)
            && conditions.is_none_or(Vec::is_empty)
    };
    Ok(all.into_iter().filter(is_pending).filter_map(|request| request.metadata.name).collect())
}

#[tokio::test]
async fn a_node_serves_with_a_certificate_of_the_cluster() {
    let extra = json!({"serverTLSBootstrap": true, "tlsCertFile": null, "tlsPrivateKeyFile": null});
    let agents = [Agent::chosen().unwrap()];
    let mut tenant = Tenant::joining("serving", &agents, Joining::BootstrapToken, &extra).await.unwrap();
    let client = tenant.client();
    tenant.nodes[0].wait_until_ready(&client).await.unwrap();
    let names = wait_for("a request for a serving certificate", SOON, async || {
        let names = pending(&tenant).await?;
        Ok(if names.is_empty() { Look::NotYet("there is none".to_owned()) } else { Look::Done(names) })
    })
    .await
    .unwrap();
    // Without a certificate there is no handshake, on a port that is open.
    let refused = ask(&tenant.nodes[0], "/healthz", &[]).unwrap_err().to_string();
    assert!(refused.contains("alert"), "{refused}");
    for name in names {
        tenant.cluster().kubectl(&["certificate", "approve", &name]).unwrap();
    }
    wait_for("the API server trusts the node", LATER, async || {
        Ok(match through_the_api_server(&tenant, "/healthz") {
            Ok(text) if text == "ok" => Look::Done(()),
            Ok(other) => Look::NotYet(other),
            Err(error) => Look::NotYet(format!("{error:#}")),
        })
    })
    .await
    .unwrap();
    let current = tenant.nodes[0].certificates().join("kubelet-server-current.pem");
    let mut openssl = Command::new("openssl");
    openssl.args(["x509", "-noout", "-subject", "-ext", "subjectAltName,extendedKeyUsage", "-in"]);
    let shown = openssl.arg(&current).output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let node = &tenant.nodes[0];
    for part in [
        format!("system:node:{}", node.name()),
        format!("DNS:{}", node.name()),
        format!("IP Address:{}", node.address()),
        "TLS Web Server Authentication".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
}

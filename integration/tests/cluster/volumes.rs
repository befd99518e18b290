//! The default volumes of cluster pods, as seen by a process in the pod.

use std::fs;

use hostlet_integration::cluster::{Tenant, check};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{LATER, SOON, delete, ip, pod, run, wait_until_clean, wait_until_gone};

/// Serves the output of `show` for the directory `/v`: type, mode, owner and path of each entry, and each file's text.
const SERVE_VOLUMES: &str = r#"
mkdir -p /www
cd /v
find . | sort | while read -r path; do stat -c '%F %a %u:%g %n' "$path"; done | grep -v '/\.\.[0-9]' > /www/tree
for file in $(find . -type l | grep -v '/\.\.data$' | sort); do
  [ -f "$file" ] && case $file in *token) ;; *ca.crt) ;; *) echo "$file: $(cat "$file")" ;; esac
done | sed 's/config.seen=.*/config.seen=(time)/' > /www/texts
grep -E ' /v' /proc/mounts | cut -d' ' -f2,3 | sed 's/ ext4$\| xfs$\| btrfs$\| overlay$/ disk/' | sort > /www/mounts
cp /v/projected/token /www/token
ln -s /v/cm/k /www/k
trap 'exit 0' TERM
httpd -f -p 8080 -h /www & wait"#;

#[tokio::test]
async fn volumes_look_as_on_a_stock_kubelets_node_and_follow_their_objects() {
    let tenant = Tenant::new("volumes", 1).await.unwrap();
    let (node, shared) = (&tenant.nodes[0], tenant.nodes[0].root_dir().join("../shared"));
    fs::create_dir_all(&shared).unwrap();
    fs::write(shared.join("theirs"), "kept\n").unwrap();
    let config = json!({"metadata": {"name": "cm"}, "data": {"k": "first", "other.txt": "hello"}, "binaryData": {"b": "AAE="}});
    tenant.create::<ConfigMap>(config).await.unwrap();
    tenant
        .create::<Secret>(json!({"metadata": {"name": "sec"}, "stringData": {"pw": "s3cret"}}))
        .await
        .unwrap();

    let mut object = pod("volumes", SERVE_VOLUMES);
    object["metadata"]["labels"] = json!({"app": "volumes", "zone": "z"});
    object["metadata"]["annotations"] = json!({"note": "a \"quoted\" one"});
    object["spec"]["securityContext"] = json!({"fsGroup": 3000});
    object["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
    let mounts = ["cm", "picked", "sec", "down", "projected", "empty", "mem", "host"];
    object["spec"]["containers"][0]["volumeMounts"] =
        mounts.iter().map(|name| json!({"name": name, "mountPath": format!("/v/{name}")})).collect();
    object["spec"]["volumes"] = json!([
        {"name": "cm", "configMap": {"name": "cm"}},
        {"name": "picked", "configMap": {
            "name": "cm", "defaultMode": 0o640, "items": [{"key": "k", "path": "deep/er/k", "mode": 0o400}],
        }},
        {"name": "sec", "secret": {"secretName": "sec", "defaultMode": 0o400}},
        {"name": "down", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}},
            {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
            {"path": "cpu", "resourceFieldRef": {
                "containerName": "main", "resource": "limits.cpu", "divisor": "1m",
            }},
        ]}},
        {"name": "projected", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "audience": "tests", "expirationSeconds": 3600}},
            {"configMap": {"name": "kube-root-ca.crt"}},
            {"configMap": {"name": "none", "optional": true}},
            {"secret": {"name": "sec", "items": [{"key": "pw", "path": "own/pw"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]}},
        {"name": "empty", "emptyDir": {}},
        {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        {"name": "host", "hostPath": {"path": shared.canonicalize().unwrap(), "type": "Directory"}},
    ]);
    let running = run(&tenant, object).await.unwrap();
    let page = |path: &str| node.host().http_get(&format!("{}:8080", ip(&running)), path);
    // It is ready as soon as its container runs; its server takes a moment.
    let served = wait_for("the pod's server", SOON, async || page("/token").map(Look::Done));
    served.await.unwrap();
    let lines = |path: &str| page(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let seen = json!({"tree": lines("/tree"), "texts": lines("/texts"), "mounts": lines("/mounts")});
    check("volumes", &seen, &[(tenant.namespace(), "(namespace)")]).unwrap();

    let spec = TokenReviewSpec { token: page("/token").unwrap(), audiences: Some(vec!["tests".to_owned()]) };
    let reviews: Api<TokenReview> = Api::all(tenant.client());
    let review = TokenReview { spec, ..TokenReview::default() };
    let review = reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap();
    assert_eq!(review.authenticated, Some(true), "{review:?}");
    let user = review.user.unwrap();
    assert_eq!(user.username, Some(format!("system:serviceaccount:{}:default", tenant.namespace())));
    let bound = &user.extra.unwrap()["authentication.kubernetes.io/pod-name"];
    assert_eq!(bound, &["volumes"]);

    assert_eq!(page("/k").unwrap(), "first");
    let change = Patch::Merge(json!({"data": {"k": "second"}}));
    tenant.api::<ConfigMap>().patch("cm", &PatchParams::default(), &change).await.unwrap();
    let changed = wait_for("the changed ConfigMap in the pod's file", LATER, async || {
        let text = page("/k")?;
        Ok(if text == "second" { Look::Done(()) } else { Look::NotYet(text) })
    });
    changed.await.unwrap();

    delete(&tenant, "volumes", None).await.unwrap();
    wait_until_gone(&tenant.api::<k8s_openapi::api::core::v1::Pod>(), "volumes").await.unwrap();
    wait_until_clean(node).await.unwrap();
    assert_eq!(fs::read_to_string(shared.join("theirs")).unwrap(), "kept\n");
}

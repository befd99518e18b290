//! What a node answers through the API server's proxy: lists of pods, its configuration, the pages about its process, metrics, logs and
//! checkpoints. Recorded from the stock kubelet where the answers do not depend on the host.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hostlet_integration::cluster::{Agent, Tenant, check};
use hostlet_integration::{Look, wait_for};
use http::Request;
use serde_json::{Value, json};

use crate::support::{SOON, pod, run};

/// Sends a request to a node of the tenant.
async fn ask(tenant: &Tenant, method: &str, path: &str, accept: &str, body: &str) -> Result<String> {
    let uri = format!("/api/v1/nodes/{}/proxy{path}", tenant.nodes[0].name());
    let request = Request::builder().method(method).uri(uri).header("accept", accept);
    Ok(tenant.client().request_text(request.body(body.as_bytes().to_vec())?).await?)
}

async fn get(tenant: &Tenant, path: &str) -> Result<String> {
    ask(tenant, "GET", path, "application/json, */*", "").await
}

/// The pod of this test in a list.
fn own(list: &str, name: &str) -> Result<(Value, Value)> {
    let mut list: Value = serde_json::from_str(list)?;
    let items = list["items"].take();
    let mut items = items.as_array().cloned().unwrap_or_default().into_iter();
    let item = items.find(|item| item["metadata"]["name"] == name);
    Ok((list, item.with_context(|| format!("{name} is not listed"))?))
}

#[tokio::test]
async fn lists_of_pods_equal_the_stock_kubelets() {
    let tenant = Tenant::new("podlists", 1).await.unwrap();
    run(&tenant, pod("web", "sleep 1000")).await.unwrap();
    let names = [
        (tenant.namespace(), "(tenant)"),
        (tenant.nodes[0].address(), "(address)"),
        (tenant.nodes[0].name(), "(node)"),
    ];
    // The stock kubelet's list has the status that its watch has seen.
    wait_for("the running pod in the list", SOON, async || {
        let (list, mut web) = own(&get(&tenant, "/pods").await?, "web")?;
        if web["status"]["phase"] != "Running" {
            return Ok(Look::NotYet(web["status"].to_string()));
        }
        ensure!(
            list == json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": null}),
            "{list}"
        );
        // Who wrote which field, and when it was seen, differ from run to run.
        web["metadata"]["managedFields"].take();
        if let Some(seen) = web["metadata"]["annotations"].get_mut("kubernetes.io/config.seen") {
            *seen = "(time)".into();
        }
        check("pods-endpoint", &web, &names)?;
        Ok(Look::Done(()))
    })
    .await
    .unwrap();
    wait_for("the container that runs", SOON, async || {
        let (_, mut web) = own(&get(&tenant, "/runningpods/").await?, "web")?;
        // The stock kubelet has the image's ID, hostlet its name.
        let Some(image) =
            web["spec"]["containers"].get_mut(0).and_then(|container| container.get_mut("image"))
        else {
            return Ok(Look::NotYet(web.to_string()));
        };
        *image = "(image)".into();
        check("running-pods-endpoint", &web, &names)?;
        Ok(Look::Done(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_configuration_and_the_pages_have_the_stock_kubelets_fields() {
    let tenant = Tenant::new("pages", 1).await.unwrap();
    let configuration: Value = serde_json::from_str(&get(&tenant, "/configz").await.unwrap()).unwrap();
    let fields: Vec<&String> = configuration["kubeletconfig"].as_object().unwrap().keys().collect();
    check("configz-fields", &json!(fields), &[]).unwrap();
    for (path, kind) in [("/statusz", "Statusz"), ("/flagz", "Flagz")] {
        let text = get(&tenant, path).await.unwrap();
        assert!(
            text.starts_with(&format!("\nkubelet {}\nWarning: ", path.trim_start_matches('/'))),
            "{text}"
        );
        let accept = format!("application/json;g=config.k8s.io;v=v1beta1;as={kind}");
        let page: Value =
            serde_json::from_str(&ask(&tenant, "GET", path, &accept, "").await.unwrap()).unwrap();
        let mut fields: Vec<String> = page.as_object().unwrap().keys().cloned().collect();
        fields.extend(page["flags"].as_object().into_iter().flat_map(|flags| flags.keys().cloned()));
        fields.sort();
        check(&format!("{}-fields", path.trim_start_matches('/')), &json!(fields), &[]).unwrap();
        assert_eq!(page["metadata"], json!({"name": "kubelet"}));
    }
    let set = ask(&tenant, "PUT", "/debug/flags/v", "*/*", "2").await.unwrap();
    assert_eq!(set, "successfully set klog.logging.verbosity to 2\n");
}

/// The names of the labels of each sample.
fn samples(text: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line: &str| -> Option<(String, Vec<String>)> {
        let (name, rest) = line.split_at(line.find(['{', ' '])?);
        let labels = rest.split("=\"").filter_map(|part| part.rsplit(['{', ',']).next());
        let mut labels: Vec<String> = labels.map(str::to_owned).collect();
        labels.pop();
        labels.sort();
        Some((name.to_owned(), labels))
    };
    lines.filter_map(sample).collect()
}

#[tokio::test]
async fn metrics_have_the_stock_kubelets_labels() {
    const COMPARED: [&str; 14] = [
        "kubelet_node_name",
        "kubelet_running_pods",
        "kubelet_running_containers",
        "kubelet_working_pods",
        "kubelet_pod_start_duration_seconds_count",
        "kubelet_pod_worker_duration_seconds_bucket",
        "kubelet_runtime_operations_total",
        "kubelet_cgroup_manager_duration_seconds_bucket",
        "kubelet_pleg_relist_duration_seconds_bucket",
        "volume_manager_total_volumes",
        "storage_operation_duration_seconds_count",
        "rest_client_requests_total",
        "rest_client_request_duration_seconds_bucket",
        "kubernetes_build_info",
    ];
    let tenant = Tenant::new("metricsz", 1).await.unwrap();
    let mut probed = pod("web", "sleep 1000");
    probed["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    probed["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    probed["spec"]["containers"][0]["livenessProbe"] =
        json!({"exec": {"command": ["true"]}, "periodSeconds": 1});
    run(&tenant, probed).await.unwrap();
    wait_for("the metrics", SOON, async || {
        let all = samples(&get(&tenant, "/metrics").await?);
        let compared: BTreeMap<&str, &Vec<String>> =
            COMPARED.into_iter().filter_map(|name| Some((name, all.get(name)?))).collect();
        if compared.len() < COMPARED.len() {
            return Ok(Look::NotYet(format!("only {:?}", compared.keys())));
        }
        check("metrics-labels", &json!(compared), &[])?;
        let probes = samples(&get(&tenant, "/metrics/probes").await?);
        if !probes.contains_key("prober_probe_total") {
            return Ok(Look::NotYet(format!("only {:?}", probes.keys())));
        }
        check("metrics-probes-labels", &json!(probes), &[])?;
        get(&tenant, "/healthz").await?;
        check("metrics-slis-labels", &json!(samples(&get(&tenant, "/metrics/slis").await?)), &[])?;
        Ok(Look::Done(()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn system_logs_are_listed_and_checkpoints_refused_with_the_same_words() {
    let tenant = Tenant::with("syslogs", 1, &json!({"enableSystemLogQuery": true})).await.unwrap();
    run(&tenant, pod("web", "sleep 1000")).await.unwrap();
    let listing = get(&tenant, "/logs/").await.unwrap();
    assert!(listing.starts_with("<!doctype html>\n<meta name=\"viewport\""), "{listing}");
    // What is there depends on the host; directories end with a slash.
    assert!(listing.contains("/</a>\n") && listing.ends_with("</pre>\n"), "{listing}");
    for (query, said) in [
        ("query=a%20b", "input contains unsupported characters"),
        ("query=a&tailLines=x", "strconv.Atoi: parsing \"x\": invalid syntax"),
        ("tailLines=1", "cannot be empty with options"),
        ("query=/../etc/passwd", "query: Invalid value: [\"/../etc/passwd\"]"),
    ] {
        let error = get(&tenant, &format!("/logs/?{query}")).await.unwrap_err().to_string();
        assert!(error.contains(said), "{query}: {error}");
    }
    let nothing = get(&tenant, "/logs/?query=no-such-service-here").await.unwrap();
    assert_eq!(nothing, "\nlog not found for no-such-service-here\n");
    let post = async |path: &str| ask(&tenant, "POST", path, "*/*", "").await.unwrap_err().to_string();
    let missing = post(&format!("/checkpoint/{}/none/c", tenant.namespace())).await;
    assert!(missing.contains("pod does not exist"), "{missing}");
    let missing = post(&format!("/checkpoint/{}/web/none", tenant.namespace())).await;
    assert!(missing.contains("container none does not exist"), "{missing}");
    if tenant.nodes[0].agent() == Agent::Hostlet {
        let profile = get(&tenant, "/debug/pprof/profile").await.unwrap_err().to_string();
        assert!(profile.contains("no pprof profiles"), "{profile}");
    }
}

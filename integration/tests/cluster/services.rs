//! Services from a pod's view: environment variables and addresses.

use hostlet_integration::cluster::Tenant;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::json;

use crate::support::{IDLE, SOON, ip, pod, run};

const SERVE_ENVIRONMENT: &str = "mkdir /www; env | sort > /www/env; exec httpd -f -p 8080 -h /www";

#[tokio::test]
async fn services_are_in_the_environment_and_have_their_addresses() {
    let mut tenant = Tenant::new("services", 2).await.unwrap();
    let service = json!({
        "metadata": {"name": "front-door"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    });
    let service: Service = tenant.create(service).await.unwrap();
    let address = service.spec.unwrap().cluster_ip.unwrap();
    // A kubelet starts pods before it has received a new Service, but none before its first listing.
    for node in &mut tenant.nodes {
        node.stop_agent().await.unwrap();
        node.start_agent().unwrap();
        node.start_proxy().unwrap();
    }

    let mut with = pod("with", SERVE_ENVIRONMENT);
    with["metadata"]["labels"] = json!({"app": "web"});
    let with = run(&tenant, with).await.unwrap();
    let mut without = pod("without", SERVE_ENVIRONMENT);
    without["spec"]["enableServiceLinks"] = json!(false);
    let without = run(&tenant, without).await.unwrap();
    run(&tenant, pod("other", IDLE)).await.unwrap();

    let host = tenant.nodes[0].host();
    // A pod is ready as soon as its container runs; its server takes a moment.
    let served = async |pod: &Pod| {
        let address = format!("{}:8080", ip(pod));
        let page =
            wait_for("the pod's server", SOON, async || host.http_get(&address, "/env").map(Look::Done));
        page.await.unwrap()
    };
    let environment = served(&with).await;
    for line in [
        format!("FRONT_DOOR_SERVICE_HOST={address}"),
        "FRONT_DOOR_SERVICE_PORT=80".to_owned(),
        "FRONT_DOOR_SERVICE_PORT_HTTP=80".to_owned(),
        format!("FRONT_DOOR_PORT=tcp://{address}:80"),
        format!("FRONT_DOOR_PORT_80_TCP=tcp://{address}:80"),
        format!("FRONT_DOOR_PORT_80_TCP_ADDR={address}"),
        "FRONT_DOOR_PORT_80_TCP_PORT=80".to_owned(),
        "FRONT_DOOR_PORT_80_TCP_PROTO=tcp".to_owned(),
        "KUBERNETES_SERVICE_HOST=10.96.0.1".to_owned(),
        "KUBERNETES_SERVICE_PORT=443".to_owned(),
    ] {
        assert!(environment.lines().any(|other| other == line), "no {line} in\n{environment}");
    }
    let environment = served(&without).await;
    assert!(!environment.contains("FRONT_DOOR"), "{environment}");
    // Every pod has the API server's variables.
    assert!(environment.contains("KUBERNETES_SERVICE_HOST=10.96.0.1"), "{environment}");

    for node in &tenant.nodes {
        let answers = wait_for("the service answers on every node", SOON, async || {
            let page = node.host().http_get(&address, "/env")?;
            Ok(if page.contains("FRONT_DOOR_SERVICE_HOST") { Look::Done(()) } else { Look::NotYet(page) })
        });
        answers.await.unwrap();
    }
}

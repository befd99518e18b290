//! Devices of a DRA driver of Kubernetes 1.30, published as ResourceSlices and allocated by the scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use hostlet_integration::cluster::{Agent, DraDriver, Tenant};
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::support::{IDLE, LATER, SOON, node_name, pod, wait_for_object};

const DRIVER: &str = "gpu.example.com";

/// Devices by name, with their value of the attribute `revision`.
type Devices = BTreeMap<String, i64>;

/// Resource models of 1.30. The last device is the only one with 16Gi.
fn models(devices: &Devices) -> Value {
    let last = devices.keys().next_back();
    let instance = |(name, revision): (&String, &i64)| {
        let memory = if Some(name) == last { "16Gi" } else { "8Gi" };
        json!({"name": name, "attributes": [
            {"name": "model", "string": "big"}, {"name": "revision", "int": revision}, {"name": "healthy", "bool": true},
            {"name": "driver-version", "version": "1.2.3"}, {"name": "memory", "quantity": memory},
            {"name": "lanes", "intSlice": {"ints": [1, 2, 4]}}, {"name": "modes", "stringSlice": {"strings": ["a", "b"]}},
        ]})
    };
    json!([{"namedResources": {"instances": devices.iter().map(instance).collect::<Vec<_>>()}}])
}

/// The slices of the driver on the tenant's node.
async fn slices(tenant: &Tenant) -> Vec<ResourceSlice> {
    let api: Api<ResourceSlice> = Api::all(tenant.client());
    let selector = format!("spec.nodeName={},spec.driver={DRIVER}", tenant.nodes[0].name());
    api.list(&ListParams::default().fields(&selector)).await.unwrap().items
}

/// The devices of a complete pool that the Node owns, or what is wrong with it.
async fn published(tenant: &Tenant) -> Result<Devices, String> {
    let nodes: Api<Node> = Api::all(tenant.client());
    let node = nodes.get_opt(tenant.nodes[0].name()).await.unwrap().and_then(|node| node.metadata.uid);
    let slices = slices(tenant).await;
    let mut devices = Devices::new();
    for slice in &slices {
        let (pool, first) = (&slice.spec.pool, &slices[0].spec.pool);
        if pool.generation != first.generation || pool.resource_slice_count != slices.len() as i64 {
            return Err(format!("a mixed pool of {} slices: {pool:?} {first:?}", slices.len()));
        }
        if slice.metadata.owner_references.as_ref().map(|owners| owners[0].uid.clone()) != node {
            return Err("another owner".to_owned());
        }
        for device in slice.spec.devices.iter().flatten() {
            let revision = device.attributes.as_ref().and_then(|all| all["revision"].int).unwrap_or_default();
            if devices.insert(device.name.clone(), revision).is_some() {
                return Err(format!("{} twice", device.name));
            }
        }
    }
    Ok(devices)
}

async fn wait_until_published(tenant: &Tenant, expected: &Devices, timeout: Duration) {
    wait_for("the devices in ResourceSlices", timeout, async || {
        let now = published(tenant).await;
        Ok(if now.as_ref() == Ok(expected) {
            Look::Done(())
        } else {
            Look::NotYet(format!("{:?}", now.map(|all| all.len())))
        })
    })
    .await
    .unwrap();
}

/// The versions of the slices.
async fn versions(tenant: &Tenant) -> Vec<Option<String>> {
    slices(tenant).await.into_iter().map(|slice| slice.metadata.resource_version).collect()
}

#[tokio::test]
async fn devices_of_a_driver_of_1_30_are_published_and_allocated() {
    if Agent::chosen().unwrap() == Agent::Stock {
        return; // Upstream removed this in 1.31.
    }
    let hostlet = json!({"hostlet": {"publishResourceSlices": true}});
    let mut tenant = Tenant::with("dra", 1, &hostlet).await.unwrap();
    let node = tenant.nodes[0].name().to_owned();
    let mut devices: Devices = (0..130).map(|number| (format!("gpu-{number:03}"), 1)).collect();
    let mut driver = DraDriver::new(&tenant.nodes[0], DRIVER, &models(&devices)).unwrap();
    driver.start().unwrap();
    wait_until_published(&tenant, &devices, SOON).await;
    let all = slices(&tenant).await;
    assert_eq!(all.len(), 2);
    let device = serde_json::to_value(&all[0].spec.devices.as_ref().unwrap()[0]).unwrap();
    let name = |slice: &ResourceSlice| slice.spec.devices.as_ref().unwrap()[0].name.clone();
    assert_eq!(
        device,
        json!({
            "name": name(&all[0]),
            "attributes": {
                "model": {"string": "big"}, "revision": {"int": 1}, "healthy": {"bool": true},
                "driver_version": {"version": "1.2.3"},
                // A default server does not store lists.
                "lanes": {"string": "1,2,4"}, "modes": {"string": "a,b"},
            },
            "capacity": {"memory": {"value": "8Gi"}},
        })
    );

    // The scheduler allocates a device. hostlet would reject its pod, so it is killed before.
    tenant.nodes[0].kill_agent().unwrap();
    allocate(&tenant, &node).await;
    driver.kill().unwrap();
    driver.start().unwrap();
    let before = versions(&tenant).await;
    let streams = driver.streams();
    tenant.nodes[0].start_agent().unwrap();
    wait_for("a stream of the next hostlet", SOON, async || {
        Ok(if driver.streams() > streams { Look::Done(()) } else { Look::NotYet(driver.log()) })
    })
    .await
    .unwrap();
    // One device changes: one slice does. Nothing was written because of the restarts.
    devices.insert("gpu-003".to_owned(), 2);
    driver.say(&models(&devices)).unwrap();
    wait_until_published(&tenant, &devices, SOON).await;
    let after = versions(&tenant).await;
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!((before.len(), after.len(), changed), (2, 2, 1), "{before:?} {after:?}");

    // The driver crashes and comes back.
    driver.kill().unwrap();
    devices.insert("gpu-130".to_owned(), 1);
    driver.say(&models(&devices)).unwrap();
    driver.start().unwrap();
    wait_until_published(&tenant, &devices, SOON).await;

    // The Node is deleted with its slices, and registered again.
    let nodes: Api<Node> = Api::all(tenant.client());
    let uid = nodes.get(&node).await.unwrap().metadata.uid;
    nodes.delete(&node, &DeleteParams::default()).await.unwrap();
    wait_for_object_or_none(&nodes, &node, |again| again.metadata.uid != uid).await;
    wait_until_published(&tenant, &devices, LATER).await;

    // The driver is removed.
    driver.uninstall().unwrap();
    wait_until_published(&tenant, &Devices::new(), SOON).await;
}

/// Waits until the object exists and satisfies `wanted`.
async fn wait_for_object_or_none(nodes: &Api<Node>, name: &str, wanted: impl Fn(&Node) -> bool) {
    wait_for("the Node again", SOON, async || {
        let node = nodes.get_opt(name).await?;
        Ok(if node.is_some_and(|node| wanted(&node)) {
            Look::Done(())
        } else {
            Look::NotYet("not yet".to_owned())
        })
    })
    .await
    .unwrap();
}

/// Lets the scheduler allocate the device with 16Gi by an attribute and a capacity, and removes the pod.
async fn allocate(tenant: &Tenant, node: &str) {
    let class = tenant.namespace().to_owned();
    let selector = |expression: String| json!([{"cel": {"expression": expression}}]);
    let classes: Api<DeviceClass> = Api::all(tenant.client());
    let model = format!("device.driver == \"{DRIVER}\" && device.attributes[\"{DRIVER}\"].model == \"big\"");
    let object = json!({"metadata": {"name": class}, "spec": {"selectors": selector(model)}});
    classes.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let memory = format!(
        "device.capacity[\"{DRIVER}\"].memory.compareTo(quantity(\"16Gi\")) >= 0 && \
         \"2\" in device.attributes[\"{DRIVER}\"].lanes.split(\",\")"
    );
    let request =
        json!({"name": "gpu", "exactly": {"deviceClassName": class, "selectors": selector(memory)}});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}});
    tenant.create::<ResourceClaim>(claim).await.unwrap();
    let mut object = pod("user", IDLE);
    object["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    object["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
    tenant.create_pod(object).await.unwrap();
    let is_bound = |pod: &Pod| !node_name(pod).is_empty();
    let bound = wait_for_object(&tenant.api::<Pod>(), "user", SOON, is_bound).await.unwrap();
    assert_eq!(node_name(&bound), node);
    let claim = tenant.api::<ResourceClaim>().get("gpu").await.unwrap();
    let allocation =
        claim.status.and_then(|status| status.allocation).and_then(|allocation| allocation.devices);
    let results = allocation.and_then(|devices| devices.results).unwrap_or_default();
    let device: Vec<(&str, &str, &str)> =
        results.iter().map(|result| (&*result.driver, &*result.pool, &*result.device)).collect();
    assert_eq!(device, [(DRIVER, &*format!("{node}/hostlet"), "gpu-129")]);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    tenant.api::<Pod>().delete("user", &now).await.unwrap();
    classes.delete(&class, &DeleteParams::default()).await.unwrap();
}

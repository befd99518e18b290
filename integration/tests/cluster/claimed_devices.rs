//! Devices that pods claim from a DRA driver on upstream's helper: allocated by the scheduler, prepared and unprepared through the agent;
//! restarts of the driver, the agent and containerd in between.

use anyhow::{Result, ensure};
use hostlet_integration::cluster::{DraPlugin, Tenant};
use hostlet_integration::real::containerd_version;
use hostlet_integration::{Look, wait_for};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::support::{
    IDLE, LATER, SOON, assert_undisturbed, delete, is_ready, pod, run, statuses, uid as uid_of,
    wait_for_object, wait_until_clean, wait_until_gone,
};

/// A driver on the tenant's node, and a class of its devices.
struct Bed {
    tenant: Tenant,
    driver: DraPlugin,
    class: String,
}

impl Bed {
    async fn new(name: &str, is_beta: bool) -> Result<Self> {
        let tenant = Tenant::new(name, 1).await?;
        let class = tenant.namespace().to_owned();
        let mut driver = DraPlugin::new(&tenant, &tenant.nodes[0], &format!("{class}.dra.test"), is_beta)?;
        driver.start()?;
        let bed = Self { tenant, driver, class };
        bed.wait_until_published(true).await?;
        let expression = format!("device.driver == \"{}\"", bed.driver.name());
        let object = json!({
            "metadata": {"name": bed.class},
            "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": bed.extended()},
        });
        let classes: Api<DeviceClass> = Api::all(bed.tenant.client());
        classes.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(bed)
    }

    /// The extended resource that stands for a device.
    fn extended(&self) -> String {
        format!("{}.dra.test/device", self.class)
    }

    async fn wait_until_published(&self, is_published: bool) -> Result<()> {
        let slices: Api<ResourceSlice> = Api::all(self.tenant.client());
        let selector = format!("spec.driver={}", self.driver.name());
        wait_for("ResourceSlices of the driver", SOON, async || {
            let slices = slices.list(&ListParams::default().fields(&selector)).await?.items;
            let is_done = slices.is_empty() != is_published;
            Ok(if is_done { Look::Done(()) } else { Look::NotYet(self.driver.log()) })
        })
        .await
    }

    fn request(&self) -> Value {
        json!({"devices": {"requests": [{"name": "device", "exactly": {"deviceClassName": self.class}}]}})
    }

    /// Creates a claim, and returns its UID.
    async fn claim(&self, name: &str) -> Result<String> {
        let claim = json!({"metadata": {"name": name}, "spec": self.request()});
        Ok(self.tenant.create::<ResourceClaim>(claim).await?.metadata.uid.unwrap_or_default())
    }

    async fn wait_for_calls(&self, operation: &str, claim: &str, number: usize) -> Result<()> {
        wait_for(&format!("{number} calls to {operation} {claim}"), SOON, async || {
            let calls = self.driver.calls(operation, claim);
            Ok(if calls >= number { Look::Done(()) } else { Look::NotYet(self.driver.log()) })
        })
        .await
    }

    async fn end(self) -> Result<()> {
        let classes: Api<DeviceClass> = Api::all(self.tenant.client());
        classes.delete(&self.class, &DeleteParams::default()).await?;
        wait_until_clean(&self.tenant.nodes[0]).await
    }
}

/// A pod whose container uses this claim of the pod.
fn with_claim(name: &str, claim: Value) -> Value {
    let script = format!("env | grep ^DRA_ | sort; {IDLE}");
    let mut object = pod(name, &script);
    object["spec"]["resourceClaims"] = json!([claim]);
    object["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": claim["name"]}]});
    object
}

fn shared(name: &str) -> Value {
    with_claim(name, json!({"name": "gpu", "resourceClaimName": "shared"}))
}

/// Whether the container got what the driver's CDI file says.
async fn assert_device(bed: &Bed, pod: &str) -> Result<()> {
    if containerd_version()? < (2, 0) {
        // CDI is unknown to it, or off.
        return Ok(());
    }
    let log = bed.tenant.api::<Pod>().logs(pod, &kube::api::LogParams::default()).await?;
    ensure!(log.starts_with("DRA_DEVICE_"), "the container of {pod} has no device: {log:?}");
    Ok(())
}

#[tokio::test]
async fn claims_are_prepared_once_and_unprepared_after_the_last_pod_whatever_restarts() {
    for is_beta in [false, true] {
        let name = if is_beta { "dra-beta" } else { "dra-claims" };
        let mut bed = Bed::new(name, is_beta).await.unwrap();
        let template = json!({"metadata": {"name": "own"}, "spec": {"spec": bed.request()}});
        bed.tenant.create::<ResourceClaimTemplate>(template).await.unwrap();
        let uid = bed.claim("shared").await.unwrap();
        let first = run(&bed.tenant, shared("first")).await.unwrap();
        let second = run(&bed.tenant, shared("second")).await.unwrap();
        let own = json!({"name": "gpu", "resourceClaimTemplateName": "own"});
        let third = run(&bed.tenant, with_claim("third", own)).await.unwrap();
        for pod in ["first", "second", "third"] {
            assert_device(&bed, pod).await.unwrap();
        }
        assert_eq!(bed.driver.calls("prepare", &uid), 1);

        bed.tenant.nodes[0].kill_agent().unwrap();
        bed.driver.kill().unwrap();
        bed.tenant.nodes[0].restart_containerd().await.unwrap();
        bed.driver.start().unwrap();
        bed.tenant.nodes[0].start_agent().unwrap();
        for pod in [&first, &second, &third] {
            assert_undisturbed(&bed.tenant, pod).await.unwrap();
        }
        delete(&bed.tenant, "first", None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), "first").await.unwrap();
        assert_undisturbed(&bed.tenant, &second).await.unwrap();
        assert_eq!((bed.driver.calls("prepare", &uid), bed.driver.calls("unprepare", &uid)), (1, 0));
        delete(&bed.tenant, "second", None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), "second").await.unwrap();
        assert_eq!(bed.driver.calls("unprepare", &uid), 1);
        // Its claim is deleted with it, after it was unprepared.
        delete(&bed.tenant, "third", None).await.unwrap();
        wait_until_gone(&bed.tenant.api::<Pod>(), "third").await.unwrap();
        bed.end().await.unwrap();
    }
}

#[tokio::test]
async fn a_driver_that_fails_or_is_missing_is_named_and_waited_for() {
    let mut bed = Bed::new("dra-faults", false).await.unwrap();
    let uid = bed.claim("shared").await.unwrap();
    bed.driver.fails("prepare", Some("no more devices")).unwrap();
    bed.tenant.create_pod(shared("user")).await.unwrap();
    let text = "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim shared";
    wait_for_event(&bed.tenant, "FailedPrepareDynamicResources", &[text, "no more devices"]).await.unwrap();
    bed.driver.fails("prepare", None).unwrap();
    let user = wait_for_object(&bed.tenant.api::<Pod>(), "user", LATER, is_ready).await.unwrap();

    // Deleted while the driver is away: the pod stays, and its claim reserved, until the driver has undone what it prepared.
    bed.driver.stop().unwrap();
    delete(&bed.tenant, "user", None).await.unwrap();
    let is_ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
    let ending = wait_for_object(&bed.tenant.api::<Pod>(), "user", SOON, is_ending).await.unwrap();
    assert_eq!((uid_of(&ending), bed.driver.calls("unprepare", &uid)), (uid_of(&user), 0));
    bed.driver.start().unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "user").await.unwrap();
    bed.wait_for_calls("unprepare", &uid, 1).await.unwrap();

    // Deleted before anything was prepared: it does not wait for the driver (kubernetes/kubernetes#131957). Its devices are allocated before
    // the driver is away for so long that nothing of it is published, however busy the machine is.
    bed.wait_until_published(true).await.unwrap();
    bed.tenant.nodes[0].kill_agent().unwrap();
    let mut early = shared("early");
    early["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    bed.tenant.create_pod(early).await.unwrap();
    let is_bound = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    wait_for_object(&bed.tenant.api::<Pod>(), "early", SOON, is_bound).await.unwrap();
    bed.driver.stop().unwrap();
    bed.tenant.nodes[0].start_agent().unwrap();
    let text = format!("DRA driver {} is not registered", bed.driver.name());
    wait_for_event(&bed.tenant, "FailedPrepareDynamicResources", &[&text]).await.unwrap();
    delete(&bed.tenant, "early", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "early").await.unwrap();
    // What the driver published is deleted once it has been away for half a minute.
    bed.wait_until_published(false).await.unwrap();
    bed.end().await.unwrap();
}

#[tokio::test]
async fn a_driver_that_was_killed_offers_no_devices_until_it_is_back() {
    let mut bed = Bed::new("dra-killed", false).await.unwrap();
    let uid = bed.claim("shared").await.unwrap();
    // Its registration socket stays, so that it is not deregistered.
    bed.driver.kill().unwrap();
    bed.wait_until_published(false).await.unwrap();
    bed.driver.start().unwrap();
    bed.wait_until_published(true).await.unwrap();
    run(&bed.tenant, shared("user")).await.unwrap();
    delete(&bed.tenant, "user", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "user").await.unwrap();
    bed.wait_for_calls("unprepare", &uid, 1).await.unwrap();
    bed.end().await.unwrap();
}

#[tokio::test]
async fn the_health_of_claimed_devices_is_in_the_status_of_their_container() {
    let bed = Bed::new("dra-health", false).await.unwrap();
    bed.claim("shared").await.unwrap();
    bed.driver.reports_health("Healthy").unwrap();
    run(&bed.tenant, shared("user")).await.unwrap();
    for (report, health, message) in [
        ("Healthy", "Healthy", None),
        ("Unhealthy too hot", "Unhealthy", Some("too hot")),
        ("Healthy", "Healthy", None),
    ] {
        bed.driver.reports_health(report).unwrap();
        let is_reported = |pod: &Pod| {
            let resources =
                statuses(pod).iter().flat_map(|status| status.allocated_resources_status.iter().flatten());
            let devices = resources
                .filter(|resource| resource.name == "claim:gpu")
                .flat_map(|it| it.resources.iter().flatten());
            let seen: Vec<_> =
                devices.map(|device| (device.health.as_deref(), device.message.as_deref())).collect();
            seen == [(Some(health), message)]
        };
        wait_for_object(&bed.tenant.api::<Pod>(), "user", SOON, is_reported).await.unwrap();
    }
    delete(&bed.tenant, "user", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "user").await.unwrap();
    bed.end().await.unwrap();
}

#[tokio::test]
async fn an_extended_resource_of_a_class_is_a_device_that_is_prepared() {
    let bed = Bed::new("dra-extended", false).await.unwrap();
    let script = format!("env | grep ^DRA_ | sort; {IDLE}");
    let mut object = pod("user", &script);
    object["spec"]["containers"][0]["resources"] = json!({"limits": {(bed.extended()): "1"}});
    let user = run(&bed.tenant, object).await.unwrap();
    let claim = user.status.as_ref().and_then(|status| status.extended_resource_claim_status.clone());
    // The scheduler allocated it as a claim.
    let claim = claim.unwrap().resource_claim_name;
    let claim = bed.tenant.api::<ResourceClaim>().get(&claim).await.unwrap().metadata.uid.unwrap_or_default();
    assert_eq!(bed.driver.calls("prepare", &claim), 1);
    assert_device(&bed, "user").await.unwrap();
    delete(&bed.tenant, "user", None).await.unwrap();
    wait_until_gone(&bed.tenant.api::<Pod>(), "user").await.unwrap();
    assert_eq!(bed.driver.calls("unprepare", &claim), 1);
    bed.end().await.unwrap();
}

/// Waits for an event with this reason whose message has all these texts.
async fn wait_for_event(tenant: &Tenant, reason: &str, texts: &[&str]) -> Result<()> {
    wait_for(&format!("an event {reason}"), SOON, async || {
        let events = tenant.api::<Event>().list(&ListParams::default()).await?.items;
        let messages: Vec<String> = events
            .into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect();
        let is_there = messages.iter().any(|message| texts.iter().all(|text| message.contains(text)));
        Ok(if is_there { Look::Done(()) } else { Look::NotYet(messages.join("\n")) })
    })
    .await
}

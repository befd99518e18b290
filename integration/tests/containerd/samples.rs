//! The pods that everybody runs, alone on a host: they become Ready or complete, with their objects beside their manifests.

use hostlet_integration::real::RealHost;
use hostlet_integration::samples::Sample;
use k8s_openapi::api::core::v1::Pod;

use crate::support::{LATER, is_ready, wait_for_pod, wait_until_empty};

fn is_done(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    is_ready(pod) || phase == Some("Succeeded")
}

#[tokio::test]
async fn the_pods_that_everybody_runs_become_ready_alone_on_a_host() {
    let host = RealHost::start().await.unwrap();
    let samples = Sample::all(&host.directory("samples").unwrap()).unwrap();
    let daemon = host.start_hostlet("").await.unwrap();
    let mut names = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        for (number, object) in sample.manifests().iter().enumerate() {
            host.write_manifest(&format!("objects-{index}-{number}.json"), &object.to_string()).unwrap();
        }
        for workload in sample.workloads().unwrap() {
            host.write_manifest(&format!("{}.json", workload.name), &workload.pod().to_string()).unwrap();
            names.push(workload.name);
        }
    }
    assert!(names.len() >= 11, "{names:?}");
    for name in &names {
        wait_for_pod(&daemon, name, LATER, is_done).await.unwrap();
    }
    for name in &names {
        host.remove_manifest(&format!("{name}.json")).unwrap();
    }
    wait_until_empty(&host).await.unwrap();
}

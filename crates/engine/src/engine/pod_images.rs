//! What the pods of this node need of images, for their garbage collection. Decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use hostlet_image::gc::{PodImages, PodImagesSource};
use hostlet_observe::status::{LifecycleSummary, StatusCache};
use hostlet_pod::{AdmittedPod, DesiredPods};
use tokio::sync::watch;

/// The desired pods; before every source is ready, also those that an earlier daemon admitted.
pub(super) fn pod_images(
    desired: watch::Receiver<DesiredPods>,
    adopted: Vec<Arc<AdmittedPod>>,
    statuses: StatusCache,
) -> PodImagesSource {
    Arc::new(move || {
        let desired = desired.borrow().clone();
        let known: BTreeSet<_> = desired.pods.iter().map(|pod| pod.reference.uid.clone()).collect();
        let earlier = adopted.iter().filter(|pod| !desired.ready && !known.contains(&pod.reference.uid));
        let pods = desired.pods.iter().chain(earlier);
        pods.map(|pod| images_of(pod, statuses.lifecycle(&pod.reference.uid))).collect()
    })
}

/// The images of a pod in this state of its life.
fn images_of(pod: &AdmittedPod, lifecycle: Option<LifecycleSummary>) -> PodImages {
    let has_terminated = match lifecycle {
        Some(LifecycleSummary::Terminated) => true,
        Some(LifecycleSummary::Active | LifecycleSummary::Terminating) | None => pod.has_ended(),
    };
    let of_containers = pod.all_containers().filter_map(|container| container.spec.image.clone());
    let of_volumes = pod.image_volumes().filter_map(|(_, source)| source.reference.clone());
    PodImages {
        pod: pod.reference.clone(),
        // What is left of it in the runtime uses images all the same.
        names: of_containers.chain(of_volumes).filter(|_| !has_terminated).collect(),
        has_image_volumes: pod.image_volumes().next().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hostlet_pod::testing;

    #[test]
    fn a_pod_needs_its_images_until_it_has_terminated() {
        let mut object = testing::pod("p", "u", "Always", &["a"]);
        let spec = object.spec.as_mut().unwrap();
        spec.containers[0].image = Some("web:1".to_owned());
        spec.volumes =
            serde_json::from_value(json!([{"name": "v", "image": {"reference": "model:2"}}])).unwrap();
        let pod = AdmittedPod::new(object);
        for (lifecycle, names) in [
            (None, &["web:1", "model:2"][..]),
            (Some(LifecycleSummary::Active), &["web:1", "model:2"]),
            (Some(LifecycleSummary::Terminating), &["web:1", "model:2"]),
            (Some(LifecycleSummary::Terminated), &[]),
        ] {
            let images = images_of(&pod, lifecycle);
            assert_eq!(
                (images.names.as_slice(), images.has_image_volumes),
                (&*names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), true)
            );
        }
    }

    #[test]
    fn adopted_pods_count_until_every_source_is_ready() {
        let pod = |name: &str| AdmittedPod::new(testing::pod(name, name, "Always", &["c"]));
        let desired = watch::Sender::new(DesiredPods::default());
        let source = pod_images(desired.subscribe(), vec![pod("old")], StatusCache::default());
        let names = || source().iter().map(|images| images.pod.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(), ["old"]);
        let new = pod("new");
        desired.send_replace(DesiredPods { pods: vec![new.clone()], ..DesiredPods::default() });
        assert_eq!(names(), ["new", "old"]);
        desired.send_replace(DesiredPods { ready: true, pods: vec![new], ..DesiredPods::default() });
        assert_eq!(names(), ["new"]);
    }
}

//! Which images a step needs, in the order in which it needs them. Pure.

use k8s_openapi::api::core::v1::{Container, ImageVolumeSource};

use hostlet_image::PullPolicy;
use hostlet_observe::status::{ImageOwner, ImagePull};
use hostlet_pod::AdmittedPod;

/// An image that a container needs to start: that which it runs, or that of an image volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageNeed {
    /// The image, and what it is for.
    pub(super) pull: ImagePull,
    pub(super) policy: PullPolicy,
}

impl ImageNeed {
    /// The image of this container.
    pub(super) fn of_container(container: &Container) -> Self {
        let owner = ImageOwner::Container(container.name.clone());
        Self::new(owner, container.image.as_deref(), container.image_pull_policy.as_deref())
    }

    /// The image of the image volume with this name.
    pub(super) fn of_volume(name: &str, source: &ImageVolumeSource) -> Self {
        let owner = ImageOwner::Volume(name.to_owned());
        Self::new(owner, source.reference.as_deref(), source.pull_policy.as_deref())
    }

    fn new(owner: ImageOwner, image: Option<&str>, policy: Option<&str>) -> Self {
        // Defaulting has set the policy; without one, a present image is not pulled.
        let policy = policy.and_then(PullPolicy::from_api).unwrap_or(PullPolicy::IfNotPresent);
        Self { pull: ImagePull { owner, image: image.unwrap_or_default().to_owned() }, policy }
    }

    /// The container that its events are about; those of a volume are about the pod, as upstream.
    pub(super) fn container(&self) -> Option<&str> {
        match &self.pull.owner {
            ImageOwner::Container(name) => Some(name),
            ImageOwner::Volume(_) => None,
        }
    }
}

/// The images for the creation of `containers`, now or later: of each the image volumes that it mounts, then its own. Volumes that no
/// container of the pod mounts are last; upstream pulls them, too. None of volumes unless the runtime `mounts_images`.
pub(super) fn image_needs(
    pod: &AdmittedPod,
    containers: &[&Container],
    mounts_images: bool,
) -> Vec<ImageNeed> {
    let volumes: Vec<_> = pod.image_volumes().filter(|_| mounts_images && !containers.is_empty()).collect();
    let of_volumes = |is_needed: &dyn Fn(&str) -> bool| -> Vec<ImageNeed> {
        let needed = volumes.iter().filter(|(name, _)| is_needed(name));
        needed.map(|(name, source)| ImageNeed::of_volume(name, source)).collect()
    };
    let mut needs = Vec::new();
    for container in containers {
        needs.extend(of_volumes(&|name| mounts(container, name)));
        needs.push(ImageNeed::of_container(container));
    }
    needs.extend(of_volumes(&|name| !pod.all_containers().any(|container| mounts(container.spec, name))));
    let mut seen = Vec::new();
    needs.retain(|need| {
        let is_new = !seen.contains(need);
        seen.push(need.clone());
        is_new
    });
    needs
}

/// Whether a container mounts this volume.
pub(super) fn mounts(container: &Container, volume: &str) -> bool {
    container.volume_mounts.iter().flatten().any(|mount| mount.name == volume)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hostlet_pod::testing;

    #[test]
    fn volumes_come_before_the_first_container_that_mounts_them_and_only_once() {
        let containers = |names: &[&str], volumes: [&[&str]; 2]| -> Vec<Container> {
            let both = names.iter().zip(volumes).map(|(name, volumes)| {
                let mounts = volumes.iter().map(|volume| json!({"name": volume, "mountPath": format!("/{volume}")}));
                json!({"name": name, "image": format!("{name}:1"), "volumeMounts": mounts.collect::<Vec<_>>()})
            });
            serde_json::from_value(both.collect()).unwrap()
        };
        let mut object = testing::pod("p", "u", "Always", &[]);
        let spec = object.spec.as_mut().unwrap();
        let volume = |name| json!({"name": name, "image": {"reference": format!("{name}:2")}});
        let names = ["unused", "x", "y", "z"];
        spec.volumes = serde_json::from_value(names.map(volume).into_iter().collect()).unwrap();
        spec.init_containers = Some(containers(&["i", "j"], [&[], &["x"]]));
        spec.containers = containers(&["m", "n"], [&["x", "y"], &["z", "x"]]);
        let pod = AdmittedPod::new(object);
        let all: Vec<&Container> = pod.all_containers().map(|container| container.spec).collect();
        let images = |containers: &[&Container], mounts_images| -> Vec<String> {
            let needs = image_needs(&pod, containers, mounts_images);
            needs.into_iter().map(|need| need.pull.image).collect()
        };
        assert_eq!(images(&all, true), ["i:1", "x:2", "j:1", "y:2", "m:1", "z:2", "n:1", "unused:2"]);
        assert_eq!(images(&all[3..], true), ["x:2", "z:2", "n:1", "unused:2"]);
        assert_eq!(images(&all, false), ["i:1", "j:1", "m:1", "n:1"]);
        assert!(images(&[], true).is_empty(), "a pod whose containers run needs no image");
    }
}

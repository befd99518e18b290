//! emptyDir volumes, on disk, in memory or in huge pages. Pure.

use std::collections::BTreeSet;

use hostlet_base::causes::{Group, Rule, rule};
use hostlet_base::{Quantity, ResourceList};
use hostlet_pod::resources::huge_pages;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Pod, Volume};

use super::kind::Kind;
use crate::error::ContentError;
use crate::model::{Content, Context, Desired, DesiredVolume, KindDirectory, Provider, Store};

/// The medium of volumes in huge pages of the only size that the pod requests.
const HUGE_PAGES_MEDIUM: &str = "HugePages";
/// The medium of volumes in huge pages of one size; the size follows it.
const HUGE_PAGES_OF_SIZE: &str = "HugePages-";

pub(crate) const DIRECTORY: KindDirectory =
    KindDirectory { plugin: "kubernetes.io/empty-dir", provider: Provider::Containers };

/// Causes why an emptyDir cannot be made.
const RULES: &[Rule] = &[
    rule(
        &["no resource request for huge pages"],
        "a volume is in huge pages, and the pod requests none of that size",
        "request hugepages-<size> in the resources of the container that mounts it",
    ),
    rule(
        &["requests multiple huge page sizes"],
        "a volume is in huge pages, and the pod requests several sizes",
        "name the size in emptyDir.medium: HugePages-<size>",
    ),
];

/// The kind of emptyDir volumes.
pub(super) struct EmptyDir;

impl Kind for EmptyDir {
    fn is_kind_of(&self, volume: &Volume) -> bool {
        volume.empty_dir.is_some()
    }

    fn plugin(&self) -> &'static str {
        DIRECTORY.plugin
    }

    fn directory(&self) -> Option<KindDirectory> {
        Some(DIRECTORY)
    }

    fn is_local_ephemeral(&self, volume: &Volume) -> bool {
        let medium = volume.empty_dir.as_ref().and_then(|source| source.medium.as_deref());
        medium.unwrap_or_default().is_empty()
    }

    fn desired(&self, volume: &Volume, context: &Context<'_>) -> Option<DesiredVolume> {
        let source = volume.empty_dir.as_ref()?;
        let (mode, group) = (mode(source), context.group());
        Some(match store(source, context) {
            Ok(store) => {
                let content = Content::Theirs;
                DesiredVolume::Own(Desired { directory: DIRECTORY, store, mode, group, content })
            }
            Err(error) => DesiredVolume::invalid(&volume.name, &error),
        })
    }

    fn rules(&self) -> Group {
        &[RULES]
    }
}

/// The store of a volume in memory without a limit of its own.
pub(super) fn memory(context: &Context<'_>) -> Store {
    Store::Memory(memory_size(None, context))
}

/// Where the volume stores its content.
fn store(source: &EmptyDirVolumeSource, context: &Context<'_>) -> Result<Store, ContentError> {
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Store::Disk),
        "Memory" => {
            let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
            Ok(Store::Memory(memory_size(limit, context)))
        }
        medium if medium == HUGE_PAGES_MEDIUM || medium.starts_with(HUGE_PAGES_OF_SIZE) => {
            page_size(medium, context.pod).map(Store::HugePages)
        }
        medium => Err(ContentError::Unsupported(format!("storage medium {medium:?}"))),
    }
}

/// The permissions of the directory, from the API's number; the sticky bit may be among them.
fn mode(source: &EmptyDirVolumeSource) -> Option<u32> {
    source.mode.map(|mode| mode.unsigned_abs() & 0o1777)
}

/// The page size of a volume in huge pages: that of the medium, or the only one that the pod requests. A pod has to request what
/// it mounts. Upstream's rules and texts.
fn page_size(medium: &str, pod: &Pod) -> Result<u64, ContentError> {
    let requested: BTreeSet<u64> = requested_page_sizes(pod);
    let wanted = medium
        .strip_prefix(HUGE_PAGES_OF_SIZE)
        .map(|size| Quantity::parse(size).map_err(|error| (size, error)));
    let found = match wanted {
        Some(Err((size, error))) => {
            return Err(ContentError::HugePages(format!("medium {medium}: page size {size:?}: {error}")));
        }
        Some(Ok(size)) => u64::try_from(size.value()).ok().filter(|size| requested.contains(size)),
        None if requested.len() > 1 => {
            return Err(ContentError::HugePages(format!(
                "medium: {medium} can't be used if container requests multiple huge page sizes"
            )));
        }
        None => requested.first().copied(),
    };
    found.ok_or_else(|| {
        ContentError::HugePages(format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        ))
    })
}

/// The sizes in the requests of the pod and of its containers.
fn requested_page_sizes(pod: &Pod) -> BTreeSet<u64> {
    let Some(spec) = &pod.spec else { return BTreeSet::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.map(|container| &container.resources).chain([&spec.resources]).flatten();
    let requests = resources.flat_map(|resources| &resources.requests);
    requests.flat_map(|requests| huge_pages(&ResourceList::read(Some(requests))).into_keys()).collect()
}

/// Size of a volume in memory: the minimum of its limit, the pod's memory limit and the node's memory.
fn memory_size(limit: Option<Quantity>, context: &Context<'_>) -> u64 {
    let own = limit.and_then(|limit| u64::try_from(limit.value()).ok());
    let node = u64::try_from(context.node.memory).unwrap_or_default();
    [own, context.memory_limit].into_iter().flatten().filter(|bytes| *bytes > 0).fold(node, u64::min)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::kinds::testing::{NODE, Pod};
    use crate::model::{Content, DesiredVolume, Store};

    fn store(source: Value, memory_limit: Option<u64>) -> Result<Store, String> {
        let mut pod = Pod::new(json!({}));
        pod.memory_limit = memory_limit;
        match pod.desired_volume(json!({"emptyDir": source})) {
            DesiredVolume::Own(desired) => {
                assert_eq!(desired.content, Content::Theirs);
                Ok(desired.store)
            }
            DesiredVolume::Invalid(problem) => Err(problem.to_string()),
            other => panic!("an empty directory is the pod's own: {other:?}"),
        }
    }

    #[test]
    fn memory_is_bounded_by_the_least_of_what_bounds_it() {
        let node = u64::try_from(NODE.memory).unwrap();
        assert_eq!(store(json!({}), Some(1)), Ok(Store::Disk));
        assert_eq!(store(json!({"sizeLimit": "1Gi"}), None), Ok(Store::Disk));
        assert_eq!(store(json!({"medium": "Memory"}), None), Ok(Store::Memory(node)));
        assert_eq!(store(json!({"medium": "Memory"}), Some(64 << 20)), Ok(Store::Memory(64 << 20)));
        let limited = json!({"medium": "Memory", "sizeLimit": "16Mi"});
        assert_eq!(store(limited.clone(), Some(64 << 20)), Ok(Store::Memory(16 << 20)));
        assert_eq!(store(limited.clone(), Some(1 << 20)), Ok(Store::Memory(1 << 20)));
        assert_eq!(store(limited, Some(0)), Ok(Store::Memory(16 << 20)));
        assert_eq!(store(json!({"medium": "Memory", "sizeLimit": "0"}), None), Ok(Store::Memory(node)));
        assert_eq!(store(json!({"medium": "Memory", "sizeLimit": "1Ei"}), None), Ok(Store::Memory(node)));
        let refused = store(json!({"medium": "Cloud"}), None).unwrap_err();
        let refused = refused.strip_prefix("MountVolume.SetUp failed for volume \"v\" : ").unwrap();
        assert_eq!(refused, "storage medium \"Cloud\" is not supported");
    }

    #[test]
    fn huge_pages_are_of_a_size_that_the_pod_requests() {
        let of = |sizes: &[&str], medium: &str| {
            let container = |size: &&str| {
                let amount = json!({(format!("hugepages-{size}")): size});
                json!({"name": "c", "resources": {"limits": amount, "requests": amount}})
            };
            let (own, init) = sizes.split_first().map_or((None, sizes), |(own, init)| (Some(own), init));
            let own: Vec<Value> = own.iter().map(|size| container(size)).collect();
            let init: Vec<Value> = init.iter().map(container).collect();
            let pod = Pod::new(json!({"containers": own, "initContainers": init}));
            match pod.desired_volume(json!({"emptyDir": {"medium": medium}})) {
                DesiredVolume::Own(desired) => Ok(desired.store),
                DesiredVolume::Invalid(problem) => Err(problem.to_string()),
                other => panic!("an empty directory is the pod's own: {other:?}"),
            }
        };
        assert_eq!(of(&["2Mi"], "HugePages"), Ok(Store::HugePages(2 << 20)));
        assert_eq!(of(&["2Mi", "1Gi"], "HugePages-1Gi"), Ok(Store::HugePages(1 << 30)));
        let refused = |sizes, medium| of(sizes, medium).unwrap_err();
        assert!(refused(&["2Mi", "1Gi"], "HugePages").ends_with("requests multiple huge page sizes"));
        let none = "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages";
        assert!(refused(&["2Mi"], "HugePages-1Gi").ends_with(none));
        assert!(refused(&[], "HugePages").ends_with("no resource request for huge pages"));
        assert!(refused(&["2Mi"], "HugePages-big").contains("page size \"big\""));
    }
}

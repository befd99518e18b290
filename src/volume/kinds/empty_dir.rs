//! emptyDir volumes, on disk or in memory. Pure.

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;

use crate::types::Quantity;
use crate::volume::desired::{Context, Store};
use crate::volume::error::ContentError;

/// Where the volume stores its content.
pub(in crate::volume) fn store(
    source: &EmptyDirVolumeSource,
    context: &Context<'_>,
) -> Result<Store, ContentError> {
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Store::Disk),
        "Memory" => {
            let limit = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
            Ok(Store::Memory(memory_size(limit, context)))
        }
        medium => Err(ContentError::Unsupported(format!("storage medium {medium:?}"))),
    }
}

/// Size of a volume in memory: the minimum of its limit, the pod's memory limit and the node's memory.
pub(in crate::volume) fn memory_size(limit: Option<Quantity>, context: &Context<'_>) -> u64 {
    let own = limit.and_then(|limit| u64::try_from(limit.value()).ok());
    let node = u64::try_from(context.node.memory).unwrap_or_default();
    [own, context.memory_limit].into_iter().flatten().filter(|bytes| *bytes > 0).fold(node, u64::min)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::volume::desired::{Content, DesiredVolume, Store};
    use crate::volume::kinds::testing::{NODE, Pod};

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
        let refused = store(json!({"medium": "HugePages-2Mi"}), None).unwrap_err();
        let refused = refused.strip_prefix("MountVolume.SetUp failed for volume \"v\" : ").unwrap();
        assert_eq!(refused, "storage medium \"HugePages-2Mi\" is not supported");
    }
}

//! The meaning of fields of volume mounts. Pure.

use k8s_openapi::api::core::v1::VolumeMount;

/// Whether a mount is read-only with all its submounts (KEP-3857), given whether the runtime supports that; `None` if it must be and
/// cannot.
pub fn recursive_read_only(mount: &VolumeMount, is_supported: bool) -> Option<bool> {
    match mount.recursive_read_only.as_deref() {
        Some("Enabled") => is_supported.then_some(true),
        Some("IfPossible") => Some(is_supported),
        Some(_) | None => Some(false),
    }
}

/// The path of a mount in its container: the API permits relative ones, which begin at the root.
pub fn absolute_mount_path(mount: &VolumeMount) -> String {
    let path = &mount.mount_path;
    if path.starts_with('/') { path.clone() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_enabled_demands_support() {
        let of = |mode: Option<&str>, is_supported| {
            let mount =
                VolumeMount { recursive_read_only: mode.map(str::to_owned), ..VolumeMount::default() };
            recursive_read_only(&mount, is_supported)
        };
        assert_eq!((of(Some("Enabled"), true), of(Some("Enabled"), false)), (Some(true), None));
        assert_eq!((of(Some("IfPossible"), true), of(Some("IfPossible"), false)), (Some(true), Some(false)));
        for mode in [None, Some("Disabled")] {
            assert_eq!((of(mode, true), of(mode, false)), (Some(false), Some(false)));
        }
    }
}

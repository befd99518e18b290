//! What containerd says of its own settings in a verbose status. Informal: whatever is missing counts as unknown.

use std::collections::HashMap;

use serde_json::Value;

use hostlet_base::{CgroupDriver, json};

/// The settings of containerd's CRI plugin, from the texts of a verbose status; null for another runtime.
#[must_use]
pub fn containerd_settings(info: &HashMap<String, String>) -> Value {
    info.get("config").and_then(|text| json::from_slice(text.as_bytes()).ok()).unwrap_or_default()
}

/// The cgroup driver of the default handler, which containerd reports by `RuntimeConfig` only since version 2.
pub(super) fn cgroup_driver(settings: &Value) -> Option<CgroupDriver> {
    let containerd = &settings["containerd"];
    let handler = containerd["defaultRuntimeName"].as_str()?;
    let is_systemd = containerd["runtimes"][handler]["options"]["SystemdCgroup"].as_bool();
    Some(if is_systemd.unwrap_or(false) { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs })
}

/// The image of sandboxes, which containerd has among its CRI plugin's settings before version 2.
pub(super) fn sandbox_image(settings: &Value) -> Option<String> {
    settings["sandboxImage"].as_str().filter(|image| !image.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_of_the_default_handler_counts() {
        let settings = |systemd: &str| {
            let config = format!(
                r#"{{"containerd": {{"defaultRuntimeName": "runc", "runtimes": {{
                    "runc": {{"options": {{{systemd}}}}}, "other": {{"options": {{"SystemdCgroup": true}}}}}}}}}}"#
            );
            containerd_settings(&[("config".to_owned(), config)].into())
        };
        assert_eq!(cgroup_driver(&settings(r#""SystemdCgroup": true"#)), Some(CgroupDriver::Systemd));
        assert_eq!(cgroup_driver(&settings("")), Some(CgroupDriver::Cgroupfs));
        for info in [HashMap::new(), [("config".to_owned(), "{".to_owned())].into()] {
            assert_eq!(cgroup_driver(&containerd_settings(&info)), None);
        }
    }
}

//! The files of claimed devices, which a stock kubelet may have written.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use hostlet_dra::{ClaimView, Claims, ClaimsSettings, DraHandler, NoClaims};
use hostlet_plugins::{PluginEvent, PluginHandler, PluginRejected};
use hostlet_telemetry::Metrics;

/// Knows no driver.
struct NoDrivers;

impl PluginHandler for NoDrivers {
    fn plugin_type(&self) -> &'static str {
        "DRAPlugin"
    }

    fn validate(&self, _: &str, _: &Path, _: &[String]) -> Result<(), PluginRejected> {
        Ok(())
    }

    fn changed(&self, _: PluginEvent) {}

    fn describe(&self, _: &str) -> Option<serde_json::Value> {
        None
    }
}

/// The claims of a daemon that finds these files.
fn found(root: &Path) -> (Vec<ClaimView>, usize) {
    let settings =
        ClaimsSettings { root: root.to_owned(), boot: "boot".to_owned(), source: Arc::new(NoClaims) };
    let (_task, _health, claims) =
        Claims::new(settings, &DraHandler::new(Arc::new(NoDrivers)), &Metrics::default());
    (claims.views(), claims.pods().len())
}

/// Whatever is in the files, the daemon starts. A damaged record is set aside, and a sound one stays where it is.
pub fn claims_state(data: &[u8]) {
    let directory = tempfile::tempdir().unwrap();
    let (record, aside) =
        (directory.path().join("dra_manager_state"), directory.path().join("dra_manager_state.damaged"));
    fs::write(directory.path().join("dra_health_state"), data).unwrap();
    fs::write(&record, data).unwrap();
    let (views, pods) = found(directory.path());
    assert!(record.exists() != aside.exists());
    assert!(!aside.exists() || (views.is_empty() && pods == 0));

    // The same as the data of a record with its checksum, which a mutation would rarely hit.
    let Ok(text) = std::str::from_utf8(data) else { return };
    let outer = serde_json::json!({"Data": text, "Checksum": crc32fast::hash(data)});
    fs::write(&record, outer.to_string()).unwrap();
    let (views, pods) = found(directory.path());
    // Another daemon finds the same.
    if record.exists() {
        assert_eq!(found(directory.path()), (views, pods));
    }
}

//! The invariants of hostlet's readers of external data, for any input. A check panics if an invariant does not
//! hold. Used by the fuzz targets here and, without a fuzzer, by the test `fuzz` of hostlet.

mod archive;
mod claims;
mod config;
mod credentials;
mod devices;
mod dra;
mod kernel;
mod manifest;
mod numa;
mod pages;
mod plugin;
mod probe;
mod store;
mod streams;
mod text;

pub use archive::image_archive;
pub use claims::claims_state;
pub use config::config;
pub use credentials::{docker_config, provider_response};
pub use devices::device_checkpoint;
pub use dra::dra_message;
pub use kernel::kernel_file;
pub use manifest::{manifest, pod_answer};
pub use numa::numa_state;
pub use pages::{accept, log_query};
pub use plugin::plugin_info;
pub use probe::probe_location;
pub use store::store_file;
pub use streams::{spdy_frames, stream_message, stream_query};
pub use text::{env_file, image_reference, kernel_log, log_line, quantity, resolv_conf};

/// A check of one reader.
pub type Check = fn(&[u8]);

/// All checks, by the name of their target and of the directory of their corpus.
pub const CHECKS: [(&str, Check); 25] = [
    ("manifest", manifest),
    ("pod_answer", pod_answer),
    ("config", config),
    ("log_line", log_line),
    ("image_reference", image_reference),
    ("resolv_conf", resolv_conf),
    ("quantity", quantity),
    ("store_file", store_file),
    ("image_archive", image_archive),
    ("plugin_info", plugin_info),
    ("dra_message", dra_message),
    ("claims_state", claims_state),
    ("device_checkpoint", device_checkpoint),
    ("numa_state", numa_state),
    ("docker_config", docker_config),
    ("env_file", env_file),
    ("provider_response", provider_response),
    ("probe_location", probe_location),
    ("kernel_log", kernel_log),
    ("kernel_file", kernel_file),
    ("stream_query", stream_query),
    ("stream_message", stream_message),
    ("spdy_frames", spdy_frames),
    ("log_query", log_query),
    ("accept", accept),
];

/// Maximum lines of one message about a file, and maximum bytes of each.
const MOST_LINES: usize = 102;
const MOST_BYTES: usize = 2000;

/// A message is short enough to read, and has no control characters from the file.
fn check_message(message: &str) {
    let lines: Vec<&str> = message.lines().collect();
    assert!(!lines.is_empty() && lines.len() <= MOST_LINES, "{} lines", lines.len());
    for line in lines {
        assert!(line.len() <= MOST_BYTES, "a line of {} bytes", line.len());
        assert!(!line.contains(char::is_control), "control characters in {line:?}");
    }
}

//! Values of fields in the types of the settings. A missing value counts as zero, an empty path as none.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostlet_base::GoDuration;

/// Counts are not negative in a valid configuration.
pub(super) fn count(field: Option<i32>) -> usize {
    field.and_then(|number| number.try_into().ok()).unwrap_or_default()
}

/// Times are not negative in a valid configuration.
pub(super) fn time(field: Option<GoDuration>) -> Duration {
    field.and_then(GoDuration::to_std).unwrap_or_default()
}

/// The path of a file or directory.
pub(super) fn path(field: &Option<String>) -> Option<PathBuf> {
    field.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The socket path of a runtime endpoint `unix:///path`, or of a bare path; `None` for anything else.
pub(super) fn socket_path(endpoint: &str) -> Option<&Path> {
    let path = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_name_sockets() {
        let path = Some(Path::new("/run/c.sock"));
        assert_eq!(socket_path("unix:///run/c.sock"), path);
        assert_eq!(socket_path("/run/c.sock"), path);
        for endpoint in ["tcp://1.2.3.4:5", "unix://run/c.sock", "run/c.sock", ""] {
            assert_eq!(socket_path(endpoint), None, "{endpoint}");
        }
    }
}

//! What a runtime supports by its version, where the CRI has no flag for it. Pure.

use super::Version;

/// The first containerd that mounts images, and parts of images.
const IMAGES: (u32, u32) = (2, 1);
const IMAGE_SUB_PATHS: (u32, u32) = (2, 2);

/// The first containerd that stops containers with the signals of their specs.
const STOP_SIGNALS: (u32, u32) = (2, 3);

impl Version {
    /// Why the runtime ignores the stop signals of containers; `None` if it does not, as far as is known.
    pub fn ignores_stop_signals(&self) -> Option<String> {
        self.is_too_old(STOP_SIGNALS)
    }

    /// Why the runtime does not mount images; `None` if it does, as far as is known.
    pub fn mounts_no_images(&self) -> Option<String> {
        self.is_too_old(IMAGES)
    }

    /// Why the runtime would mount the whole image in place of a part; `None` if it does not, as far as is known.
    pub fn mounts_only_whole_images(&self) -> Option<String> {
        self.is_too_old(IMAGE_SUB_PATHS)
    }

    /// What to do about a containerd before version `first`. Other runtimes are expected to be new enough.
    fn is_too_old(&self, first: (u32, u32)) -> Option<String> {
        let Self { runtime_name, runtime_version, .. } = self;
        if runtime_name != "containerd" || major_and_minor(runtime_version)? >= first {
            return None;
        }
        let (major, minor) = first;
        Some(format!(
            "containerd {runtime_version} does not support it; update it to {major}.{minor} or newer"
        ))
    }
}

/// The first two numbers of a version such as `v2.4.2` or `1.6.20~ds1`.
fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.strip_prefix('v').unwrap_or(version).split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_mounted_before_parts_of_them_are() {
        for (runtime_version, none, whole_only) in [
            ("1.6.20~ds1", true, true),
            ("v2.0.5", true, true),
            ("v2.1.4", false, true),
            ("v2.2.0", false, false),
        ] {
            let version = Version {
                runtime_name: "containerd".to_owned(),
                runtime_version: runtime_version.to_owned(),
                api_version: "v1".to_owned(),
            };
            let of = (version.mounts_no_images().is_some(), version.mounts_only_whole_images().is_some());
            assert_eq!(of, (none, whole_only), "{runtime_version}");
        }
    }

    #[test]
    fn only_an_old_containerd_lacks_features() {
        let of = |name: &str, version: &str| Version {
            runtime_name: name.to_owned(),
            runtime_version: version.to_owned(),
            api_version: "v1".to_owned(),
        };
        for (name, version) in [
            ("containerd", "v2.3.0"),
            ("containerd", "2.10.0-rc.1"),
            ("containerd", "v3.0.0"),
            ("containerd", "unknown"),
            ("containerd", "2"),
            ("cri-o", "1.20.0"),
        ] {
            assert_eq!(of(name, version).ignores_stop_signals(), None, "{name} {version}");
        }
        for version in ["1.6.20~ds1", "1.7", "v2.2.5"] {
            let why = format!("containerd {version} does not support it; update it to 2.3 or newer");
            assert_eq!(of("containerd", version).ignores_stop_signals(), Some(why));
        }
    }
}

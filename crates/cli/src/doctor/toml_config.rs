//! containerd's configuration: whether it disables the CRI, the image of its sandboxes, and the minimal edit that enables the
//! CRI. Pure; keeps comments and formatting.

use toml_edit::{Array, DocumentMut, Item, TomlError};

use super::facts::DisabledCri;

/// The plugins without which there is no CRI: containerd 1's, and containerd 2's.
const CRI: [&str; 5] = [
    "cri",
    "io.containerd.grpc.v1.cri",
    "io.containerd.cri.v1.runtime",
    "io.containerd.cri.v1.images",
    "io.containerd.service.v1.cri",
];

/// Whether this configuration disables the CRI.
pub(super) fn disabled_cri(text: &str) -> Result<DisabledCri, TomlError> {
    let document: DocumentMut = text.parse()?;
    let disables = document.get("disabled_plugins").and_then(Item::as_array).is_some_and(|plugins| {
        plugins.iter().filter_map(|plugin| plugin.as_str()).any(|plugin| CRI.contains(&plugin))
    });
    Ok(if disables { DisabledCri::Yes } else { DisabledCri::No })
}

/// The configuration without the CRI among the disabled plugins; everything else is unchanged.
pub(super) fn with_cri(text: &str) -> Result<String, TomlError> {
    let mut document: DocumentMut = text.parse()?;
    if let Some(plugins) = document.get_mut("disabled_plugins").and_then(Item::as_array_mut) {
        plugins.retain(|plugin| plugin.as_str().is_none_or(|plugin| !CRI.contains(&plugin)));
        tidy(plugins);
    }
    Ok(document.to_string())
}

/// An array that lost its first item does not begin with the space before the next one.
fn tidy(plugins: &mut Array) {
    if let Some(first) = plugins.get_mut(0)
        && first.decor().prefix().and_then(|prefix| prefix.as_str()) == Some(" ")
    {
        first.decor_mut().set_prefix("");
    }
}

/// What containerd's effective configuration (`containerd config dump`) says of images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageSettings {
    /// The image of sandboxes.
    pub(super) sandbox: Option<String>,
    pub(super) snapshotter: Option<String>,
}

/// These settings of containerd 2, or else of containerd 1.
pub(super) fn image_settings(text: &str) -> ImageSettings {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let at = |path: &[&str]| {
        let item = path.iter().try_fold(document.as_item(), |item, name| item.get(name));
        item.and_then(Item::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    const IMAGES: &str = "io.containerd.cri.v1.images";
    const FIRST: &str = "io.containerd.grpc.v1.cri";
    ImageSettings {
        sandbox: at(&["plugins", IMAGES, "pinned_images", "sandbox"])
            .or_else(|| at(&["plugins", FIRST, "sandbox_image"])),
        snapshotter: at(&["plugins", IMAGES, "snapshotter"])
            .or_else(|| at(&["plugins", FIRST, "containerd", "snapshotter"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cri_is_enabled_and_the_rest_stays_as_it_was() {
        let docker = "#   Copyright\n\ndisabled_plugins = [\"cri\"]\n\n#root = \"/var/lib/containerd\"\n[grpc]\n  uid = 0\n";
        assert_eq!(disabled_cri(docker).unwrap(), DisabledCri::Yes);
        let enabled = with_cri(docker).unwrap();
        assert_eq!(enabled, docker.replace("[\"cri\"]", "[]"));
        assert_eq!(disabled_cri(&enabled).unwrap(), DisabledCri::No);
        assert_eq!(with_cri(&enabled).unwrap(), enabled);

        let several =
            "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\", \"btrfs\", 'zfs'] # slow\n";
        assert_eq!(with_cri(several).unwrap(), "version = 2\ndisabled_plugins = [\"btrfs\", 'zfs'] # slow\n");
        let lines = "disabled_plugins = [\n  \"btrfs\",\n  \"cri\",\n]\n";
        assert_eq!(disabled_cri(&with_cri(lines).unwrap()).unwrap(), DisabledCri::No);
        assert!(with_cri(lines).unwrap().contains("btrfs"));
    }

    #[test]
    fn a_configuration_that_does_not_disable_the_cri_is_left_alone() {
        for text in ["", "disabled_plugins = []\n", "[plugins.cri]\n  disabled_plugins = [\"cri\"]\n"] {
            assert_eq!(disabled_cri(text).unwrap(), DisabledCri::No, "{text}");
            assert_eq!(with_cri(text).unwrap(), text);
        }
        assert!(disabled_cri("disabled_plugins = [").is_err());
    }

    #[test]
    fn the_settings_of_both_generations_are_found() {
        let first = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"registry.k8s.io/pause:3.6\"\n\
                     [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n  snapshotter = \"overlayfs\"\n";
        let second = "version = 3\n[plugins.'io.containerd.cri.v1.images']\n  snapshotter = 'native'\n\
                      [plugins.'io.containerd.cri.v1.images'.pinned_images]\n  sandbox = 'registry.k8s.io/pause:3.10'\n";
        let settings = |sandbox: &str, snapshotter: &str| ImageSettings {
            sandbox: Some(sandbox.to_owned()),
            snapshotter: Some(snapshotter.to_owned()),
        };
        assert_eq!(image_settings(first), settings("registry.k8s.io/pause:3.6", "overlayfs"));
        assert_eq!(image_settings(second), settings("registry.k8s.io/pause:3.10", "native"));
        for text in ["", "[plugins]\n", "[plugins"] {
            assert_eq!(image_settings(text), ImageSettings::default(), "{text}");
        }
    }
}

//! The configuration of the daemon, or the defaults and why there is none.

use hostlet_config::{Config, ConfigErrors, KubeletFlags, Loaded, load};

use super::super::facts::Configuration;
use super::Place;

/// Reads the configuration. Fails only if not even the defaults are one.
pub(super) fn configuration(place: &Place) -> Result<(Config, Configuration), ConfigErrors> {
    let (loaded, errors) = match load(&place.flags, &place.hostname) {
        Ok(loaded) => (loaded, Vec::new()),
        Err(errors) => {
            let mut flags = KubeletFlags::default();
            flags.process.root_dir.clone_from(&place.flags.process.root_dir);
            (load(&flags, &place.hostname)?, errors.to_string().lines().map(str::to_owned).collect())
        }
    };
    let Loaded { config, warnings, .. } = loaded;
    let missing_manifests = config.sources.static_pod_path.clone().filter(|path| !path.exists());
    let configuration = Configuration {
        file: place.flags.process.config.clone(),
        errors,
        warnings: warnings.iter().map(ToString::to_string).collect(),
        missing_manifests,
    };
    Ok((config, configuration))
}

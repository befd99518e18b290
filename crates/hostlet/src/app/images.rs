//! The parts that pull images and know who may use them.

use std::path::PathBuf;

use hostlet_base::WallClock;
use hostlet_config::{Config, ParallelPulls};
use hostlet_image::credentials::{DockerConfigFiles, ProviderPlugins, RegistryCredentials};
use hostlet_image::{Images, PullLimits};
use hostlet_store::Store;
use hostlet_telemetry::Metrics;

use super::paths::ROOT;
use super::runtime::RuntimeSide;
use super::tasks::{Stage, Tasks};

/// Creates the images' handle, and starts the upkeep of their records.
pub(super) fn start_images(
    config: &Config,
    runtime: &RuntimeSide,
    store: &Store,
    metrics: &Metrics,
    tasks: &mut Tasks,
) -> Images {
    let images = Images::new(
        runtime.images.clone(),
        pull_limits(config),
        config.pulls.verification.clone(),
        host_credentials(config, metrics),
        store.clone(),
        WallClock::system(),
    );
    images.register(metrics);
    let upkeep = images.record_upkeep();
    tasks.spawn(Stage::Support, "image records", |cancel| upkeep.run(cancel));
    images
}

/// Registry credentials from where the stock kubelet reads them.
fn host_credentials(config: &Config, metrics: &Metrics) -> RegistryCredentials {
    // A deleted working directory has no files.
    let working_dir = std::env::current_dir().unwrap_or_else(|_| ROOT.into());
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let files = DockerConfigFiles::new(&config.root_dir, &working_dir, home.as_deref(), ROOT.as_ref());
    let providers = config.pulls.credential_providers.as_ref().map(ProviderPlugins::new).unwrap_or_default();
    providers.register(metrics);
    RegistryCredentials::new(files).with_providers(providers)
}

fn pull_limits(config: &Config) -> PullLimits {
    let (serialize, max_parallel) = match config.pulls.parallel {
        ParallelPulls::Serial => (true, None),
        ParallelPulls::AtMost(bound) => (false, Some(bound)),
        ParallelPulls::Unlimited => (false, None),
    };
    let qps = config.pulls.per_second.map_or(0, std::num::NonZeroU32::get);
    PullLimits { serialize, max_parallel, qps, burst: config.pulls.burst }
}

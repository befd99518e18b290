//! Docker's configuration of registry credentials.

use hostlet::image::credentials::{DockerConfig, Keyring};

/// A configuration in either format: an error shows where it is, and any location can be looked up.
pub fn docker_config(data: &[u8]) {
    for read in [DockerConfig::from_config_json(data), DockerConfig::from_dockercfg(data)] {
        let config = match read {
            Ok(config) => config,
            Err(error) => {
                super::check_message(&error.to_string());
                continue;
            }
        };
        let locations: Vec<String> = config.logins.keys().cloned().collect();
        let number = locations.len();
        let mut keyring = Keyring::default();
        keyring.add(config);
        for name in
            locations.iter().map(String::as_str).chain(["docker.io/library/busybox", "quay.io/coreos/etcd"])
        {
            assert!(keyring.lookup(name).len() <= number, "more logins than entries for {name:?}");
        }
    }
}

//! Docker's configuration of registry credentials, and responses of credential providers.

use hostlet_image::credentials::{DockerConfig, Keyring, LoginSource, ProviderResponse};

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
        check_lookups(config);
    }
}

/// A response: an error is short, and any location can be looked up.
pub fn provider_response(data: &[u8]) {
    match ProviderResponse::parse(data, "credentialprovider.kubelet.k8s.io/v1") {
        Ok(response) => check_lookups(response.config),
        Err(error) => super::check_message(&error.to_string()),
    }
}

fn check_lookups(config: DockerConfig) {
    let locations: Vec<String> = config.logins.keys().cloned().collect();
    let number = locations.len();
    let mut keyring = Keyring::default();
    keyring.add(config, &LoginSource::Node);
    for name in
        locations.iter().map(String::as_str).chain(["docker.io/library/busybox", "quay.io/coreos/etcd"])
    {
        assert!(keyring.lookup(name).len() <= number, "more logins than entries for {name:?}");
    }
}

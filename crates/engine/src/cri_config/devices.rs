//! The block devices of a container, of its volumes (upstream `makeBlockVolumes`). Pure.

use hostlet_runtime::cri::wire::Device;
use hostlet_volume::PodVolumes;
use k8s_openapi::api::core::v1::Container;

use super::ConfigError;

/// May the container create the device's file, read and write.
const ALL: &str = "mrw";
/// What a container may do with a read-only device.
const READ_ONLY: &str = "r";

/// The devices of `container`. A container never starts without one.
pub(crate) fn container_devices(
    container: &Container,
    volumes: &PodVolumes,
) -> Result<Vec<Device>, ConfigError> {
    let devices = container.volume_devices.iter().flatten().map(|wanted| {
        if !wanted.device_path.starts_with('/') {
            return Err(ConfigError::DevicePath(wanted.device_path.clone()));
        }
        let Some(device) = volumes.devices.get(&wanted.name) else {
            let (volume, container) = (wanted.name.clone(), container.name.clone());
            return Err(ConfigError::MissingDevice { volume, container });
        };
        Ok(Device {
            container_path: wanted.device_path.clone(),
            host_path: device.host_path.to_string_lossy().into_owned(),
            permissions: if device.read_only { READ_ONLY } else { ALL }.to_owned(),
        })
    });
    devices.collect()
}

#[cfg(test)]
mod tests {
    use hostlet_volume::Device as HostDevice;
    use serde_json::{Value, json};

    use super::*;

    fn of(wanted: Value) -> Result<Vec<Device>, String> {
        let container = json!({"name": "c", "volumeDevices": wanted});
        let device = |path: &str, read_only| HostDevice { host_path: path.into(), read_only };
        let devices = [("rw", device("/p/rw", false)), ("ro", device("/p/ro", true))];
        let devices = devices.map(|(name, device)| (name.to_owned(), device)).into();
        let volumes = PodVolumes { devices, ..PodVolumes::default() };
        let devices = container_devices(&serde_json::from_value(container).unwrap(), &volumes);
        devices.map_err(|error| error.to_string())
    }

    #[test]
    fn devices_are_those_of_the_volumes_and_read_only_if_these_are() {
        let of_path = |name: &str, path: &str| json!({"name": name, "devicePath": path});
        let device = |host: &str, container: &str, permissions: &str| Device {
            container_path: container.to_owned(),
            host_path: host.to_owned(),
            permissions: permissions.to_owned(),
        };
        let expected = vec![device("/p/ro", "/dev/b", "r"), device("/p/rw", "/dev/a", "mrw")];
        assert_eq!(of(json!([of_path("ro", "/dev/b"), of_path("rw", "/dev/a")])), Ok(expected));
        assert_eq!(of(Value::Null), Ok(vec![]));
        let missing = "cannot find volume \"none\" to pass into container \"c\"";
        assert_eq!(of(json!([of_path("none", "/dev/a")])), Err(missing.to_owned()));
        let relative = "error DevicePath `dev/a` must be an absolute path";
        assert_eq!(of(json!([of_path("rw", "dev/a")])), Err(relative.to_owned()));
    }
}

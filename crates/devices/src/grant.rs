//! What a container is given for its devices: the responses of all plugins as one (upstream `deviceRunContainerOptions`). Pure.

use std::collections::BTreeMap;

use hostlet_resources::{ContainerGrant, GrantedDevice, GrantedMount};

use crate::allocation::ContainerAllocations;

/// The grant of a container, and sentences about contradictions between plugins: the first one, by resource, counts.
pub(crate) fn grant(allocations: &ContainerAllocations) -> (ContainerGrant, Vec<String>) {
    let (mut grant, mut conflicts) = (ContainerGrant::default(), Vec::new());
    for (resource, allocation) in allocations {
        let response = &allocation.response;
        let mut conflict = |what: &str, name: &str| {
            conflicts.push(format!("{resource} gives {what} {name} another value than a device before it"));
        };
        for (name, value) in &response.envs {
            merge(&mut grant.env, name, value, |name| conflict("the variable", name));
        }
        for (key, value) in &response.annotations {
            merge(&mut grant.annotations, key, value, |key| conflict("the annotation", key));
        }
        for device in &response.devices {
            match grant.devices.iter().find(|known| known.container_path == device.container_path) {
                Some(known) if known.host_path == device.host_path => {}
                Some(_) => conflict("the device", &device.container_path),
                None => grant.devices.push(GrantedDevice {
                    host_path: device.host_path.clone(),
                    container_path: device.container_path.clone(),
                    permissions: device.permissions.clone(),
                }),
            }
        }
        for mount in &response.mounts {
            match grant.mounts.iter().find(|known| known.container_path == mount.container_path) {
                Some(known) if known.host_path == mount.host_path => {}
                Some(_) => conflict("the mount", &mount.container_path),
                None => grant.mounts.push(GrantedMount {
                    host_path: mount.host_path.clone(),
                    container_path: mount.container_path.clone(),
                    read_only: mount.read_only,
                }),
            }
        }
        for device in &response.cdi_devices {
            if !grant.cdi_devices.contains(&device.name) {
                grant.cdi_devices.push(device.name.clone());
            }
        }
    }
    (grant, conflicts)
}

fn merge(known: &mut BTreeMap<String, String>, key: &str, value: &str, conflict: impl FnOnce(&str)) {
    match known.get(key) {
        Some(earlier) if earlier == value => {}
        Some(_) => conflict(key),
        None => drop(known.insert(key.to_owned(), value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hostlet_proto::device_plugin::{CdiDevice, ContainerAllocateResponse, DeviceSpec, Mount};

    use super::*;
    use crate::allocation::Allocation;

    fn allocation(host: &str, value: &str, cdi: &[&str]) -> Allocation {
        let device = DeviceSpec {
            container_path: "/dev/x".to_owned(),
            host_path: host.to_owned(),
            permissions: "rw".to_owned(),
        };
        let mount = Mount { container_path: "/lib".to_owned(), host_path: host.to_owned(), read_only: true };
        let response = ContainerAllocateResponse {
            envs: [("A".to_owned(), value.to_owned())].into(),
            annotations: [("cdi.k8s.io/a".to_owned(), value.to_owned())].into(),
            devices: vec![device],
            mounts: vec![mount],
            cdi_devices: cdi.iter().map(|name| CdiDevice { name: (*name).to_owned() }).collect(),
        };
        Allocation { devices: BTreeMap::new(), response }
    }

    #[test]
    fn equal_settings_are_given_once_and_the_first_of_two_different_ones() {
        let first = allocation("/dev/a", "1", &["v/c=b", "v/c=a"]);
        let same = [("r/a".to_owned(), first.clone()), ("r/b".to_owned(), first.clone())].into();
        let (once, conflicts) = grant(&same);
        assert_eq!((once.devices.len(), once.mounts.len(), once.env["A"].as_str()), (1, 1, "1"));
        assert_eq!(once.cdi_devices, ["v/c=b", "v/c=a"]);
        assert_eq!(conflicts, Vec::<String>::new());

        let other = allocation("/dev/b", "2", &["v/c=a", "v/c=d"]);
        let (first_only, conflicts) = grant(&[("r/a".to_owned(), first), ("r/b".to_owned(), other)].into());
        assert_eq!(first_only.devices, once.devices);
        assert_eq!((first_only.mounts, first_only.env), (once.mounts, once.env));
        assert_eq!(first_only.cdi_devices, ["v/c=b", "v/c=a", "v/c=d"]);
        assert_eq!(
            conflicts,
            [
                "r/b gives the variable A another value than a device before it",
                "r/b gives the annotation cdi.k8s.io/a another value than a device before it",
                "r/b gives the device /dev/x another value than a device before it",
                "r/b gives the mount /lib another value than a device before it",
            ]
        );
    }
}

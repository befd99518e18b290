//! Messages of DRA drivers: whatever a driver sends, only legal devices are published, and the rest is reported.

use std::collections::BTreeSet;

use hostlet_cluster::resource_slices::{AttributeValue, Device, translate};
use hostlet_proto::dra::NodeListAndWatchResourcesResponse;
use prost::Message;

const DRIVER: &str = "gpu.example.com";

/// A message on the wire.
pub fn dra_message(data: &[u8]) {
    let Ok(message) = NodeListAndWatchResourcesResponse::decode(data) else { return };
    let inventory = translate(DRIVER, &message);
    assert_eq!(translate(DRIVER, &message), inventory, "another result");
    let names: BTreeSet<&str> = inventory.devices.iter().map(|device| &*device.name).collect();
    assert_eq!(names.len(), inventory.devices.len(), "a name twice");
    inventory.devices.iter().for_each(check_device);
    inventory.problems.lines().iter().for_each(|line| super::check_message(line));
    let instances = message.resources.iter().filter_map(|model| model.named_resources.as_ref());
    let instances: usize = instances.map(|model| model.instances.len()).sum();
    let attributes = |device: &Device| device.attributes.len() + device.capacity.len();
    assert!(inventory.devices.len() <= instances, "more devices than instances");
    let sent = message.resources.iter().filter_map(|model| model.named_resources.as_ref());
    let sent: usize =
        sent.flat_map(|model| &model.instances).map(|instance| instance.attributes.len() + 1).sum();
    let published: usize = inventory.devices.iter().map(|device| attributes(device) + 1).sum();
    assert!(published == sent || inventory.problems.total() > 0, "something was left out in silence");
}

fn check_device(device: &Device) {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let name = &*device.name;
    assert!((1..=63).contains(&name.len()) && name.chars().all(is_inner), "{name:?}");
    assert!(!name.starts_with('-') && !name.ends_with('-'), "{name:?}");
    assert!(device.attributes.len() + device.capacity.len() <= 32, "too many entries");
    let mut values = 0;
    for (name, value) in &device.attributes {
        check_name(name);
        match value {
            AttributeValue::Bool(_) | AttributeValue::Int(_) => values += 1,
            AttributeValue::String(text) | AttributeValue::Version(text) => {
                values += 1;
                assert!(text.len() <= 64, "a long value");
            }
            AttributeValue::Ints(list) => {
                values += list.len();
                assert!(!list.is_empty(), "an empty list");
            }
            AttributeValue::Strings(list) => {
                values += list.len();
                assert!(!list.is_empty() && list.iter().all(|text| text.len() <= 64), "an illegal list");
            }
        }
    }
    assert!(values <= 48, "too many values");
    device.capacity.iter().for_each(|(name, _)| check_name(name));
    for entries in [
        device.attributes.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        device.capacity.iter().map(|(name, _)| name).collect(),
    ] {
        assert!(entries.windows(2).all(|pair| pair[0] < pair[1]), "not sorted, or a name twice");
    }
}

fn check_name(name: &str) {
    let (domain, identifier) =
        name.split_once('/').map_or((None, name), |(domain, name)| (Some(domain), name));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    assert!((1..=32).contains(&identifier.len()) && identifier.chars().all(is_legal), "{name:?}");
    assert!(!identifier.starts_with(|c: char| c.is_ascii_digit()), "{name:?}");
    assert!(
        domain.is_none_or(|domain| !domain.is_empty() && domain.len() <= 63 && domain != DRIVER),
        "{name:?}"
    );
}

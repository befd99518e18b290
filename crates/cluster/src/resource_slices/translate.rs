//! A driver's message → devices. Pure. Whatever cannot be published is left out with a problem that says which rule it broke.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hostlet_base::Quantity;
use hostlet_proto::dra::{
    NamedResourcesAttribute, NamedResourcesAttributeValue, NamedResourcesInstance,
    NodeListAndWatchResourcesResponse,
};

use super::device::{AttributeValue, Device, Inventory, Problem, Problems};
use super::legal::{ENTRIES_MAX, VALUE_MAX, VALUES_MAX, attribute_name, device_name, is_version};

/// Maximum number of devices of a driver: 128 full slices. A message of the maximum size could have a hundred times as many.
pub(super) const DEVICES_MAX: usize = 16_384;

/// The devices in a message of `driver`.
pub fn translate(driver: &str, message: &NodeListAndWatchResourcesResponse) -> Inventory {
    let mut translation = Translation { driver, names: HashMap::new(), problems: Problems::default() };
    for (index, _) in
        message.resources.iter().enumerate().filter(|(_, model)| model.named_resources.is_none())
    {
        let rule = format!("resource model {index} left out: hostlet knows only named resources");
        translation.problems.add(Problem::of_message(rule));
    }
    let instances = message.resources.iter().filter_map(|model| model.named_resources.as_ref());
    let instances: Vec<&NamedResourcesInstance> = instances.flat_map(|model| &model.instances).collect();
    let devices = translation.devices(&instances);
    Inventory { devices: devices.into(), problems: translation.problems }
}

struct Translation<'m> {
    driver: &'m str,
    /// The legal names, by the names in the message, shared by all devices.
    names: HashMap<&'m str, Arc<str>>,
    problems: Problems,
}

impl<'m> Translation<'m> {
    fn devices(&mut self, instances: &[&'m NamedResourcesInstance]) -> Vec<Device> {
        let mut originals = HashSet::new();
        let mut published = HashSet::new();
        let mut devices = Vec::new();
        // A name that is legal as it is belongs to its instance, whatever other names become.
        let (legal, changed): (Vec<_>, Vec<_>) = instances
            .iter()
            .map(|instance| (*instance, device_name(&instance.name)))
            .partition(|(instance, name)| instance.name == **name);
        for (instance, name) in legal.into_iter().chain(changed) {
            let rejected = if instance.name.is_empty() {
                Some("left out: its name is empty".to_owned())
            } else if !originals.insert(&*instance.name) {
                Some(
                    "left out: the name is not unique; the first instance of this name is published"
                        .to_owned(),
                )
            } else if published.contains(&*name) {
                Some(format!(
                    "left out: it would be published as \"{name}\", which is the name of another instance"
                ))
            } else if devices.len() == DEVICES_MAX {
                Some(format!("left out: a driver can have at most {DEVICES_MAX} devices"))
            } else {
                None
            };
            if let Some(rule) = rejected {
                self.problems.add(Problem::of_instance(&instance.name, rule));
            } else if let Some(device) = self.device(instance, name.as_ref().into()) {
                published.insert(name);
                devices.push(device);
            }
        }
        devices.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        devices
    }

    fn device(&mut self, instance: &'m NamedResourcesInstance, name: Box<str>) -> Option<Device> {
        let number = instance.attributes.len();
        if number > ENTRIES_MAX {
            let rule =
                format!("left out: it has {number} attributes; a device can have at most {ENTRIES_MAX}");
            self.problems.add(Problem::of_instance(&instance.name, rule));
            return None;
        }
        let mut attributes = Vec::new();
        let mut capacity = Vec::new();
        for attribute in &instance.attributes {
            match self.entry(attribute) {
                Ok((name, Entry::Attribute(value))) => attributes.push((attribute, name, value)),
                Ok((name, Entry::Capacity(value))) => capacity.push((attribute, name, value)),
                Err(rule) => {
                    self.problems.add(Problem::of_attribute(
                        &instance.name,
                        &attribute.name,
                        rule.to_string(),
                    ));
                }
            }
        }
        let attributes = self.unique(instance, attributes);
        let capacity = self.unique(instance, capacity);
        let values: usize = attributes.iter().map(|(_, value)| values(value)).sum();
        if values > VALUES_MAX {
            let rule = format!(
                "left out: its attributes have {values} values, counting each item of a list; a device can have at \
                 most {VALUES_MAX}"
            );
            self.problems.add(Problem::of_instance(&instance.name, rule));
            return None;
        }
        Some(Device { name, attributes: attributes.into(), capacity: capacity.into() })
    }

    /// Leaves out entries with the same name, except the one that has this name as it is.
    fn unique<V>(
        &mut self,
        instance: &NamedResourcesInstance,
        entries: Vec<(&NamedResourcesAttribute, Arc<str>, V)>,
    ) -> Vec<(Arc<str>, V)> {
        let mut claims: HashMap<Arc<str>, (usize, usize)> = HashMap::new();
        for (original, name, _) in &entries {
            let (all, literal) = claims.entry(name.clone()).or_default();
            *all += 1;
            *literal += usize::from(original.name == **name);
        }
        let mut kept = Vec::with_capacity(entries.len());
        for (original, name, value) in entries {
            let (all, literal) = claims.get(&name).copied().unwrap_or_default();
            if all == 1 || (literal == 1 && original.name == *name) {
                kept.push((name, value));
            } else {
                let rule = format!("left out: several attributes would be published as \"{name}\"");
                self.problems.add(Problem::of_attribute(&instance.name, &original.name, rule));
            }
        }
        kept.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        kept
    }

    fn entry(&mut self, attribute: &'m NamedResourcesAttribute) -> Result<(Arc<str>, Entry), EntryRejected> {
        let name = match self.names.get(&*attribute.name) {
            Some(name) => name.clone(),
            None => {
                let name: Arc<str> = attribute_name(self.driver, &attribute.name)?.into();
                self.names.insert(&attribute.name, name.clone());
                name
            }
        };
        Ok((name, entry(attribute.attribute_value.as_ref())?))
    }
}

/// Number of values, as the API server counts them.
fn values(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::Bool(_)
        | AttributeValue::Int(_)
        | AttributeValue::String(_)
        | AttributeValue::Version(_) => 1,
        AttributeValue::Ints(ints) => ints.len(),
        AttributeValue::Strings(strings) => strings.len(),
    }
}

/// What an attribute of an instance becomes.
enum Entry {
    Attribute(AttributeValue),
    Capacity(Box<str>),
}

/// Why an attribute is left out.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum EntryRejected {
    #[error(transparent)]
    Name(#[from] super::legal::NameRejected),
    #[error("left out: it must have exactly one value, and has {0}")]
    Values(usize),
    #[error("left out: a string can have at most {VALUE_MAX} bytes, and this one has {0}")]
    TooLong(usize),
    #[error("left out: a version must be a semantic version of at most {VALUE_MAX} bytes, such as 1.2.3")]
    Version,
    #[error("left out: not a quantity such as 16Gi")]
    Quantity,
    #[error("left out: a list must not be empty")]
    EmptyList,
}

fn entry(value: Option<&NamedResourcesAttributeValue>) -> Result<Entry, EntryRejected> {
    let none = NamedResourcesAttributeValue::default();
    let value = value.unwrap_or(&none);
    let is_set = [
        value.bool.is_some(),
        value.string.is_some(),
        value.quantity.is_some(),
        value.int.is_some(),
        value.int_slice.is_some(),
        value.string_slice.is_some(),
        value.version.is_some(),
    ];
    let number = is_set.into_iter().filter(|is_set| *is_set).count();
    if number != 1 {
        return Err(EntryRejected::Values(number));
    }
    if let Some(quantity) = &value.quantity {
        let quantity = Quantity::parse(quantity.string.as_deref().unwrap_or_default());
        // The API server stores the canonical form.
        let canonical = quantity.map_err(|_| EntryRejected::Quantity)?.to_string();
        return Ok(Entry::Capacity(canonical.into()));
    }
    attribute(value).map(Entry::Attribute)
}

/// The value of an attribute that is no quantity.
fn attribute(value: &NamedResourcesAttributeValue) -> Result<AttributeValue, EntryRejected> {
    if let Some(value) = value.bool {
        return Ok(AttributeValue::Bool(value));
    }
    if let Some(value) = value.int {
        return Ok(AttributeValue::Int(value));
    }
    if let Some(value) = &value.string {
        return string(value).map(AttributeValue::String);
    }
    if let Some(value) = &value.version {
        let is_legal = value.len() <= VALUE_MAX && is_version(value);
        return if is_legal {
            Ok(AttributeValue::Version(value.as_str().into()))
        } else {
            Err(EntryRejected::Version)
        };
    }
    if let Some(list) = &value.int_slice {
        let is_empty = list.ints.is_empty();
        return if is_empty {
            Err(EntryRejected::EmptyList)
        } else {
            Ok(AttributeValue::Ints((&*list.ints).into()))
        };
    }
    let list = value.string_slice.as_ref().map(|list| &*list.strings).unwrap_or_default();
    if list.is_empty() {
        return Err(EntryRejected::EmptyList);
    }
    list.iter().map(|item| string(item)).collect::<Result<_, _>>().map(AttributeValue::Strings)
}

fn string(value: &str) -> Result<Box<str>, EntryRejected> {
    if value.len() > VALUE_MAX { Err(EntryRejected::TooLong(value.len())) } else { Ok(value.into()) }
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;

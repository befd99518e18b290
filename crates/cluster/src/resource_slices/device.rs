//! The devices of a driver in a compact form that is independent of the API's version, and what of the driver's last message could
//! not be published. Values only.

use std::fmt;
use std::sync::Arc;

use hostlet_base::one_line;

/// A device as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name: a DNS label.
    pub name: Box<str>,
    /// Its attributes. The names of all devices of a driver share their memory.
    pub attributes: Box<[(Arc<str>, AttributeValue)]>,
    /// Its capacities: canonical quantities.
    pub capacity: Box<[(Arc<str>, Box<str>)]>,
}

impl Device {
    /// Whether one of its attributes is a list.
    pub(super) fn has_lists(&self) -> bool {
        self.attributes.iter().any(|(_, value)| value.is_list())
    }
}

/// An attribute of a device has one of these types in the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A string of at most 64 bytes.
    String(Box<str>),
    /// A semantic version of at most 64 bytes.
    Version(Box<str>),
    /// Integers, at least one.
    Ints(Box<[i64]>),
    /// Strings of at most 64 bytes, at least one.
    Strings(Box<[Box<str>]>),
}

impl AttributeValue {
    /// Whether it is a list.
    pub fn is_list(&self) -> bool {
        match self {
            Self::Ints(_) | Self::Strings(_) => true,
            Self::Bool(_) | Self::Int(_) | Self::String(_) | Self::Version(_) => false,
        }
    }
}

/// What a driver has, as of its last message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The devices, by name.
    pub devices: Box<[Device]>,
    /// What was left out.
    pub problems: Problems,
}

impl Inventory {
    /// Whether a device has a list.
    pub(super) fn has_lists(&self) -> bool {
        self.devices.iter().any(Device::has_lists)
    }
}

/// Something in a driver's message that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The instance, as the driver named it.
    instance: Option<String>,
    /// The attribute, as the driver named it.
    attribute: Option<String>,
    /// What was left out, and the rule.
    rule: String,
}

impl Problem {
    /// Maximum length of a name in a message, in bytes: a driver may send megabytes.
    const NAME_MAX: usize = 80;

    /// A problem of the whole message.
    pub(super) fn of_message(rule: impl Into<String>) -> Self {
        Self { instance: None, attribute: None, rule: rule.into() }
    }

    pub(super) fn of_instance(instance: &str, rule: impl Into<String>) -> Self {
        Self { instance: Some(one_line(instance, Self::NAME_MAX)), ..Self::of_message(rule) }
    }

    pub(super) fn of_attribute(instance: &str, attribute: &str, rule: impl Into<String>) -> Self {
        Self { attribute: Some(one_line(attribute, Self::NAME_MAX)), ..Self::of_instance(instance, rule) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(instance) = &self.instance {
            write!(f, "instance \"{instance}\": ")?;
        }
        if let Some(attribute) = &self.attribute {
            write!(f, "attribute \"{attribute}\": ")?;
        }
        f.write_str(&self.rule)
    }
}

/// The problems of a message: the first ones, and the number of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    first: Vec<Problem>,
    total: usize,
}

impl Problems {
    /// Number of problems that are kept with their text; more of them rarely say more.
    const KEPT: usize = 16;

    pub(super) fn add(&mut self, problem: Problem) {
        self.total += 1;
        if self.first.len() < Self::KEPT {
            self.first.push(problem);
        }
    }

    /// Adds the problems of `other`.
    pub(super) fn extend(&mut self, other: Self) {
        self.total += other.total;
        self.first.extend(other.first);
        self.first.truncate(Self::KEPT);
    }

    /// Number of all problems.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The first problems, and how many more there are.
    pub fn lines(&self) -> Vec<String> {
        let more = self.total - self.first.len();
        let more = (more > 0).then(|| format!("and {more} more"));
        self.first.iter().map(ToString::to_string).chain(more).collect()
    }
}

//! The Protobuf messages of a Pod as a table, made from `proto/pod.proto` (`k8s.io/api` 0.37.2): the names of their fields are those in JSON.

#![allow(missing_docs, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/pod_shapes.rs"));

/// A field of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its number on the wire.
    pub number: u32,
    /// How many values it has.
    pub count: Count,
    /// What its values are.
    pub kind: Kind,
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// At most one.
    One,
    /// Any number.
    Many,
    /// One for each key, which is a text.
    Map,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string.
    Text,
    /// Bytes, which are base64 in JSON.
    Bytes,
    /// A boolean.
    Bool,
    /// An integer.
    Integer,
    /// `meta.v1.Time`, a text in JSON.
    Time,
    /// `meta.v1.MicroTime`, a text in JSON.
    MicroTime,
    /// `resource.Quantity`, a text in JSON.
    Quantity,
    /// `intstr.IntOrString`, either in JSON.
    IntOrString,
    /// `meta.v1.FieldsV1`, any JSON.
    FieldsV1,
    /// The message of this number.
    Message(usize),
}

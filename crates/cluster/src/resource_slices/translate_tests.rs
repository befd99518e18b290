//! What a driver may send, and what of it is published.

use hostlet_proto::dra::{
    NamedResourcesIntSlice, NamedResourcesResources, NamedResourcesStringSlice, Quantity as WireQuantity,
    ResourceModel,
};
use prost::Message;

use super::*;

type Value = NamedResourcesAttributeValue;

fn bool(value: bool) -> Value {
    Value { bool: Some(value), ..Value::default() }
}

fn text(value: &str) -> Value {
    Value { string: Some(value.to_owned()), ..Value::default() }
}

fn version(value: &str) -> Value {
    Value { version: Some(value.to_owned()), ..Value::default() }
}

fn quantity(value: &str) -> Value {
    let quantity = WireQuantity { string: Some(value.to_owned()) };
    Value { quantity: Some(quantity), ..Value::default() }
}

fn ints(values: &[i64]) -> Value {
    Value { int_slice: Some(NamedResourcesIntSlice { ints: values.to_vec() }), ..Value::default() }
}

fn strings(values: &[&str]) -> Value {
    let strings = values.iter().map(|value| (*value).to_owned()).collect();
    Value { string_slice: Some(NamedResourcesStringSlice { strings }), ..Value::default() }
}

fn instance(name: &str, attributes: &[(&str, Value)]) -> NamedResourcesInstance {
    let attribute = |(name, value): &(&str, Value)| NamedResourcesAttribute {
        name: (*name).to_owned(),
        attribute_value: Some(value.clone()),
    };
    NamedResourcesInstance { name: name.to_owned(), attributes: attributes.iter().map(attribute).collect() }
}

fn message(instances: Vec<NamedResourcesInstance>) -> NodeListAndWatchResourcesResponse {
    let model = ResourceModel { named_resources: Some(NamedResourcesResources { instances }) };
    NodeListAndWatchResourcesResponse { resources: vec![model] }
}

fn of(instances: Vec<NamedResourcesInstance>) -> Inventory {
    translate("gpu.example.com", &message(instances))
}

fn names(inventory: &Inventory) -> Vec<&str> {
    inventory.devices.iter().map(|device| &*device.name).collect()
}

#[test]
fn every_type_of_value_is_published() {
    let inventory = of(vec![instance(
        "gpu-0",
        &[
            ("bool", bool(true)),
            ("int", Value { int: Some(7), ..Value::default() }),
            ("string", text("x")),
            ("driver-version", version("1.2.3")),
            ("memory", quantity("1024Mi")),
            ("ints", ints(&[1, 2])),
            ("strings", strings(&["a"])),
        ],
    )]);
    let [device] = &*inventory.devices else { panic!("{inventory:?}") };
    let attribute =
        |name: &str| device.attributes.iter().find(|(known, _)| &**known == name).map(|(_, value)| value);
    assert_eq!(attribute("bool"), Some(&AttributeValue::Bool(true)));
    assert_eq!(attribute("int"), Some(&AttributeValue::Int(7)));
    assert_eq!(attribute("string"), Some(&AttributeValue::String("x".into())));
    assert_eq!(attribute("driver_version"), Some(&AttributeValue::Version("1.2.3".into())));
    assert_eq!(attribute("ints"), Some(&AttributeValue::Ints([1, 2].into())));
    assert_eq!(attribute("strings"), Some(&AttributeValue::Strings(["a".into()].into())));
    assert_eq!(&*device.capacity, &[("memory".into(), "1Gi".into())]);
    assert_eq!(inventory.problems, Problems::default());
}

#[test]
fn instances_of_all_models_are_sorted_and_unique() {
    let mut all = message(vec![instance("b", &[]), instance("a", &[("x", bool(true))])]);
    all.resources.push(ResourceModel { named_resources: None });
    all.resources.extend(message(vec![instance("a", &[]), instance("", &[])]).resources);
    let inventory = translate("gpu.example.com", &all);
    assert_eq!(names(&inventory), ["a", "b"]);
    assert_eq!(inventory.devices[0].attributes.len(), 1, "the first one of a name is published");
    let lines = inventory.problems.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[0].contains("resource model 1") && lines[1].contains("instance \"a\": left out"),
        "{lines:?}"
    );
}

#[test]
fn a_legal_name_is_never_taken_by_another_instance() {
    let made = device_name("gpu.0").into_owned();
    for order in [["gpu.0", &*made], [&*made, "gpu.0"]] {
        let inventory = of(order.iter().map(|name| instance(name, &[])).collect());
        assert_eq!(names(&inventory), [&*made]);
        let lines = inventory.problems.lines();
        assert!(lines.len() == 1 && lines[0].starts_with("instance \"gpu.0\""), "{lines:?}");
    }
}

#[test]
fn attributes_whose_names_collide_are_left_out_except_the_literal_one() {
    let with = |entries: &[(&str, Value)]| {
        let inventory = of(vec![instance("a", entries)]);
        let attributes: Vec<String> =
            inventory.devices[0].attributes.iter().map(|(name, _)| name.to_string()).collect();
        (attributes, inventory.problems.total())
    };
    assert_eq!(with(&[("a-b", bool(true)), ("a.b", bool(true))]), (vec![], 2));
    assert_eq!(with(&[("a-b", bool(true)), ("a_b", bool(true))]), (vec!["a_b".to_owned()], 1));
    assert_eq!(with(&[("a", bool(true)), ("a", bool(false))]), (vec![], 2));
    assert_eq!(with(&[("gpu.example.com/a", bool(true)), ("a", bool(false))]), (vec!["a".to_owned()], 1));
    // An attribute and a capacity may share a name.
    assert_eq!(with(&[("a", bool(true)), ("a", quantity("1"))]), (vec!["a".to_owned()], 0));
}

#[test]
fn illegal_values_are_left_out_with_the_rule() {
    let both = Value { int: Some(1), ..bool(true) };
    for (value, rule) in [
        (Value::default(), "exactly one value, and has 0"),
        (both, "exactly one value, and has 2"),
        (text(&"x".repeat(65)), "at most 64 bytes, and this one has 65"),
        (version("1.2"), "semantic version"),
        (version(&format!("1.2.3-{}", "a".repeat(64))), "semantic version"),
        (quantity("much"), "not a quantity"),
        (ints(&[]), "must not be empty"),
        (strings(&[&"x".repeat(65)]), "at most 64 bytes"),
    ] {
        let inventory = of(vec![instance("a", &[("good", bool(true)), ("bad", value)])]);
        assert_eq!(inventory.devices[0].attributes.len(), 1);
        let lines = inventory.problems.lines();
        assert!(lines.len() == 1 && lines[0].starts_with("instance \"a\": attribute \"bad\": "), "{lines:?}");
        assert!(lines[0].contains(rule), "{lines:?} {rule}");
    }
}

#[test]
fn a_device_with_too_much_is_left_out() {
    let many: Vec<(String, Value)> = (0..33).map(|n| (format!("a{n}"), bool(true))).collect();
    let many: Vec<(&str, Value)> = many.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let long: Vec<i64> = (0..49).collect();
    let inventory =
        of(vec![instance("a", &many), instance("b", &[("x", ints(&long))]), instance("c", &many[..32])]);
    assert_eq!(names(&inventory), ["c"]);
    let lines = inventory.problems.lines();
    assert!(lines[0].contains("33 attributes") && lines[1].contains("49 values"), "{lines:?}");
}

#[test]
fn problems_are_bounded() {
    let inventory = of((0..1000).map(|n| instance(&format!("a{n}"), &[("b", Value::default())])).collect());
    assert_eq!((inventory.devices.len(), inventory.problems.total()), (1000, 1000));
    let lines = inventory.problems.lines();
    assert!(lines.len() == 17 && lines[16] == "and 984 more", "{lines:?}");
    let inventory = of(vec![instance(&"x\n".repeat(1 << 20), &[]), instance(&"x\n".repeat(1 << 20), &[])]);
    assert!(inventory.problems.lines()[0].len() < 300);
    let inventory = of((0..DEVICES_MAX + 5).map(|n| instance(&n.to_string(), &[])).collect());
    assert_eq!((inventory.devices.len(), inventory.problems.total()), (DEVICES_MAX, 5));
}

#[test]
fn the_wire_format_is_that_of_the_go_module() {
    // As the Go types of k8s.io/api 0.30 encode it: one instance "a" with ints [1, 2], not packed, and a quantity.
    let bytes: &[u8] = &[
        0x0a, 0x21, 0x0a, 0x1f, 0x0a, 0x1d, // resources, namedResources, instances
        0x0a, 0x01, b'a', // name
        0x12, 0x0b, 0x0a, 0x01, b'i', 0x12, 0x06, 0x42, 0x04, 0x08, 0x01, 0x08, 0x02, // attribute "i"
        0x12, 0x0b, 0x0a, 0x01, b'q', 0x12, 0x06, 0x32, 0x04, 0x0a, 0x02, b'1', b'k', // attribute "q"
    ];
    let decoded = NodeListAndWatchResourcesResponse::decode(bytes).unwrap();
    assert_eq!(decoded, message(vec![instance("a", &[("i", ints(&[1, 2])), ("q", quantity("1k"))])]));
    assert_eq!(decoded.encode_to_vec(), bytes);
}

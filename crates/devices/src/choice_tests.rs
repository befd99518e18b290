//! Choices among devices: what is reused, aligned and preferred.

use proptest::prelude::*;

use super::*;
use crate::device::{Device, Health};
use hostlet_resources::NumaMask;

fn list(devices: &[(&str, &[i64])]) -> DeviceList {
    let device = |nodes: &[i64]| Device { health: Health::Healthy, nodes: nodes.iter().copied().collect() };
    devices.iter().map(|(id, nodes)| ((*id).to_owned(), device(nodes))).collect()
}

fn ids(names: &[&str]) -> DeviceIds {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn near(nodes: &[u32]) -> Hint {
    Hint { nodes: Some(NumaMask::of(nodes.iter().copied())), preferred: true }
}

fn choose(
    list: &DeviceList,
    free: &[&str],
    reusable: &[&str],
    affinity: Option<&Hint>,
    required: usize,
) -> Result<Choice, TooFew> {
    Choice::new(Offer { required, list, free: ids(free), reusable: ids(reusable), affinity })
}

#[test]
fn devices_of_ended_init_containers_come_first_and_no_plugin_is_asked() {
    let list = list(&[("a", &[]), ("b", &[]), ("c", &[])]);
    let choice = choose(&list, &["a", "b"], &["c"], None, 1).unwrap();
    assert_eq!(choice.question(), None);
    assert_eq!(choice.devices(&ids(&["a"])), ids(&["c"]));
    let choice = choose(&list, &["a", "b"], &["c"], None, 2).unwrap();
    let question = Question { available: ids(&["a", "b", "c"]), must_include: ids(&["c"]), size: 2 };
    assert_eq!(choice.question(), Some(question));
    assert_eq!(choice.devices(&ids(&["b"])), ids(&["b", "c"]));
}

#[test]
fn the_plugin_prefers_among_aligned_devices_if_there_are_more_than_enough() {
    let list = list(&[("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[])]);
    let choice = choose(&list, &["a", "b", "c", "d"], &[], Some(&near(&[0])), 1).unwrap();
    let question = Question { available: ids(&["a", "b"]), must_include: ids(&[]), size: 1 };
    assert_eq!(choice.question(), Some(question));
    // What it may not choose does not count.
    assert_eq!(choice.clone().devices(&ids(&["c", "unknown"])), ids(&["a"]));
    assert_eq!(choice.devices(&ids(&["b", "c"])), ids(&["b"]));
}

#[test]
fn all_aligned_devices_are_taken_before_others_and_those_without_a_node_come_last() {
    let list = list(&[("a", &[]), ("b", &[0, 1]), ("c", &[1]), ("d", &[2])]);
    let all = ["a", "b", "c", "d"];
    let choice = choose(&list, &all, &[], Some(&near(&[0])), 1).unwrap();
    assert_eq!(choice.question(), None);
    assert_eq!(choice.devices(&ids(&["d"])), ids(&["b"]));
    let choice = choose(&list, &all, &[], Some(&near(&[0])), 3).unwrap();
    let question = Question { available: ids(&all), must_include: ids(&["b"]), size: 3 };
    assert_eq!(choice.question(), Some(question));
    assert_eq!(choice.clone().devices(&ids(&[])), ids(&["b", "c", "d"]));
    assert_eq!(choice.devices(&ids(&["a"])), ids(&["a", "b", "c"]));
}

#[test]
fn too_few_devices_are_an_error_that_counts_what_is_missing() {
    let list = list(&[("a", &[0])]);
    assert_eq!(choose(&list, &["a"], &["x"], None, 3), Err(TooFew { needed: 2, available: 1 }));
}

proptest! {
    /// Whatever is offered and preferred, the container gets as many as it needs, of what was offered, and all reusable ones it can use.
    #[test]
    fn a_choice_has_the_right_number_of_offered_devices(
        devices in prop::collection::btree_map("[a-h]", (prop::collection::btree_set(0_i64..4, 0..3), 0..3_u8), 0..8),
        mask in prop::option::of(prop::collection::vec(0_u32..4, 0..3)),
        required in 1_usize..6,
        preferred in prop::collection::btree_set("[a-j]", 0..5),
    ) {
        let list: DeviceList = devices.iter().map(|(id, (nodes, _))| {
            (id.clone(), Device { health: Health::Healthy, nodes: nodes.clone() })
        }).collect();
        let of = |state: u8| -> DeviceIds {
            devices.iter().filter(|(_, (_, is))| *is == state).map(|(id, _)| id.clone()).collect()
        };
        let (free, reusable) = (of(0), of(1));
        let hint = mask.map(|nodes| near(&nodes));
        let offer = Offer { required, list: &list, free: free.clone(), reusable: reusable.clone(), affinity: hint.as_ref() };
        match Choice::new(offer) {
            Err(TooFew { .. }) => prop_assert!(free.len() + reusable.len() < required),
            Ok(choice) => {
                if let Some(question) = choice.question() {
                    prop_assert!(question.must_include.is_subset(&question.available));
                    prop_assert!(question.available.len() >= question.size);
                }
                let chosen = choice.devices(&preferred);
                prop_assert_eq!(chosen.len(), required);
                prop_assert!(chosen.iter().all(|id| free.contains(id) || reusable.contains(id)));
                let reused = chosen.intersection(&reusable).count();
                prop_assert_eq!(reused, reusable.len().min(required));
            }
        }
    }
}

//! Lists compared with the last one are what decoding everything gives, whatever the order of objects and of the entries of their
//! maps, and whatever was listed before.

use std::sync::Arc;

use bytes::Bytes;
use hostlet_base::{CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL};
use hostlet_proto::listed::{Entries, Label};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use prost::{DecodeError, Message};

use super::super::types::{Container, Sandbox};
use super::super::wire;
use super::convert;
use super::last_list::{LastList, ListedObject};

const KEYS: [&str; 5] =
    [POD_NAMESPACE_LABEL, POD_NAME_LABEL, POD_UID_LABEL, CONTAINER_NAME_LABEL, "app.kubernetes.io/name"];

/// Entries of a map, in the order in which they are sent.
type Pairs = Vec<(String, String)>;

/// The maps of a message, which are written behind its other fields.
#[derive(Clone, PartialEq, Message)]
struct SandboxMaps {
    #[prost(message, repeated, tag = "5")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "6")]
    annotations: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerMaps {
    #[prost(message, repeated, tag = "8")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "9")]
    annotations: Vec<Label>,
}

fn sent(pairs: &[(String, String)]) -> Vec<Label> {
    let label = |(key, value): &(String, String)| Label {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    pairs.iter().map(label).collect()
}

/// An object, and how it is written: the same fields for sandboxes and containers.
#[derive(Clone, Debug)]
struct Object {
    id: String,
    sandbox: String,
    attempt: Option<u32>,
    state: i32,
    created_at: i64,
    labels: Pairs,
    annotations: Pairs,
}

impl Object {
    fn as_sandbox(&self) -> Bytes {
        let metadata = self.attempt.map(|attempt| wire::PodSandboxMetadata { attempt, ..Default::default() });
        let message = wire::PodSandbox {
            id: self.id.clone(),
            metadata,
            state: self.state,
            created_at: self.created_at,
            runtime_handler: "runc".to_owned(),
            ..Default::default()
        };
        let maps = SandboxMaps { labels: sent(&self.labels), annotations: sent(&self.annotations) };
        [message.encode_to_vec(), maps.encode_to_vec()].concat().into()
    }

    fn as_container(&self) -> Bytes {
        let metadata = self.attempt.map(|attempt| wire::ContainerMetadata { name: "c".to_owned(), attempt });
        let message = wire::Container {
            id: self.id.clone(),
            pod_sandbox_id: self.sandbox.clone(),
            metadata,
            image: Some(wire::ImageSpec { image: "r.io/x:1".to_owned(), ..Default::default() }),
            image_ref: "sha256:0".to_owned(),
            state: self.state,
            created_at: self.created_at,
            ..Default::default()
        };
        let maps = ContainerMaps { labels: sent(&self.labels), annotations: sent(&self.annotations) };
        [message.encode_to_vec(), maps.encode_to_vec()].concat().into()
    }
}

/// Few values, so that objects often equal those of the last list, and often differ in one field only.
fn text() -> impl Strategy<Value = String> {
    select(vec!["a", "b", "", "é", "a-longer-text-of-a-label"]).prop_map(str::to_owned)
}

/// The labels of a pod in any order, some of them missing or there twice.
fn pairs() -> impl Strategy<Value = Pairs> {
    let complete = proptest::collection::vec(text(), KEYS.len())
        .prop_map(|values| KEYS.iter().map(|key| (*key).to_owned()).zip(values).collect());
    let any = proptest::collection::vec((select(KEYS.to_vec()).prop_map(str::to_owned), text()), 0..7);
    prop_oneof![3 => complete.prop_shuffle(), 1 => any]
}

fn object() -> impl Strategy<Value = Object> {
    let id = select(vec!["1", "2", "3", "4"]).prop_map(str::to_owned);
    let numbers = (proptest::option::of(0..2_u32), 0..5_i32, select(vec![0_i64, 1, i64::MAX, -1]));
    (id, text(), numbers, pairs(), pairs()).prop_map(|(id, sandbox, numbers, labels, annotations)| {
        let (attempt, state, created_at) = numbers;
        Object { id, sandbox, attempt, state, created_at, labels, annotations }
    })
}

/// How a list follows from the one before.
#[derive(Clone, Debug)]
enum Change {
    /// The same objects, their order and that of their maps changed.
    Shuffled(Vec<Index>),
    Added(Object),
    Removed(Index),
    Replaced(Index, Object),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => proptest::collection::vec(any::<Index>(), 16).prop_map(Change::Shuffled),
        3 => object().prop_map(Change::Added),
        1 => any::<Index>().prop_map(Change::Removed),
        2 => (any::<Index>(), object()).prop_map(|(at, object)| Change::Replaced(at, object)),
    ]
}

/// Swaps entries, which keeps what a map has if no key is there twice.
fn shuffle<T>(items: &mut [T], order: &[Index]) {
    for (at, with) in (0..items.len()).zip(order) {
        items.swap(at, with.index(items.len()));
    }
}

fn apply(objects: &mut Vec<Object>, change: Change) {
    match change {
        Change::Shuffled(order) => {
            shuffle(objects, &order);
            for object in objects {
                shuffle(&mut object.labels, &order);
                shuffle(&mut object.annotations, &order);
            }
        }
        Change::Added(object) => objects.push(object),
        Change::Removed(at) if !objects.is_empty() => drop(objects.remove(at.index(objects.len()))),
        Change::Replaced(at, object) if !objects.is_empty() => {
            let at = at.index(objects.len());
            objects[at] = object;
        }
        Change::Removed(_) | Change::Replaced(..) => {}
    }
}

/// What a client without a last list makes of an answer, and the encoding of an object in it.
trait Whole: ListedObject + PartialEq + std::fmt::Debug + 'static {
    fn encode(object: &Object) -> Bytes;

    fn whole(answer: Bytes) -> Result<Vec<Self>, DecodeError>;
}

impl Whole for Sandbox {
    fn encode(object: &Object) -> Bytes {
        object.as_sandbox()
    }

    fn whole(answer: Bytes) -> Result<Vec<Self>, DecodeError> {
        let answer = wire::ListPodSandboxResponse::decode(answer)?;
        Ok(sorted(answer.items.into_iter().filter_map(convert::sandbox).collect()))
    }
}

impl Whole for Container {
    fn encode(object: &Object) -> Bytes {
        object.as_container()
    }

    fn whole(answer: Bytes) -> Result<Vec<Self>, DecodeError> {
        let answer = wire::ListContainersResponse::decode(answer)?;
        Ok(sorted(answer.containers.into_iter().filter_map(convert::container).collect()))
    }
}

/// In an order that depends only on what the objects are.
fn sorted<T: ListedObject + std::fmt::Debug>(mut objects: Vec<T>) -> Vec<T> {
    objects.sort_by_cached_key(|object| (object.id().to_owned(), format!("{object:?}")));
    objects
}

fn answer_of<T: Whole>(objects: &[Object]) -> Bytes {
    Entries { entries: objects.iter().map(T::encode).collect() }.encode_to_vec().into()
}

fn next<T: Whole>(last: &LastList<T>, answer: &Bytes) -> Result<Arc<[T]>, DecodeError> {
    last.next(&Entries::decode(answer.clone())?.entries)
}

fn has_duplicates<T: Whole>(objects: &[T]) -> bool {
    objects.windows(2).any(|pair| pair[0].id() == pair[1].id())
}

fn assert_equals_decoding_everything<T: Whole>(changes: Vec<Change>) {
    let (last, mut objects) = (LastList::<T>::default(), Vec::new());
    let mut before = next(&last, &answer_of::<T>(&objects)).unwrap();
    for change in changes {
        apply(&mut objects, change);
        let answer = answer_of::<T>(&objects);
        let (now, expected) = (next(&last, &answer).unwrap(), T::whole(answer).unwrap());
        assert_eq!(sorted(now.to_vec()), expected);
        // Nobody looks at a list that is the last one, and nobody has to look at one that equals it.
        let is_equal = sorted(before.to_vec()) == expected;
        if !has_duplicates(&expected) {
            assert_eq!(Arc::ptr_eq(&before, &now), is_equal);
        } else if Arc::ptr_eq(&before, &now) {
            assert!(is_equal);
        }
        before = now;
    }
}

/// A broken answer is no list that differs from that of whoever decodes everything, except that what no object has is not looked at in entries
/// that are otherwise those of the last list.
fn assert_broken_answers_are_no_lists<T: Whole>(objects: &[Object], broken: &Bytes, was_listed: bool) {
    let last = LastList::<T>::default();
    if was_listed {
        next(&last, &answer_of::<T>(objects)).unwrap();
    }
    match (T::whole(broken.clone()), next(&last, broken)) {
        (Ok(expected), Ok(now)) => assert_eq!(sorted(now.to_vec()), expected),
        // prost reads some entries of maps that are broken, whatever their tags and lengths say.
        (Ok(_) | Err(_), Err(_)) => {}
        (Err(error), Ok(_)) => assert!(was_listed, "{error}"),
    }
    // Whatever happened, the next answer is read.
    let answer = answer_of::<T>(objects);
    assert_eq!(sorted(next(&last, &answer).unwrap().to_vec()), T::whole(answer).unwrap());
}

fn break_at(answer: &Bytes, at: &Index, mask: u8) -> Bytes {
    let mut broken = answer.to_vec();
    if !broken.is_empty() {
        let at = at.index(broken.len());
        broken[at] ^= mask;
    }
    broken.into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_list_equals_decoding_everything(changes in proptest::collection::vec(change(), 0..20)) {
        assert_equals_decoding_everything::<Sandbox>(changes.clone());
        assert_equals_decoding_everything::<Container>(changes);
    }

    #[test]
    fn a_broken_answer_is_an_error(
        objects in proptest::collection::vec(object(), 1..4),
        at in any::<Index>(),
        mask in 1..=u8::MAX,
        was_listed in any::<bool>(),
    ) {
        let broken = break_at(&answer_of::<Sandbox>(&objects), &at, mask);
        assert_broken_answers_are_no_lists::<Sandbox>(&objects, &broken, was_listed);
        let broken = break_at(&answer_of::<Container>(&objects), &at, mask);
        assert_broken_answers_are_no_lists::<Container>(&objects, &broken, was_listed);
    }

    #[test]
    fn a_truncated_answer_is_an_error(
        objects in proptest::collection::vec(object(), 1..4),
        at in any::<Index>(),
    ) {
        let whole = answer_of::<Container>(&objects);
        let truncated = whole.slice(..at.index(whole.len()));
        let last = LastList::<Container>::default();
        next(&last, &whole).unwrap();
        prop_assert_eq!(next(&last, &truncated).is_err(), Container::whole(truncated).is_err());
    }
}

//! The last list of everything, with which the next one is compared, so that only what changed is decoded. Asks nobody.
//!
//! Bytes cannot be compared: a runtime written in Go lists its objects, and writes the entries of their maps, in an order that
//! differs each time. So each entry is compared with the object of its ID, field by field, without copying a text: no order
//! matters, and nothing depends on a hash. What an object does not have, as its annotations, is skipped and not even checked, unless
//! the entry changed.

use std::sync::Arc;

use bytes::Bytes;
use hostlet_base::{CONTAINER_NAME_LABEL, POD_NAME_LABEL, POD_NAMESPACE_LABEL, POD_UID_LABEL, PodRef};
use hostlet_proto::listed::{Label, ListedContainer, ListedSandbox};
use parking_lot::Mutex;
use prost::{DecodeError, Message};

use super::super::types::{Container, Sandbox};
use super::super::wire;
use super::convert;

/// The objects of the last list.
pub(super) struct LastList<T>(Mutex<Arc<[T]>>);

impl<T> Default for LastList<T> {
    fn default() -> Self {
        Self(Mutex::new(Arc::default()))
    }
}

impl<T: ListedObject> LastList<T> {
    /// The objects of these entries, ordered by ID: the last list itself if they are the same.
    pub(super) fn next(&self, entries: &[Bytes]) -> Result<Arc<[T]>, DecodeError> {
        // Not locked while the entries are read: a list at the same time costs no more than being decoded.
        let last = self.0.lock().clone();
        let next = next(&last, entries)?;
        *self.0.lock() = next.clone();
        Ok(next)
    }
}

/// See [`LastList::next`]. `last` is ordered by ID.
fn next<T: ListedObject>(last: &Arc<[T]>, entries: &[Bytes]) -> Result<Arc<[T]>, DecodeError> {
    let mut is_unchanged = vec![false; last.len()];
    let mut changed = Vec::new();
    for bytes in entries {
        let entry = T::Entry::decode(bytes.clone())?;
        let same = last.binary_search_by(|object| object.id().as_bytes().cmp(T::id_of(&entry)));
        match same {
            // One that is listed twice counts twice.
            Ok(at) if !is_unchanged[at] && last[at].equals(&entry) => is_unchanged[at] = true,
            Ok(_) | Err(_) => changed.extend(T::decode(bytes.clone())?),
        }
    }
    if changed.is_empty() && is_unchanged.iter().all(|is| *is) {
        return Ok(last.clone());
    }
    let unchanged = last.iter().zip(is_unchanged).filter(|(_, is)| *is).map(|(object, _)| object.clone());
    let mut all: Vec<T> = unchanged.chain(changed).collect();
    all.sort_by(|a, b| a.id().cmp(b.id()));
    Ok(all.into())
}

/// An object of a list.
pub(super) trait ListedObject: Clone {
    /// An entry of the list, with what the object has.
    type Entry: Message + Default;

    fn id(&self) -> &str;

    fn id_of(entry: &Self::Entry) -> &[u8];

    /// Whether the object is what the entry would be converted to.
    fn equals(&self, entry: &Self::Entry) -> bool;

    /// Decodes and converts an entry; `None` if it is not of a pod.
    fn decode(entry: Bytes) -> Result<Option<Self>, DecodeError>;
}

impl ListedObject for Sandbox {
    type Entry = ListedSandbox;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn id_of(entry: &ListedSandbox) -> &[u8] {
        &entry.id
    }

    fn equals(&self, entry: &ListedSandbox) -> bool {
        let Self { id, pod, attempt, state, created_at } = self;
        id.as_str().as_bytes() == entry.id
            && *attempt == entry.metadata.map_or(0, |metadata| metadata.attempt)
            && *state == convert::sandbox_state(entry.state)
            && *created_at == convert::timestamp(entry.created_at)
            && is_of(pod, &entry.labels)
    }

    fn decode(entry: Bytes) -> Result<Option<Self>, DecodeError> {
        wire::PodSandbox::decode(entry).map(convert::sandbox)
    }
}

impl ListedObject for Container {
    type Entry = ListedContainer;

    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn id_of(entry: &ListedContainer) -> &[u8] {
        &entry.id
    }

    fn equals(&self, entry: &ListedContainer) -> bool {
        let Self { id, sandbox, pod, name, attempt, state, created_at } = self;
        id.as_str().as_bytes() == entry.id
            && sandbox.as_str().as_bytes() == entry.pod_sandbox_id
            && *attempt == entry.metadata.map_or(0, |metadata| metadata.attempt)
            && *state == convert::container_state(entry.state)
            && *created_at == convert::timestamp(entry.created_at)
            && has(&entry.labels, CONTAINER_NAME_LABEL, name)
            && is_of(pod, &entry.labels)
    }

    fn decode(entry: Bytes) -> Result<Option<Self>, DecodeError> {
        wire::Container::decode(entry).map(convert::container)
    }
}

/// Whether the labels are of this pod.
fn is_of(pod: &PodRef, labels: &[Label]) -> bool {
    has(labels, POD_UID_LABEL, pod.uid.as_str())
        && has(labels, POD_NAME_LABEL, &pod.name)
        && has(labels, POD_NAMESPACE_LABEL, &pod.namespace)
}

fn has(labels: &[Label], key: &str, value: &str) -> bool {
    let last = labels.iter().rfind(|label| label.key == key.as_bytes());
    last.is_some_and(|label| label.value == value.as_bytes())
}

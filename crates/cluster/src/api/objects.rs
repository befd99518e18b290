//! Typed access to API objects: kube's `Api` with one decoder for responses, lists and watches. Decides nothing about the
//! objects.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use hostlet_base::json;

/// Objects of one kind.
pub type TypedApi<K> = Api<Wire<K>>;

/// An object that is decoded through [`Value`]; [`json`] explains why.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Wire<K>(pub K);

impl<'de, K: DeserializeOwned> Deserialize<'de> for Wire<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        json::from_value(&value).map(Self).map_err(Error::custom)
    }
}

impl<K: Resource> Resource for Wire<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

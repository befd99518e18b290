//! How a DRA driver of Kubernetes 1.30 reports its devices to the kubelet: the part of `v1alpha3.Node` that no later version has,
//! written after `k8s.io/kubelet` 0.30.14, `pkg/apis/dra/v1alpha3/api.proto`, with the types of `k8s.io/api` 0.30.14,
//! `resource/v1alpha2`.

/// Full method name of `Node.NodeListAndWatchResources`: a server stream; each response has all resources.
pub const NODE_LIST_AND_WATCH_RESOURCES: &str = "/v1alpha3.Node/NodeListAndWatchResources";

/// Asks for the resources of the node.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub struct NodeListAndWatchResourcesRequest {}

/// All resources of the driver on this node.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeListAndWatchResourcesResponse {
    /// The resources, in any number of models.
    #[prost(message, repeated, tag = "1")]
    pub resources: Vec<ResourceModel>,
}

/// Resources, by one of the models of Kubernetes 1.30, which had only this one.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceModel {
    /// Instances with attributes.
    #[prost(message, optional, tag = "1")]
    pub named_resources: Option<NamedResourcesResources>,
}

/// Instances with attributes.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesResources {
    /// Every device that the driver offers on this node.
    #[prost(message, repeated, tag = "1")]
    pub instances: Vec<NamedResourcesInstance>,
}

/// A hardware instance.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesInstance {
    /// Its name: a DNS subdomain, unique for the driver on this node.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What claims may select it by.
    #[prost(message, repeated, tag = "2")]
    pub attributes: Vec<NamedResourcesAttribute>,
}

/// What a claim may select an instance by.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesAttribute {
    /// Its name: a DNS subdomain, unique for the instance.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The value; required by the API.
    #[prost(message, optional, tag = "2")]
    pub attribute_value: Option<NamedResourcesAttributeValue>,
}

/// A value; exactly one field is set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesAttributeValue {
    /// A boolean.
    #[prost(bool, optional, tag = "2")]
    pub bool: Option<bool>,
    /// Text that is compared as it is.
    #[prost(string, optional, tag = "5")]
    pub string: Option<String>,
    /// An amount, which is compared as a number.
    #[prost(message, optional, tag = "6")]
    pub quantity: Option<Quantity>,
    /// An integer.
    #[prost(int64, optional, tag = "7")]
    pub int: Option<i64>,
    /// Integers.
    #[prost(message, optional, tag = "8")]
    pub int_slice: Option<NamedResourcesIntSlice>,
    /// Several texts, as one value.
    #[prost(message, optional, tag = "9")]
    pub string_slice: Option<NamedResourcesStringSlice>,
    /// A semantic version.
    #[prost(string, optional, tag = "10")]
    pub version: Option<String>,
}

/// A quantity, e.g. `1Gi`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Quantity {
    /// The amount as Kubernetes writes it, such as `1Gi`.
    #[prost(string, optional, tag = "1")]
    pub string: Option<String>,
}

/// Integers.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesIntSlice {
    /// The integers. Not packed, as Kubernetes encodes its types; either is decoded.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub ints: Vec<i64>,
}

/// Several texts: a message, because a field of `oneof` style cannot repeat.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NamedResourcesStringSlice {
    /// The texts, in the order of the driver.
    #[prost(string, repeated, tag = "1")]
    pub strings: Vec<String>,
}

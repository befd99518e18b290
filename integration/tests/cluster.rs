//! Nodes in a real cluster: hostlet's or, with `HOSTLET_TEST_KUBELET=stock`, the stock kubelet's, which is the reference of these
//! tests. Needs root, and Go or `KUBEBUILDER_ASSETS` for the control plane.
//!
//! The expected values are in `golden/`, recorded with `HOSTLET_TEST_KUBELET=stock HOSTLET_TEST_RECORD=1`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a test tells its seed, and what it measured")]

#[path = "cluster/admission.rs"]
mod admission;
#[path = "cluster/certificates.rs"]
mod certificates;
#[path = "cluster/claimed_devices.rs"]
mod claimed_devices;
#[path = "cluster/claims.rs"]
mod claims;
#[path = "cluster/controllers.rs"]
mod controllers;
#[path = "cluster/csi.rs"]
mod csi;
#[path = "cluster/csi_node.rs"]
mod csi_node;
#[path = "cluster/csi_sidecars.rs"]
mod csi_sidecars;
#[path = "cluster/csi_takeover.rs"]
mod csi_takeover;
#[path = "cluster/deletion.rs"]
mod deletion;
#[path = "cluster/dra.rs"]
mod dra;
#[path = "cluster/endpoints.rs"]
mod endpoints;
#[path = "cluster/eviction.rs"]
mod eviction;
#[path = "cluster/fields.rs"]
mod fields;
#[path = "cluster/images.rs"]
mod images;
#[path = "cluster/life.rs"]
mod life;
#[path = "cluster/logs.rs"]
mod logs;
#[path = "cluster/many.rs"]
mod many;
#[path = "cluster/node_api.rs"]
mod node_api;
#[path = "cluster/nodes.rs"]
mod nodes;
#[path = "cluster/objects.rs"]
mod objects;
#[path = "cluster/offline.rs"]
mod offline;
#[path = "cluster/pod_certificates.rs"]
mod pod_certificates;
#[path = "cluster/resize.rs"]
mod resize;
#[path = "cluster/restarts.rs"]
mod restarts;
#[path = "cluster/samples.rs"]
mod samples;
#[path = "cluster/services.rs"]
mod services;
#[path = "cluster/static_pods.rs"]
mod static_pods;
#[path = "cluster/stats.rs"]
mod stats;
#[path = "cluster/status.rs"]
mod status;
#[path = "cluster/storm/mod.rs"]
mod storm;
#[path = "cluster/streams.rs"]
mod streams;
#[path = "cluster/support.rs"]
mod support;
#[path = "cluster/validation.rs"]
mod validation;
#[path = "cluster/volumes.rs"]
mod volumes;

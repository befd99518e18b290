//! The old pod resources API (`v1alpha1`): types, clients and servers, generated from `proto/podresources_v1alpha1.proto` of
//! `k8s.io/kubelet` 0.37.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/podresources_v1alpha1/v1alpha1.rs"));

//! The Pods API (`v1alpha1`) of Kubernetes 1.37: types, clients and servers, generated from `proto/pods.proto` of `k8s.io/kubelet`.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all, reason = "generated")]

include!(concat!(env!("OUT_DIR"), "/pods/v1alpha1.rs"));

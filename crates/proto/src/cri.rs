//! The CRI (`runtime.v1`) of Kubernetes 1.37, generated from `proto/cri.proto`: its types, clients and servers.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all, reason = "generated")]

use std::fmt::{Debug, Formatter, Result};

tonic::include_proto!("runtime.v1");

impl Debug for AuthConfig {
    /// Without what `debug_redact` marks upstream.
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { username, server_address, .. } = self;
        f.debug_struct("AuthConfig")
            .field("username", username)
            .field("server_address", server_address)
            .finish_non_exhaustive()
    }
}

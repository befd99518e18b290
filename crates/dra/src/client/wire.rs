//! What is sent and received, in terms of this crate. Pure.

use hostlet_base::one_line;
use hostlet_proto::dra_plugin as wire;

use crate::{Answers, ClaimFailed, ClaimRef, Device};

/// Maximum bytes of a driver's own error text, which may have the output of a program.
pub(super) const MAX_TEXT: usize = 1000;

pub(super) fn claims(claims: &[ClaimRef]) -> Vec<wire::Claim> {
    let claim = |claim: &ClaimRef| wire::Claim {
        namespace: claim.namespace.clone(),
        uid: claim.uid.clone(),
        name: claim.name.clone(),
    };
    claims.iter().map(claim).collect()
}

pub(super) fn prepared(response: wire::NodePrepareResourcesResponse) -> Answers<Vec<Device>> {
    let answer = |answer: wire::NodePrepareResourceResponse| match answer.error.as_str() {
        "" => Ok(answer.devices.into_iter().map(device).collect()),
        error => Err(ClaimFailed(one_line(error, MAX_TEXT))),
    };
    response.claims.into_iter().map(|(uid, claim)| (uid, answer(claim))).collect()
}

pub(super) fn unprepared(response: wire::NodeUnprepareResourcesResponse) -> Answers<()> {
    let answer = |answer: wire::NodeUnprepareResourceResponse| match answer.error.as_str() {
        "" => Ok(()),
        error => Err(ClaimFailed(one_line(error, MAX_TEXT))),
    };
    response.claims.into_iter().map(|(uid, claim)| (uid, answer(claim))).collect()
}

fn device(device: wire::Device) -> Device {
    let wire::Device { request_names, pool_name, device_name, cdi_device_ids, share_id } = device;
    Device { pool_name, device_name, share_id, request_names, cdi_device_ids }
}

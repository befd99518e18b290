//! The claims of this node as people see them. Written by the daemon, read by the command line.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Device;
use crate::ledger::{Claim, ClaimKey, Goal, PartState};

/// What the node does with a claim at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimPhase {
    /// Drivers prepare it, or are about to.
    Preparing,
    /// All drivers have prepared it.
    Prepared,
    /// Drivers unprepare it, or are about to.
    Unpreparing,
}

impl fmt::Display for ClaimPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A ResourceClaim that pods of this node use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What the node does with it.
    pub phase: ClaimPhase,
    /// Why the last call failed, or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The UIDs of the pods that use it; the last pod stays until it is unprepared.
    pub pods: Vec<String>,
    /// Its devices by driver. A driver without devices is listed, too.
    pub drivers: Vec<ClaimDriver>,
}

/// A driver's part of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimDriver {
    /// Its name.
    pub driver: String,
    /// Whether it has done what the phase says.
    pub done: bool,
    /// The devices, as `<pool>/<device>`, with the share of a device that is shared.
    pub devices: Vec<String>,
}

impl ClaimView {
    pub(crate) fn of((namespace, name): &ClaimKey, claim: &Claim) -> Self {
        let phase = match claim.goal {
            Goal::Unprepared => ClaimPhase::Unpreparing,
            Goal::Prepared if claim.is_prepared() => ClaimPhase::Prepared,
            Goal::Prepared => ClaimPhase::Preparing,
        };
        let device = |device: &Device| {
            let share = device.share_id.as_ref().map(|share| format!(" ({share})")).unwrap_or_default();
            format!("{}/{}{share}", device.pool_name, device.device_name)
        };
        let drivers = claim.parts.iter().map(|(driver, part)| ClaimDriver {
            driver: driver.clone(),
            done: part.state == PartState::Done,
            devices: part.devices.iter().map(device).collect(),
        });
        Self {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: claim.uid.clone(),
            phase,
            last_error: claim.error().map(str::to_owned),
            pods: claim.pods.iter().map(ToString::to_string).collect(),
            drivers: drivers.collect(),
        }
    }
}

//! hostlet and the stock kubelet as nodes of one real cluster, on the same containerd, in turns, and bare CRI calls on a
//! separate host.

mod csi;
mod devices;
mod dra;
mod exec;
mod idle;
mod lab;
mod logs;
mod many;
mod pods;
mod probed;
mod pull;
mod requests;
mod resize;
mod scrapes;
mod single;

pub(crate) use csi::csi;
pub(crate) use devices::devices;
pub(crate) use dra::dra;
pub(crate) use exec::exec;
pub(crate) use idle::idle;
pub(crate) use lab::ClusterLab;
pub(crate) use logs::logs;
pub(crate) use many::many;
pub(crate) use probed::probed;
pub(crate) use pull::pull;
pub(crate) use requests::requests;
pub(crate) use resize::resize;
pub(crate) use scrapes::scrapes;
pub(crate) use single::{end, restart, start};

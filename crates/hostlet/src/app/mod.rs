//! Wiring: builds every part, is the only place that spawns tasks, and orders the shutdown. Decides nothing about pods.

mod agents;
mod claims;
mod cluster;
mod csi;
mod devices;
mod engine;
mod error;
mod guard;
mod images;
mod manifests;
mod node_api;
mod node_events;
mod node_side;
mod numa;
mod offline;
mod own_threads;
mod parts;
mod paths;
mod plugins;
mod pods;
mod ports;
mod reload;
mod run;
mod runtime;
mod startup;
mod stats;
mod tasks;
mod views;

pub(crate) use error::AppError;
pub(crate) use reload::Reload;
pub(crate) use run::run;

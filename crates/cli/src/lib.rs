//! The commands that a person types, and what those of them do that need no daemon.

pub mod commands;
pub mod doctor;
pub mod purge;

#[cfg(test)]
hostlet_host::work_in_place!();

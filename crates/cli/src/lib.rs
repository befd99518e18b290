//! The commands that a person types, and what those of them do that need no daemon.

pub mod commands;
mod doctor;
mod purge;

#[cfg(test)]
hostlet_host::work_in_place!();

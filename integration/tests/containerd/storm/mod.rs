//! A storm: daemon and containerd are killed at random moments while pods of every kind are added, changed and removed.

mod history;
mod kills;
mod pods;
mod script;
mod settled;
mod task;

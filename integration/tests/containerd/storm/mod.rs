//! A storm: daemon and containerd are killed at random moments while pods of every kind come, change and go.

mod history;
mod kills;
mod pods;
mod script;
mod settled;
mod task;

//! A storm: daemon and containerd are killed, and disks fail, at random moments while pods of every kind are added, changed and removed.

mod faults;
mod kills;
mod script;
mod settled;
mod task;

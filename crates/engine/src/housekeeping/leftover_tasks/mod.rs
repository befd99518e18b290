//! Deletes the tasks that containerd keeps for containers and sandboxes that have ended. A start whose caller was killed, or gave
//! up, may leave one (seen with containerd 2.4.2), and then the CRI cannot remove the container: "cannot delete running task". Only
//! what hostlet recorded as its own is touched.

mod suspects;
mod task;

pub(crate) use task::LeftoverTasks;

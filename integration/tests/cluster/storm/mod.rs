//! A storm in a cluster: the API server is killed, frozen and cut off, and the agent killed and put under memory pressure, at random
//! moments while pods are created and deleted.

mod script;
mod settled;
mod task;

//! A node left alone for a year: time, not load. Pods come and go, new versions of images replace old ones, logs and volumes grow, the
//! API server is away for days, the host boots. The disk fills, is relieved by garbage collection, and nothing of what was removed stays
//! anywhere: on the disk, in the store, in metrics, in memory.
//!
//! Idle time passes in leaps of two minutes, as for a host that is suspended: a year of relists would take hours.

mod disk;
mod heap;
mod kinds;
mod run_tests;
mod world;

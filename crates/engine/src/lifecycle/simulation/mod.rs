//! Simulation of a node with faults: calls fail, are slow, hang or take effect despite an error; events are lost, duplicated and
//! late; containers, sandboxes, daemons and the runtime die; the host boots; clocks are set by ten years; manifests change and break. Invariants are checked
//! after every step; in the end every desired pod runs, and nothing else is left.
//!
//! Deterministic by seed. A failure is printed with the command that reproduces it.

mod checker;
mod crash_tests;
mod faults;
mod fuse;
mod model;
mod replay_tests;
mod settled;
mod source;
mod trace;
mod world;
mod year;

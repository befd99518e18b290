//! A node on which everything goes wrong: calls fail, drag on, hang or take effect unsaid, events get lost, doubled and late,
//! containers, sandboxes, daemons and the runtime end, clocks are set, manifests change and break. What must hold is judged after
//! every step; once it is over every wanted pod runs, and nothing else is left.
//!
//! A seed decides everything. What failed is printed with the command that runs it again.

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

//! A CSI driver for tests: the program `csi_driver` (`src/bin/csi_driver`) as a process, and its scripted faults.

mod faults;
mod process;

pub use faults::{Fault, Faults};
pub use process::{CsiDriver, CsiDriverOptions, csi_registrar};

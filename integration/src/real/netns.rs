//! A network namespace per host, with a bridge that is its whole world: nothing leaves it. Knows nothing of pods.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::shell::run;

/// The address of the host in its namespace.
const NODE_IP: &str = "10.77.0.1";
/// The default route's next hop. Nobody has this address: what is routed there goes nowhere.
const NOBODY: &str = "10.77.0.254";

/// A named network namespace. Removed by the shell function `remove_host`, not by dropping this.
#[derive(Debug)]
pub(super) struct Netns {
    name: String,
}

impl Netns {
    /// Makes the namespace `name` with loopback, a bridge that is up, and a default route onto that bridge.
    pub(super) fn create(name: &str) -> Result<Self> {
        run(Command::new("ip").args(["netns", "add", name]))?;
        let netns = Self { name: name.to_owned() };
        for step in [
            "link set lo up",
            "link add host0 type bridge",
            // A bridge without a port has no carrier, and routes over it would be dead.
            "link add port0 type veth peer name port1",
            "link set port0 master host0 up",
            "link set port1 up",
            &format!("addr add {NODE_IP}/24 dev host0"),
            "link set host0 up",
            &format!("route add default via {NOBODY} dev host0"),
        ] {
            run(Command::new("ip").args(["-n", name]).args(step.split(' ')))?;
        }
        Ok(netns)
    }

    /// The namespace's file.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// A command that runs `program` in the namespace, as the very process that is spawned. Not `ip netns exec`: that
    /// gives the program a mount namespace of its own, and nobody would see the namespaces of pods it mounts.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }
}

//! An isolated network namespace per host, with a bridge. Knows nothing of pods.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::shell::run;

/// The default route's next hop, an unused address: packets to it are lost.
const NOBODY: &str = "10.77.0.254";
/// The address of a host in an isolated namespace.
pub(super) const LONELY_ADDRESS: &str = "10.77.0.1";

/// A named network namespace. Removed by the shell function `remove_host`, not by dropping this.
#[derive(Debug)]
pub(crate) struct Netns {
    name: String,
}

impl Netns {
    /// Creates the namespace `name` with loopback, a bridge with an address of `10.77.0.0/16`, and a default route over the
    /// bridge. Packets are forwarded, as on every host with pods.
    pub(crate) fn create(name: &str, address: &str) -> Result<Self> {
        run(Command::new("ip").args(["netns", "add", name]))?;
        let netns = Self { name: name.to_owned() };
        let [a, b, c, d] = address.parse::<Ipv4Addr>()?.octets();
        netns.ip(&[
            "link set lo up",
            // Without an address of its own, a bridge takes the lowest one of its ports, and another one when that port goes: others then
            // send to an address that nobody has, for 40 s.
            &format!("link add host0 address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x} type bridge"),
            // A bridge without a port has no carrier, so its routes would be dead.
            "link add port0 type veth peer name port1",
            "link set port0 master host0 up",
            "link set port1 up",
            &format!("addr add {address}/16 dev host0"),
            "link set host0 up",
            &format!("route add default via {NOBODY} dev host0"),
        ])?;
        run(netns.command("sh").args(["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"]))?;
        Ok(netns)
    }

    /// Connects this namespace's bridge with that of `hub`; `port` is the interface there.
    pub(crate) fn connect(&self, hub: &Self, port: &str) -> Result<()> {
        self.ip(&[
            &format!("link add cable0 type veth peer name {port} netns {}", hub.name),
            "link set cable0 master host0 up",
        ])?;
        hub.ip(&[&format!("link set {port} master host0 up")])
    }

    /// Runs `ip` in the namespace, once for each space-separated list of arguments.
    pub(crate) fn ip(&self, steps: &[&str]) -> Result<()> {
        for step in steps {
            run(Command::new("ip").args(["-n", &self.name]).args(step.split(' ')))?;
        }
        Ok(())
    }

    /// The namespace's file.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// A command that execs `program` in the namespace. Not `ip netns exec`, which gives the program a separate mount
    /// namespace, so that its mounts of pods' network namespaces would be invisible.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path().display())).arg(program);
        command
    }
}

//! How a fault begins, and how it ends.

use anyhow::{Context, Result, ensure};
use hostlet_integration::real::Disk;

use super::script::{Fault, Round, Which};
use super::task::Storm;

impl Storm {
    /// Begins the fault of a round.
    pub(super) fn strike(&mut self, round: &Round) -> Result<()> {
        match round.fault {
            Fault::None => {}
            Fault::KillDaemon => self.kill_daemon()?,
            Fault::KillRuntime => self.host.kill_containerd()?,
            Fault::KillBoth => {
                self.kill_daemon()?;
                self.host.kill_containerd()?;
            }
            Fault::KillBothRuntimeFirst => {
                self.host.kill_containerd()?;
                self.kill_daemon()?;
            }
            Fault::FreezeRuntime | Fault::FreezeAndKillRuntime => self.host.freeze_containerd()?,
            Fault::FillDisk(which) => self.disk(which)?.fill()?,
            Fault::FillDiskAndKillDaemon(which) => {
                self.disk(which)?.fill()?;
                self.kill_daemon()?;
                self.launch_daemon(self.patience)?;
            }
            Fault::FreezeDisk(which) => self.frozen = Some(self.disk(which)?.freeze(round.outage)?),
            Fault::FreezeDiskAndKillDaemon(which) => {
                self.frozen = Some(self.disk(which)?.freeze(round.outage)?);
                self.kill_daemon()?;
            }
            Fault::BreakDisk => self.disk(Which::Own)?.break_down()?,
        }
        Ok(())
    }

    /// Ends it. The daemon may be dead afterwards.
    pub(super) fn relieve(&mut self, round: &Round) -> Result<()> {
        match round.fault {
            Fault::None | Fault::KillDaemon => {}
            Fault::KillRuntime | Fault::KillBoth | Fault::KillBothRuntimeFirst => {
                self.host.launch_containerd()?
            }
            Fault::FreezeRuntime => self.host.thaw_containerd()?,
            Fault::FreezeAndKillRuntime => {
                self.host.kill_containerd()?;
                self.host.launch_containerd()?;
            }
            Fault::FillDisk(which) | Fault::FillDiskAndKillDaemon(which) => {
                self.disk(which)?.relieve()?;
                self.check_daemon()?;
            }
            Fault::FreezeDisk(_) => {
                self.wait_for_disk()?;
                self.check_daemon()?;
            }
            Fault::FreezeDiskAndKillDaemon(_) => self.wait_for_disk()?,
            Fault::BreakDisk => {
                self.kill_daemon()?;
                self.disk(Which::Own)?.remount()?;
            }
        }
        Ok(())
    }

    fn disk(&self, which: Which) -> Result<&Disk> {
        let number = match which {
            Which::All => 0,
            Which::Own => 1,
        };
        self.host.disks().get(number).context("a host without disks of its own")
    }

    /// Waits until a frozen disk continues.
    fn wait_for_disk(&mut self) -> Result<()> {
        let status = self.frozen.take().context("no disk is frozen")?.wait().context("waiting for a disk")?;
        ensure!(status.success(), "a disk does not continue: {status}");
        Ok(())
    }

    /// Fails if the daemon ended by itself.
    fn check_daemon(&mut self) -> Result<()> {
        self.daemon.as_mut().map_or(Ok(()), |daemon| daemon.check_it_runs())
    }
}

//! The kernel's figures of a process: memory, CPU, context switches, bytes. Reads only procfs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::Instant;

/// Memory of a process, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Resident memory, including pages of the program's file.
    pub(crate) rss: f64,
    /// Private memory.
    pub(crate) private: f64,
    /// Peak resident memory.
    pub(crate) peak: f64,
}

/// The activity of a process during an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// Thousandths of a core.
    pub(crate) millicores: f64,
    /// Voluntary context switches per second: how often it woke up.
    pub(crate) wakeups: f64,
    /// Bytes it caused to be written to storage.
    pub(crate) written: f64,
}

/// Reads a process's memory.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let status = read(pid, "status")?;
    let smaps = read(pid, "smaps_rollup")?;
    let kib = |text: &str, key: &str| field(text, key).map(|kib| kib * 1024.0);
    Ok(Memory {
        rss: kib(&status, "VmRSS:")?,
        private: kib(&smaps, "Private_Clean:")? + kib(&smaps, "Private_Dirty:")?,
        peak: kib(&status, "VmHWM:")?,
    })
}

/// Measures a process for `duration`.
pub(crate) async fn activity(pid: u32, duration: Duration) -> Result<Activity> {
    let before = Totals::read(pid)?;
    tokio::time::sleep(duration).await;
    let after = Totals::read(pid)?;
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    Ok(Activity {
        millicores: (after.cpu_seconds - before.cpu_seconds) / seconds * 1000.0,
        wakeups: after.switches_since(&before) / seconds,
        written: after.written - before.written,
    })
}

/// CPU time a process has used so far, seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = read(pid, "stat")?;
    // The name, in parentheses, may hold spaces; utime and stime are the 14th and 15th field of proc_pid_stat(5).
    let fields = stat.rsplit_once(") ").context("no name in stat")?.1;
    let ticks: Vec<f64> = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    let hertz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("no clock ticks")?;
    Ok(ticks.iter().sum::<f64>() / hertz as f64)
}

struct Totals {
    at: Instant,
    cpu_seconds: f64,
    /// By thread, because the count of a thread is lost when it exits.
    switches: HashMap<OsString, f64>,
    written: f64,
}

impl Totals {
    fn read(pid: u32) -> Result<Self> {
        let mut switches = HashMap::new();
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("listing threads")?;
        for task in tasks.flatten() {
            // A thread may exit while it is read.
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            switches.insert(task.file_name(), field(&status, "voluntary_ctxt_switches:").unwrap_or(0.0));
        }
        Ok(Self {
            at: Instant::now(),
            cpu_seconds: cpu_seconds(pid)?,
            switches,
            written: field(&read(pid, "io")?, "write_bytes:")?,
        })
    }

    /// The counts of the existing threads.
    fn switches_since(&self, before: &Self) -> f64 {
        let since = |(thread, now): (&OsString, &f64)| now - before.switches.get(thread).unwrap_or(&0.0);
        self.switches.iter().map(since).sum()
    }
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("reading {path}"))
}

/// The number after `key` at the start of a line.
fn field(text: &str, key: &str) -> Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
    let number = rest.split_whitespace().next().with_context(|| format!("nothing behind {key}"))?;
    number.parse().with_context(|| format!("{key} {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_used_cpu() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.rss > 0.0 && memory.private > 0.0 && memory.peak > 0.0, "{memory:?}");
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }

    #[test]
    fn the_exit_of_a_thread_changes_nothing() {
        let totals = |switches: &[(&str, f64)]| Totals {
            at: Instant::now(),
            cpu_seconds: 0.0,
            switches: switches.iter().map(|(thread, count)| (OsString::from(thread), *count)).collect(),
            written: 0.0,
        };
        let before = totals(&[("1", 5.0), ("2", 1000.0)]);
        assert_eq!(totals(&[("1", 8.0), ("3", 2.0)]).switches_since(&before), 5.0);
    }

    #[test]
    fn a_key_matches_completely() {
        let text = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t5\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:").unwrap(), 5.0);
    }
}

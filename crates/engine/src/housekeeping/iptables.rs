//! The iptables chains that other components of a node expect of its kubelet. Uses the host's own iptables, which decides
//! between the legacy and the nftables back-end, and makes no chain for pods or Services.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use hostlet_base::error_chain;
use hostlet_telemetry::Changed;

/// Interval between checks for the hint, as upstream.
const PERIOD: Duration = Duration::from_secs(60);

/// How long iptables waits for other users of its lock, in seconds, as upstream.
const LOCK_SECONDS: &str = "5";

/// How long one call may take. The lock is part of it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Its existence shows other components which back-end this host uses (KEP-3178).
const HINT: (&str, &str) = ("mangle", "KUBE-IPTABLES-HINT");
const FIREWALL: (&str, &str) = ("filter", "KUBE-FIREWALL");

/// The programs of both families.
pub const IPTABLES: [(&str, Family); 2] = [("iptables", Family::V4), ("ip6tables", Family::V6)];

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Keeps the chains while the daemon runs. The app runs it. They stay afterwards, as upstream, until a purge.
pub struct IptablesChains {
    /// The iptables program of each family.
    pub programs: Vec<(PathBuf, Family)>,
}

/// Why the chains could not be made or removed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum IptablesError {
    /// The program does not exist.
    #[error("this host has no {}", program.display())]
    Missing { program: PathBuf },
    /// It could not be run.
    #[error("cannot run {}", program.display())]
    Run { program: PathBuf, source: std::io::Error },
    /// It took too long.
    #[error("`{command}` did not end within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// The program and its arguments.
        command: String,
    },
    /// It ran, and the chain is still there.
    #[error("{} did not remove the chain {}", program.display(), HINT.1)]
    Left { program: PathBuf },
    /// The program ran, and exited with an error.
    #[error("`{command}` failed ({status}): {output}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it printed.
        output: String,
    },
}

/// Something that has to exist.
#[derive(Clone, Copy, Debug)]
enum Part {
    Chain((&'static str, &'static str)),
    Rule { add: &'static str, chain: (&'static str, &'static str), rule: &'static [&'static str] },
}

/// Packets to loopback addresses that come from elsewhere are dropped: kube-proxy may let the kernel route them
/// (kubernetes issue 90259). kube-proxy creates the same rule.
const NO_FOREIGN_LOOPBACK: [Part; 4] = [
    Part::Chain(FIREWALL),
    Part::Rule { add: "-I", chain: ("filter", "OUTPUT"), rule: &["-j", FIREWALL.1] },
    Part::Rule { add: "-I", chain: ("filter", "INPUT"), rule: &["-j", FIREWALL.1] },
    Part::Rule {
        add: "-A",
        chain: FIREWALL,
        rule: &[
            "-m",
            "comment",
            "--comment",
            "block incoming localnet connections",
            "--dst",
            "127.0.0.0/8",
            "!",
            "--src",
            "127.0.0.0/8",
            "-m",
            "conntrack",
            "!",
            "--ctstate",
            "RELATED,ESTABLISHED,DNAT",
            "-j",
            "DROP",
        ],
    },
];

/// What a family has, in upstream's order.
fn parts(family: Family) -> Vec<Part> {
    let mut parts = vec![Part::Chain(HINT)];
    match family {
        Family::V4 => parts.extend(NO_FOREIGN_LOOPBACK),
        // The kernel never routes packets to ::1 from elsewhere.
        Family::V6 => {}
    }
    parts
}

impl IptablesChains {
    /// Makes the chains, and makes them again when somebody flushed iptables, until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut results = vec![Changed::new(); self.programs.len()];
        let mut is_first = true;
        loop {
            let round = async {
                for ((program, family), last) in self.programs.iter().zip(&mut results) {
                    report(program, last, keep(program, *family, is_first).await);
                }
                is_first = false;
                sleep(PERIOD).await;
            };
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: each call of iptables is atomic, and the next start completes the chains.
                () = round => {}
            }
        }
    }
}

/// Whether a family's hint exists. Unknown is no.
pub async fn has_iptables_chains(program: &Path) -> bool {
    let (table, chain) = HINT;
    call(program, &["-S", chain, "-t", table]).await.unwrap_or(false)
}

/// Removes what [`IptablesChains`] makes in a family. What others use stays: iptables removes no chain with rules, or one that a rule
/// refers to. Idempotent.
pub async fn remove_iptables_chains(program: &Path, family: Family) -> Result<(), IptablesError> {
    for part in parts(family).into_iter().rev() {
        let arguments = match part {
            Part::Chain((table, chain)) => vec!["-X", chain, "-t", table],
            Part::Rule { chain: (table, chain), rule, .. } => [&["-D", chain, "-t", table], rule].concat(),
        };
        // Fails if it does not exist, with a status that depends on the back-end.
        output(program, &arguments).await?;
    }
    if has_iptables_chains(program).await {
        return Err(IptablesError::Left { program: program.to_owned() });
    }
    Ok(())
}

fn report(program: &Path, last: &mut Changed<Option<String>>, kept: Result<bool, IptablesError>) {
    let problem = kept.as_ref().err().map(|error| error_chain(error));
    let is_news = last.see(problem.clone());
    match (kept, problem) {
        (Ok(true), _) => tracing::info!(program = %program.display(), "made the iptables chain {}", HINT.1),
        (Err(_), Some(problem)) if is_news => {
            tracing::info!(
                problem,
                "cannot make the iptables chain {}, which other components may look for",
                HINT.1
            );
        }
        (Ok(false) | Err(_), _) => {}
    }
}

/// Makes what is missing; returns whether anything was looked at beyond the hint. Without the hint, iptables was flushed, and
/// the rest is missing as well.
async fn keep(program: &Path, family: Family, is_first: bool) -> Result<bool, IptablesError> {
    let (table, chain) = HINT;
    if !is_first && call(program, &["-S", chain, "-t", table]).await? {
        return Ok(false);
    }
    for part in parts(family) {
        match part {
            // Fails if the chain exists.
            Part::Chain((table, chain)) => {
                call(program, &["-N", chain, "-t", table]).await?;
            }
            Part::Rule { add, chain: (table, chain), rule } => {
                let arguments = |operation| [&[operation, chain, "-t", table], rule].concat();
                if !call(program, &arguments("-C")).await? {
                    let added = arguments(add);
                    let output = output(program, &added).await?;
                    if !output.status.success() {
                        return Err(failed(program, &added, &output));
                    }
                }
            }
        }
    }
    Ok(true)
}

/// Whether a question is answered with yes. No is status 1; other statuses are errors.
async fn call(program: &Path, arguments: &[&str]) -> Result<bool, IptablesError> {
    let output = output(program, arguments).await?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        Some(_) | None => Err(failed(program, arguments, &output)),
    }
}

async fn output(program: &Path, arguments: &[&str]) -> Result<std::process::Output, IptablesError> {
    let mut command = Command::new(program);
    command.args(["-w", LOCK_SECONDS]).args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(TIMEOUT, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => {
            Err(IptablesError::Missing { program: program.to_owned() })
        }
        Ok(Err(source)) => Err(IptablesError::Run { program: program.to_owned(), source }),
        Err(_) => Err(IptablesError::Timeout { command: spelled(program, arguments) }),
    }
}

fn failed(program: &Path, arguments: &[&str], output: &std::process::Output) -> IptablesError {
    IptablesError::Failed {
        command: spelled(program, arguments),
        status: output.status,
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}

fn spelled(program: &Path, arguments: &[&str]) -> String {
    format!("{} {}", program.display(), arguments.join(" "))
}

#[cfg(test)]
#[path = "iptables_tests.rs"]
mod tests;

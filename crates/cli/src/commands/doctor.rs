//! `hostlet doctor`: checks this host, and gets a fresh one ready. Needs no daemon.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use hostlet_base::error_chain;

use super::error::CommandError;
use super::exit::Exit;
use super::host_args::HostArgs;
use super::objects::{ObjectFormat, write_object};
use crate::doctor::{Facts, Finding, Fixer, Level, Place, check, gather, plan};

/// Arguments of `hostlet doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Get the host ready: enable the CRI in containerd, link network plugins, write a network for pods, import the image of sandboxes
    #[arg(long)]
    pub fix: bool,
    /// Archive with the image of sandboxes, for --fix
    #[arg(
        long, value_name = "FILE", value_hint = ValueHint::FilePath,
        default_value = "/usr/share/hostlet/images/pause.tar"
    )]
    pub pause_archive: PathBuf,
    /// Print the findings as objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon that is to run here
    #[command(flatten)]
    pub host: HostArgs,
}

/// Runs `hostlet doctor` on the host with this name. Fails if something is wrong.
pub async fn doctor(args: DoctorArgs, hostname: String) -> Result<Exit, CommandError> {
    let place = Place { root: "/".into(), flags: args.host.flags()?, hostname };
    let mut facts = gather(&place).await?;
    let mut has_failed = false;
    if args.fix {
        (facts, has_failed) = fix(&args, &place, facts).await?;
    }
    let findings = check(&facts);
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &findings)?,
        None => write!(out, "{}", text(&findings))?,
    }
    let is_wrong = findings.iter().any(|finding| finding.level == Level::Wrong);
    Ok(if is_wrong || has_failed { Exit::Failed } else { Exit::Ok })
}

/// Performs the fixes, and prints each to stderr. A runtime that responds after one fix may show that another is needed.
async fn fix(args: &DoctorArgs, place: &Place, facts: Facts) -> Result<(Facts, bool), CommandError> {
    let mut facts = facts;
    let mut done = Vec::new();
    loop {
        let fixer = Fixer {
            socket: facts.config.runtime.runtime_socket.clone(),
            systemctl: facts.cgroups.has_systemd.then(|| "systemctl".into()),
        };
        let next = plan(&facts, &args.pause_archive).into_iter().find(|fix| !done.contains(fix));
        let Some(fix) = next else { break };
        writeln!(io::stderr(), "fix: {fix}")?;
        if let Err(error) = fixer.perform(&fix).await {
            writeln!(io::stderr(), "fix failed: {}", error_chain(&error))?;
            return Ok((gather(place).await?, true));
        }
        done.push(fix);
        facts = gather(place).await?;
    }
    if done.is_empty() {
        writeln!(io::stderr(), "fix: nothing to do")?;
    }
    Ok((facts, false))
}

/// A line per finding, with the remedy below.
fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Wrong => "WRONG",
            Level::Unknown => "unseen",
        };
        text.push_str(&format!("{level:<8} {:<14} {}\n", finding.check, finding.text.replace('\n', " ")));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:<23} → {remedy}\n", ""));
        }
    }
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    match (count(Level::Wrong), count(Level::Warning), count(Level::Unknown)) {
        (0, 0, 0) => text.push_str("\nAll is well.\n"),
        (wrong, warnings, unseen) => {
            text.push_str(&format!("\n{wrong} wrong, {warnings} warnings, {unseen} not seen.\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_a_line_and_its_remedy_below() {
        let findings: Vec<Finding> = serde_json::from_value(serde_json::json!([
            {"check": "kernel", "level": "ok", "text": "6.1"},
            {"check": "swap", "level": "wrong", "text": "in use", "remedy": "swapoff -a"},
        ]))
        .unwrap();
        let expected = "ok       kernel         6.1\nWRONG    swap           in use\n                        → swapoff -a\n\n\
                        1 wrong, 0 warnings, 0 not seen.\n";
        assert_eq!(text(&findings), expected);
        assert!(text(&findings[..1]).ends_with("All is well.\n"));
    }
}

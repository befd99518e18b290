//! Writes hostlet's man pages and shell completions to a directory, from the command line's definition and from
//! `docs/configuration.md`. A program of its own, so that none of this is in hostlet. Same input, same output: the date on the
//! pages is SOURCE_DATE_EPOCH.

mod commands;
mod markdown;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::CommandFactory;
use clap_complete::Shell;
use hostlet_cli::commands::Cli;
use jiff::Timestamp;
use markdown::Page;

/// The page of the configuration file, from the top of the source tree.
const CONFIGURATION: &str = "docs/configuration.md";

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(top), Some(out), None) = (arguments.next(), arguments.next(), arguments.next()) else {
        bail!("usage: hostlet-manual SOURCE_TREE DIRECTORY");
    };
    let (top, out) = (PathBuf::from(top), PathBuf::from(out));
    let date = date().context("the time in SOURCE_DATE_EPOCH, in seconds since 1970")?;
    write_manual(&top, &out.join("man"), &date)?;
    write_completions(&out.join("completions"))
}

/// The date on the pages, as `2026-01-31`.
fn date() -> anyhow::Result<String> {
    let seconds = std::env::var("SOURCE_DATE_EPOCH")?;
    Ok(Timestamp::from_second(seconds.parse()?)?.strftime("%F").to_string())
}

fn write_manual(top: &Path, out: &Path, date: &str) -> anyhow::Result<()> {
    create(out)?;
    for (name, page) in commands::pages(Cli::command(), date)? {
        write(&out.join(name), &page)?;
    }
    let source = top.join(CONFIGURATION);
    let text = fs::read_to_string(&source).with_context(|| format!("reading {}", source.display()))?;
    let page = Page {
        title: "hostlet-config",
        section: "5",
        date,
        summary: "configuration file of hostlet",
        see_also: "hostlet(8), hostlet-config(8)",
    };
    write(&out.join("hostlet-config.5"), page.roff(&text).as_bytes())
}

fn write_completions(out: &Path) -> anyhow::Result<()> {
    create(out)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "hostlet", out)
            .with_context(|| format!("writing the completions for {shell} to {}", out.display()))?;
    }
    Ok(())
}

fn create(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

//! Measures how much of what clusters run hostlet admits: reads the YAML or JSON documents of projects, makes the pod of every
//! workload, and prints which fields hostlet rejects. `integration/workloads.sh` runs it. Changes nothing.

mod verdict;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::verdict::{Verdict, judge};
use crate::workload::workloads;

const USAGE: &str = "usage: admission DIRECTORY
DIRECTORY has a directory or a file for each project, with its documents in files named *.yaml, *.yml or *.json.";

#[allow(clippy::print_stdout, reason = "a program of its own: the table is its output")]
fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(root), None) = (arguments.next(), arguments.next()) else { bail!(USAGE) };
    let mut total = Sums::default();
    for (project, files) in projects(Path::new(&root))? {
        let mut sums = Sums::default();
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
            let found = match workloads(&text) {
                Ok(found) => found,
                // E.g. a template of a chart.
                Err(error) => {
                    println!("{project}  {}  skipped: {}", file.display(), error.root_cause());
                    continue;
                }
            };
            for workload in found {
                let verdict = judge(&workload.pod);
                println!("{project}  {}  {verdict}", workload.name);
                sums.add(&verdict);
            }
        }
        total.projects += usize::from(sums.workloads() > 0);
        total.extend(&sums);
    }
    println!("{total}");
    Ok(())
}

/// The files of each project, in order.
fn projects(root: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut projects = BTreeMap::new();
    for path in entries(root)? {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let files: &mut Vec<PathBuf> = projects.entry(name).or_default();
        add_files(path, files)?;
    }
    Ok(projects)
}

fn add_files(path: PathBuf, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        for entry in entries(&path)? {
            add_files(entry, files)?;
        }
    } else if path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known)) {
        files.push(path);
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("reading {}", directory.display());
    let entries = fs::read_dir(directory).with_context(failed)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().with_context(failed)?;
    paths.sort();
    Ok(paths)
}

/// The workloads of a number of projects, by verdict.
#[derive(Default)]
struct Sums {
    projects: usize,
    admitted: usize,
    apart: usize,
    rejected: usize,
    invalid: usize,
}

impl Sums {
    fn add(&mut self, verdict: &Verdict) {
        let sum = match verdict {
            Verdict::Admitted => &mut self.admitted,
            Verdict::Apart(_) => &mut self.apart,
            Verdict::Rejected(_) => &mut self.rejected,
            Verdict::Invalid(_) => &mut self.invalid,
        };
        *sum += 1;
    }

    fn extend(&mut self, others: &Self) {
        self.admitted += others.admitted;
        self.apart += others.apart;
        self.rejected += others.rejected;
        self.invalid += others.invalid;
    }

    fn workloads(&self) -> usize {
        self.admitted + self.apart + self.rejected + self.invalid
    }
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = self.workloads() - self.apart;
        let tenths = (self.admitted * 1000).checked_div(counted).unwrap_or(0);
        write!(
            f,
            "{} workloads of {} projects: {} admitted, {} rejected, {} invalid; {} are for Windows; \
             admitted of the others: {}.{} %",
            self.workloads(),
            self.projects,
            self.admitted,
            self.rejected,
            self.invalid,
            self.apart,
            tenths / 10,
            tenths % 10
        )
    }
}

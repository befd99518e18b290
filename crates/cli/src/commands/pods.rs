//! `hostlet pods`: this node's pods as a table, JSON or YAML, once or as they change.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};
use hostlet_base::json;
use hostlet_observe::status::summary;
use hostlet_serve::explain::{PodName, matches_pod_name};
use hostlet_serve::server::{PodsView, Problem};
use jiff::Timestamp;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;

use super::client::{DaemonArgs, Watch, pulls, view};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};
use super::pulls::pull_lines;
use super::table::{Color, Width, aligned_pods_table, pods_table};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table with UIDs and messages.
    Wide,
    /// A v1 PodList.
    Json,
    /// A v1 PodList.
    Yaml,
}

/// Arguments of `hostlet pods`.
#[derive(Clone, Debug, Args)]
pub struct PodsArgs {
    /// Show only pods of this name (with or without the node's name appended); fail if there is none
    pub name: Option<String>,
    /// Print more columns, or whole objects
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
    /// Watch: print pods again as they change
    #[arg(short, long)]
    pub watch: bool,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet pods`.
pub async fn pods(args: PodsArgs) -> Result<Exit, CommandError> {
    if args.watch {
        return watch(&args).await;
    }
    let socket = args.daemon.socket();
    let node = view(&socket).await?;
    let pulls = pulls(&socket).await?;
    let shown = selected(&node, args.name.as_deref());
    let mut out = io::stdout().lock();
    print(&mut out, &shown, &args)?;
    print_problems(&node, &mut io::stderr().lock())?;
    for line in pull_lines(&pulls, Timestamp::now()) {
        writeln!(io::stderr(), "\n{line}")?;
    }
    Ok(if shown.is_empty() && args.name.is_some() { Exit::Failed } else { Exit::Ok })
}

fn selected<'a>(node: &'a PodsView, name: Option<&str>) -> Vec<&'a Pod> {
    let matches = |pod: &&Pod| {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let own = PodName { namespace, name: pod.metadata.name.as_deref().unwrap_or_default() };
        name.is_none_or(|name| matches_pod_name(name, own, &node.node))
    };
    node.pods.iter().filter(matches).collect()
}

fn print(out: &mut impl Write, pods: &[&Pod], args: &PodsArgs) -> Result<(), CommandError> {
    let list = || {
        let items = pods.iter().map(|pod| (*pod).clone()).collect();
        json::to_value(&List::<Pod> { items, ..List::default() })
    };
    match args.output {
        Some(Output::Json) => write_object(out, ObjectFormat::Json, &list()?)?,
        Some(Output::Yaml) => write_object(out, ObjectFormat::Yaml, &list()?)?,
        Some(Output::Wide) => table(out, pods, Width::Wide)?,
        None => table(out, pods, Width::Narrow)?,
    }
    Ok(())
}

fn table(out: &mut impl Write, pods: &[&Pod], width: Width) -> io::Result<()> {
    if pods.is_empty() {
        return writeln!(out, "No pods.");
    }
    writeln!(out, "{}", pods_table(pods, width, color(), Timestamp::now()))
}

/// Whether the standard output is to have colors.
pub(super) fn color() -> Color {
    // NO_COLOR: https://no-color.org
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && io::stdout().is_terminal() { Color::On } else { Color::Off }
}

/// Prints problems of the node and of manifests to stderr, so that scripts can parse stdout.
pub(super) fn print_problems(node: &PodsView, err: &mut impl Write) -> io::Result<()> {
    if let Some(trouble) = &node.trouble {
        writeln!(err, "\nThis node: {trouble}")?;
    }
    for sentence in &node.pressure {
        writeln!(err, "\n{sentence}")?;
    }
    if let Some(trouble) = &node.store {
        writeln!(err, "\nThe store: {trouble}.")?;
    }
    if let Some(trouble) = &node.shims {
        writeln!(err, "\nThis node: {trouble}.")?;
    }
    if let Some(foreign) = &node.foreign {
        writeln!(err, "\nThis node: {foreign}.")?;
    }
    if let Some(trouble) = &node.kubelets {
        writeln!(err, "\nThis node: {trouble}.")?;
    }
    if let Some(shutdown) = &node.shutdown {
        writeln!(err, "\nThis node: {shutdown}.")?;
    }
    if let Some(trouble) = &node.offline {
        writeln!(err, "\nThe stored objects: {trouble}.")?;
    }
    if let Some(trouble) = &node.credentials {
        writeln!(err, "\nThe credentials: {trouble}.")?;
    }
    if let Some(certificate) = node.certificate.as_ref().filter(|certificate| certificate.is_problem) {
        writeln!(err, "\n{}", certificate.state)?;
    }
    if let Some(trouble) = &node.api {
        writeln!(err, "\nThe API server cannot be read: {trouble}.")?;
    }
    for hung in &node.hung {
        let pod = hung.pod.as_ref().map(|pod| format!(" of pod {pod}")).unwrap_or_default();
        writeln!(
            err,
            "\nThe container runtime hangs: {} on {}{pod} for {} s.",
            hung.call, hung.subject, hung.seconds
        )?;
    }
    archive_problems(err, &node.archives)?;
    for problem in &node.plugins {
        writeln!(err, "\n{}.", problem.trim_end_matches('.'))?;
    }
    for problem in &node.problems {
        writeln!(err, "\nManifest {} cannot be used:", problem.file)?;
        for line in problem.message.lines() {
            writeln!(err, "  {line}")?;
        }
        if let Some(pod) = &problem.pod {
            let running = node.pods.iter().any(|p| {
                format!(
                    "{}/{}",
                    p.metadata.namespace.as_deref().unwrap_or_default(),
                    p.metadata.name.as_deref().unwrap_or_default()
                ) == *pod
            });
            if running {
                writeln!(err, "  Pod {pod} keeps running unchanged.")?;
            }
        }
    }
    Ok(())
}

/// Prints unusable image archives.
pub(super) fn archive_problems(err: &mut impl Write, problems: &[Problem]) -> io::Result<()> {
    for problem in problems {
        writeln!(err, "\nImage archive {} {}.", problem.file, problem.message)?;
    }
    Ok(())
}

/// Prints every pod, then each pod again when its line changes.
async fn watch(args: &PodsArgs) -> Result<Exit, CommandError> {
    let mut watch = Watch::of_node(&args.daemon.socket()).await?;
    let mut shown: HashMap<String, (String, String)> = HashMap::new();
    let mut is_first = true;
    let mut widths = Vec::new();
    while let Some(node) = watch.next().await? {
        let now = Timestamp::now();
        let changed: Vec<&Pod> = selected(&node, args.name.as_deref())
            .into_iter()
            .filter(|pod| {
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                let line = summary(pod, now);
                let state = (line.status, format!("{} {} {}", line.ready, line.restarts, line.ip));
                shown.insert(uid, state.clone()) != Some(state)
            })
            .collect();
        if changed.is_empty() {
            continue;
        }
        let mut out = io::stdout().lock();
        match args.output {
            Some(output @ (Output::Json | Output::Yaml)) => {
                if output == Output::Yaml && !is_first {
                    writeln!(out, "---")?;
                }
                print(&mut out, &changed, args)?;
            }
            Some(Output::Wide) | None => {
                let width = if args.output.is_some() { Width::Wide } else { Width::Narrow };
                let text = aligned_pods_table(&changed, width, color(), now, &mut widths);
                for line in text.lines().skip(usize::from(!is_first)) {
                    writeln!(out, "{line}")?;
                }
            }
        }
        out.flush()?;
        is_first = false;
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn a_pod_is_found_by_every_name_that_logs_and_explain_accept() {
        let pod = |namespace: &str, name: &str| Pod {
            metadata: ObjectMeta {
                namespace: Some(namespace.to_owned()),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Pod::default()
        };
        let node = PodsView {
            node: "node1".to_owned(),
            pods: vec![pod("default", "web-node1"), pod("other", "web")],
            ..PodsView::default()
        };
        let found = |name: &str| selected(&node, Some(name)).len();
        assert_eq!(selected(&node, None).len(), 2);
        assert_eq!(
            (found("web"), found("web-node1"), found("default/web"), found("other/web")),
            (2, 1, 1, 1)
        );
        assert_eq!((found("none/web"), found("we")), (0, 0));
    }
}

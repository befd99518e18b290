//! `hostlet explain`: explains the state of a pod in a few lines or, without a pod, of the node.

use std::io::{self, Write};

use clap::Args;
use hostlet_base::human_duration;
use hostlet_cluster::api::LaneCounts;
use hostlet_serve::explain::{Explanation, Verdict};
use jiff::Timestamp;

use super::client::{DaemonArgs, about_pod, connections, plugins, view};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};
use super::plugins::plugin_lines;
use super::pods::print_problems;

/// Arguments of `hostlet explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// Name of the pod, with or without the node's name appended, with or without NAMESPACE/ before it; without a name, the
    /// node is explained
    pub pod: Option<String>,
    /// Print the explanation of a pod as an object
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet explain`. Fails if the pod has a problem or does not exist.
pub async fn explain(args: ExplainArgs) -> Result<Exit, CommandError> {
    let Some(pod) = &args.pod else { return node(&args).await };
    let explanations: Vec<Explanation> = about_pod(&args.daemon.socket(), "/v1/explain", pod).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &explanations)?,
        None => {
            let texts: Vec<String> = explanations.iter().map(|e| text(e, Timestamp::now())).collect();
            write!(out, "{}", texts.join("\n"))?;
        }
    }
    let is_ok = |explanation: &Explanation| match explanation.verdict {
        Verdict::Fine | Verdict::Completed | Verdict::UnderWay => true,
        Verdict::Wrong | Verdict::Unknown => false,
    };
    Ok(if explanations.iter().all(is_ok) { Exit::Ok } else { Exit::Failed })
}

/// Explains the node: its problems, its plugins, and its connections to the API server.
async fn node(args: &ExplainArgs) -> Result<Exit, CommandError> {
    let socket = args.daemon.socket();
    let node = view(&socket).await?;
    let connections = connections(&socket).await?;
    let plugins = plugins(&socket).await?;
    let mut out = Vec::new();
    print_problems(&node, &mut out)?;
    let is_ok = out.is_empty();
    let first = if is_ok { "it has no known problems" } else { "it has problems" };
    let pods = node.pods.len();
    let noun = if pods == 1 { "pod" } else { "pods" };
    let mut text = format!("Node {}: {first}; {pods} {noun}.\n", node.node);
    text.push_str(&String::from_utf8_lossy(&out));
    if let Some(certificate) = node.certificate.as_ref().filter(|certificate| !certificate.is_problem) {
        text.push_str(&format!("\n{}\n", certificate.state));
    }
    if !plugins.is_empty() {
        text.push_str(&format!("\nPlugins:\n{}", plugin_lines(&plugins)));
    }
    if !connections.is_empty() {
        text.push_str(&format!("\nConnections to the API server:\n{}", lanes(&connections)));
    }
    write!(io::stdout().lock(), "{text}")?;
    Ok(if is_ok { Exit::Ok } else { Exit::Failed })
}

/// A line per purpose of connections.
pub(super) fn lanes(connections: &[LaneCounts]) -> String {
    let line = |lane: &LaneCounts| {
        let LaneCounts { purpose, open, streams, made, lost, last_response: _ } = lane;
        format!("  {purpose:<15} {open} open, {streams} streams; {made} made, {lost} lost so far\n")
    };
    connections.iter().map(line).collect()
}

/// The explanation as text: the sentence, then its details, one per line.
pub(super) fn text(explanation: &Explanation, now: Timestamp) -> String {
    let sentence = explanation.sentence.trim_end_matches('.');
    let end = if sentence.ends_with('?') { "" } else { "." };
    let mut text = match explanation.verdict {
        Verdict::Unknown => format!("{sentence}{end}\n"),
        Verdict::Fine | Verdict::Completed | Verdict::UnderWay | Verdict::Wrong => {
            format!("{}: {sentence}{end}\n", explanation.pod)
        }
    };
    let mut line = |label: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!("  {label:<11} {value}\n"));
        }
    };
    line("step:", explanation.step.clone());
    line(
        "since:",
        explanation.since.map(|at| match now.duration_since(at) {
            // The clock was set back.
            ago if ago.is_negative() => clock(at),
            ago => format!("{} ({} ago)", clock(at), human_duration(ago)),
        }),
    );
    line(
        "next:",
        explanation.next.map(|at| {
            let left = at.duration_since(now);
            let when =
                if left.as_secs() > 0 { format!("in {}", human_duration(left)) } else { "now".to_owned() };
            format!("{} ({when})", clock(at))
        }),
    );
    line("what to do:", explanation.remedy.clone());
    for sentence in &explanation.also {
        line("also:", Some(sentence.clone()));
    }
    text
}

/// A time in UTC with a resolution of seconds.
fn clock(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_comes_first_and_unknown_details_are_omitted() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let explanation = Explanation {
            pod: "default/web".to_owned(),
            verdict: Verdict::Wrong,
            sentence: "Container c ended with exit code 1".to_owned(),
            step: Some("container c (CrashLoopBackOff)".to_owned()),
            since: Some(at(0)),
            next: Some(at(40)),
            remedy: None,
            also: vec!["One more thing.".to_owned()],
        };
        let expected = "default/web: Container c ended with exit code 1.\n\
            \x20 step:       container c (CrashLoopBackOff)\n\
            \x20 since:      1970-01-01 00:00:00Z (30s ago)\n\
            \x20 next:       1970-01-01 00:00:40Z (in 10s)\n\
            \x20 also:       One more thing.\n";
        assert_eq!(text(&explanation, at(30)), expected);
        let set_back = text(&explanation, at(-86_400));
        assert!(set_back.contains("since:      1970-01-01 00:00:00Z\n"), "{set_back}");
    }
}

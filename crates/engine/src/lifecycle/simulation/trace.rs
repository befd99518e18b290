//! The trace of steps and effects, for comparisons and for reading after a failure.

use std::collections::VecDeque;

use tokio::time::Instant;

use hostlet_runtime::cri::fake::{Happened, RecordedCall};

/// Number of trace lines shown for a failed run.
const SHOWN: usize = 120;

/// An entry of the trace.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    /// A step of the simulation.
    Step(String),
    /// A call to the runtime.
    Call(RecordedCall),
    /// A change of a container.
    Happened(Happened),
}

/// A trace. Keeps all entries or only the last ones.
pub(super) struct Trace {
    start: Instant,
    keeps_all: bool,
    lines: VecDeque<(Instant, Line)>,
}

impl Trace {
    pub(super) fn new(keeps_all: bool) -> Self {
        Self { start: Instant::now(), keeps_all, lines: VecDeque::new() }
    }

    pub(super) fn step(&mut self, text: String) {
        self.push(Instant::now(), Line::Step(text));
    }

    pub(super) fn push(&mut self, at: Instant, line: Line) {
        if !self.keeps_all && self.lines.len() == SHOWN {
            self.lines.pop_front();
        }
        self.lines.push_back((at, line));
    }

    /// The entries; times in milliseconds since the start.
    pub(super) fn text(&self) -> Vec<String> {
        let since = |at: Instant| at.saturating_duration_since(self.start).as_millis();
        let line = |(at, line): &(Instant, Line)| match line {
            Line::Step(text) => format!("{:>9} {text}", since(*at)),
            Line::Call(call) => {
                let (pod, until) = (call.pod.as_ref(), call.ended_at.map(since));
                let pod = pod.map_or("-", |pod| pod.as_str());
                format!("{:>9}     {} {pod} {} until {until:?}", since(*at), call.operation, call.target)
            }
            Line::Happened(h) => {
                let (pod, name, id) = (&h.pod, &h.name, &h.id.as_str()[..8]);
                format!("{:>9}         {pod} {name}#{} {id} {:?}", since(*at), h.attempt, h.what)
            }
        };
        self.lines.iter().map(line).collect()
    }

    /// The entries as text.
    pub(super) fn picture(&self) -> String {
        self.text().join("\n")
    }
}

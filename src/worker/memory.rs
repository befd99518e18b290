//! What a worker remembers of its pod from one piece of work to the next. All of it can be lost: a new daemon starts
//! with none but the back-offs that were stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio::time::Instant;

use super::EnvNeeds;
use super::in_flight::InFlightCalls;
use super::requested_starts::RequestedStarts;
use crate::cri::CriError;
use crate::status::PodFacts;
use crate::volume::VolumeProblem;
use crate::worker::CrashLoops;

/// An event that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedEvent {
    /// What it said.
    pub message: String,
    /// When it was last told to the API server.
    pub at: Instant,
}

/// A worker's memory of its pod.
#[derive(Debug)]
pub struct Memory {
    /// Back-offs of its containers.
    pub crash_loops: CrashLoops,
    /// What its status takes from its worker.
    pub facts: PodFacts,
    /// When what containers wait for is tried again at the earliest, by name, as far as it is known.
    pub retries: BTreeMap<String, Timestamp>,
    /// How many of its starts failed since one succeeded.
    pub failed_starts: u32,
    /// What was last told to have gone wrong in the present work.
    pub failure: Option<String>,
    /// What was last told to be wrong with the pod's volumes, and when the API server was last told.
    pub volume_problems: Vec<(VolumeProblem, Instant)>,
    /// What its containers' environments are made from.
    pub env: EnvNeeds,
    /// Starts that were asked for, of containers that are to run once.
    pub asked: RequestedStarts,
    /// Whether its containers must not run again when nobody knows whether they ran.
    pub runs_once: bool,
    /// Calls to the runtime that cancelled work was in the middle of.
    pub in_flight: InFlightCalls,
    /// When the last work ended, was cancelled or panicked: the next one wants to see the runtime as of later.
    pub last_work: Option<Instant>,
    /// The last change that the present work made, set by work that then saw what came of it and changed nothing more:
    /// what it saw is good enough for the next.
    pub settled: Option<Instant>,
    /// The events last told, by object and reason, so that none is logged again while nothing changes.
    pub told: BTreeMap<(String, &'static str), ReportedEvent>,
}

impl Memory {
    /// Nothing remembered but these back-offs and starts.
    pub fn new(crash_loops: CrashLoops, asked: RequestedStarts) -> Self {
        Self {
            crash_loops,
            asked,
            runs_once: false,
            facts: PodFacts::default(),
            retries: BTreeMap::new(),
            failed_starts: 0,
            failure: None,
            volume_problems: Vec::new(),
            env: EnvNeeds::default(),
            in_flight: InFlightCalls::default(),
            last_work: None,
            settled: None,
            told: BTreeMap::new(),
        }
    }

    /// A start that had passed the gate failed. What meets a runtime that is away says nothing of the pod.
    pub(super) fn start_failed(&mut self, error: &CriError) {
        if !matches!(error, CriError::Unreachable { .. }) {
            self.failed_starts = self.failed_starts.saturating_add(1);
        }
    }

    /// What went wrong with a container (the empty name for the pod itself) went right: if it goes wrong again, that is
    /// news.
    pub fn recovered(&mut self, container: &str) {
        self.told.retain(|(name, _), _| name != container);
    }
}

//! What the live view shows: the pods, which of them, in which order, and what is selected. Pure.

use std::collections::BTreeMap;

use hostlet_base::error_chain;
use hostlet_serve::server::{PodsView, UsageView};
use jiff::Timestamp;

use super::args::SortBy;
use super::row::{Row, rows, sort};
use super::text::{Page, Text};
use crate::commands::client::ClientError;

/// Lines of the list that are not pods: two of the node, the heading, the selected pod, the keys.
pub(super) const FRAME_LINES: usize = 5;
/// Lines of a text that are not its own: the heading, the keys.
const TEXT_FRAME_LINES: usize = 2;

/// What has the screen and the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    /// The list of pods.
    #[default]
    List,
    /// The filter of the list, which is being typed.
    Filter,
    /// The keys, explained.
    Help,
    /// A text about a pod.
    Text(Text),
}

/// The state of the view.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// The node and its pods, as last reported.
    view: PodsView,
    /// What they use, as last measured.
    usage: Option<UsageView>,
    rows: Vec<Row>,
    pub(super) sort_by: SortBy,
    /// Only pods with this text are shown.
    pub(super) filter: String,
    /// UID of the selected pod.
    selected: Option<String>,
    pub(super) focus: Focus,
    /// Size of the terminal.
    pub(super) size: (u16, u16),
    /// Why the pods are not current, if so.
    outage: Option<String>,
    /// Why it is not known what they use, if so.
    unmeasured: Option<String>,
    /// What came of the last command.
    pub(super) note: Option<String>,
}

impl Model {
    /// An empty view.
    pub(super) fn new(sort_by: SortBy, size: (u16, u16)) -> Self {
        Self { sort_by, size, ..Self::default() }
    }

    /// Takes what the daemon reported, or why it did not.
    pub(super) fn observe(&mut self, view: Result<PodsView, ClientError>, now: Timestamp) {
        match view {
            Ok(view) => {
                self.view = view;
                self.outage = None;
                self.refresh(now);
            }
            Err(why) => self.outage = Some(error_chain(&why)),
        }
    }

    /// Takes what the pods use, or why it is not known.
    pub(super) fn measure(&mut self, usage: Result<UsageView, ClientError>, now: Timestamp) {
        // After a failure, old amounts would look like those of now.
        (self.usage, self.unmeasured) = match usage {
            Ok(usage) => (Some(usage), None),
            Err(why) => (None, Some(error_chain(&why))),
        };
        self.refresh(now);
        // Until the CPU is known, the order is not the one that was asked for.
        if self.usage.as_ref().is_none_or(|usage| usage.node.cpu_nano_cores.is_some()) {
            self.hold_selection();
        }
    }

    fn refresh(&mut self, now: Timestamp) {
        self.rows = rows(&self.view.pods, self.usage.as_ref(), now);
    }

    /// Name of the node.
    pub(super) fn node(&self) -> &str {
        &self.view.node
    }

    /// What keeps the whole node from running pods, or from being observed.
    pub(super) fn trouble(&self) -> Option<&str> {
        let troubles = [&self.outage, &self.view.trouble, &self.unmeasured];
        troubles.into_iter().flatten().next().map(String::as_str)
    }

    /// What the node and its pods use, if known.
    pub(super) fn usage(&self) -> Option<&UsageView> {
        self.usage.as_ref()
    }

    /// All pods by their status, most frequent first, and their number.
    pub(super) fn statuses(&self) -> (usize, Vec<(&str, usize)>) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in &self.rows {
            *counts.entry(&row.status).or_default() += 1;
        }
        let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        (self.rows.len(), counts)
    }

    /// The pods that pass the filter, sorted.
    pub(super) fn listed(&self) -> Vec<&Row> {
        let mut listed: Vec<&Row> = self.rows.iter().filter(|row| row.matches(&self.filter)).collect();
        sort(&mut listed, self.sort_by);
        listed
    }

    /// The selected one of these pods and its place: the one that was selected last, else the first.
    pub(super) fn selected_of<'a>(&self, listed: &[&'a Row]) -> Option<(usize, &'a Row)> {
        let is_selected = |row: &&Row| Some(&row.uid) == self.selected.as_ref();
        let place = listed.iter().position(is_selected).unwrap_or(0);
        listed.get(place).map(|row| (place, *row))
    }

    /// The selected pod.
    pub(super) fn selected(&self) -> Option<&Row> {
        self.selected_of(&self.listed()).map(|(_, row)| row)
    }

    /// From now on the selection stays with its pod, also the first one, whatever the order becomes. A filter that is being typed only
    /// hides the selected pod.
    pub(super) fn hold_selection(&mut self) {
        if self.focus != Focus::Filter
            && let Some(row) = self.selected()
        {
            self.selected = Some(row.uid.clone());
        }
    }

    /// Moves the selection by this many pods.
    pub(super) fn select(&mut self, by: isize) {
        let listed = self.listed();
        let Some((place, _)) = self.selected_of(&listed) else { return };
        let place = place.saturating_add_signed(by).min(listed.len() - 1);
        self.selected = listed.get(place).map(|row| row.uid.clone());
    }

    /// Lines for pods.
    pub(super) fn list_lines(&self) -> usize {
        let trouble = usize::from(self.trouble().is_some());
        usize::from(self.size.1).saturating_sub(FRAME_LINES + trouble)
    }

    /// The size of a text.
    pub(super) fn page(&self) -> Page {
        let lines = usize::from(self.size.1).saturating_sub(TEXT_FRAME_LINES);
        Page { columns: usize::from(self.size.0), lines }
    }

    /// The text that is shown, if any.
    pub(super) fn text_mut(&mut self) -> Option<&mut Text> {
        match &mut self.focus {
            Focus::Text(text) => Some(text),
            Focus::List | Focus::Filter | Focus::Help => None,
        }
    }
}

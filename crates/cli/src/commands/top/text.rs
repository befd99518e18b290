//! A text over the list of pods: a log, an explanation, a timeline, events. Scrolls, and follows its end. Pure.

use std::collections::VecDeque;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Lines and bytes kept; the oldest are dropped first.
const MOST_LINES: usize = 5000;
const MOST_BYTES: usize = 4 << 20;
/// Columns between two stops of a tab.
const TAB: usize = 8;

/// What is shown of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    /// The log of a container, as it grows.
    Log,
    /// Why the pod is as it is.
    Explanation,
    /// Its steps.
    Timeline,
    /// Its recent events.
    Events,
}

/// What a text is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    /// What is shown.
    pub(super) topic: Topic,
    /// `<namespace>/<name>` of the pod.
    pub(super) pod: String,
    /// Its containers, only for a log, the one that is shown first.
    pub(super) containers: Vec<String>,
}

impl Subject {
    /// The container that is shown.
    pub(super) fn container(&self) -> Option<&str> {
        self.containers.first().map(String::as_str)
    }

    /// As the heading of its text.
    fn title(&self) -> String {
        let Self { topic, pod, containers } = self;
        match (topic, containers.as_slice()) {
            (Topic::Log, [container, _, ..]) => {
                format!("{pod}: log of container {container} (Tab: the next one)")
            }
            (Topic::Log, _) => format!("{pod}: log"),
            (Topic::Explanation, _) => format!("{pod}: explanation"),
            (Topic::Timeline, _) => format!("{pod}: timeline"),
            (Topic::Events, _) => format!("{pod}: events"),
        }
    }
}

/// The columns and lines that a text has on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// A line of the screen: a piece of a line of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: usize,
    piece: usize,
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) subject: Subject,
    lines: VecDeque<String>,
    /// Their length in bytes.
    length: usize,
    /// Whether lines were dropped.
    is_cut: bool,
    /// The first line of the screen; `None` follows the end.
    top: Option<Place>,
}

impl Text {
    /// An empty text. A log is shown from its end, everything else from its beginning.
    pub(super) fn new(subject: Subject) -> Self {
        let top = match subject.topic {
            Topic::Log => None,
            Topic::Explanation | Topic::Timeline | Topic::Events => Some(Place::default()),
        };
        Self { subject, lines: VecDeque::new(), length: 0, is_cut: false, top }
    }

    /// Adds lines.
    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            let line = printable(&line);
            self.length += line.len();
            self.lines.push_back(line);
            while (self.lines.len() > MOST_LINES || self.length > MOST_BYTES) && self.lines.len() > 1 {
                self.drop_first();
            }
        }
    }

    fn drop_first(&mut self) {
        self.length -= self.lines.pop_front().map_or(0, |line| line.len());
        self.is_cut = true;
        self.top = self.top.map(|top| match top.line.checked_sub(1) {
            Some(line) => Place { line, ..top },
            None => Place::default(),
        });
    }

    /// As its heading.
    pub(super) fn title(&self) -> String {
        let title = self.subject.title();
        if self.is_cut { format!("{title} (older lines are left out)") } else { title }
    }

    /// Whether it follows its end.
    pub(super) fn follows(&self) -> bool {
        self.top.is_none()
    }

    /// Scrolls by this many lines of the screen. A log that is scrolled to its end follows it again.
    pub(super) fn scroll(&mut self, by: isize, page: Page) {
        let last = self.last_top(page);
        let top = self.top(last);
        let top = match by {
            ..0 => self.above(top, by.unsigned_abs(), page),
            0.. => self.below(top, by.unsigned_abs(), page).min(last),
        };
        self.top = match self.subject.topic {
            Topic::Log if top >= last => None,
            Topic::Log | Topic::Explanation | Topic::Timeline | Topic::Events => Some(top),
        };
    }

    /// The lines of the screen.
    pub(super) fn shown(&self, page: Page) -> Vec<&str> {
        let top = self.top(self.last_top(page));
        let lines = self.lines.iter().skip(top.line);
        lines.flat_map(|line| wrapped(line, page.columns)).skip(top.piece).take(page.lines).collect()
    }

    /// The first line shown, if the last page begins at `last`.
    fn top(&self, last: Place) -> Place {
        self.top.unwrap_or(last).min(last)
    }

    /// The first line of the last page.
    fn last_top(&self, page: Page) -> Place {
        self.above(Place { line: self.lines.len(), piece: 0 }, page.lines, page)
    }

    /// The place that many lines of the screen above another one, or the first one.
    fn above(&self, from: Place, mut by: usize, page: Page) -> Place {
        if from.piece >= by {
            return Place { piece: from.piece - by, ..from };
        }
        by -= from.piece;
        for (line, text) in self.lines.iter().enumerate().take(from.line).rev() {
            let pieces = wrapped(text, page.columns).len();
            if pieces >= by {
                return Place { line, piece: pieces - by };
            }
            by -= pieces;
        }
        Place::default()
    }

    /// The place that many lines of the screen below another one, or the end.
    fn below(&self, from: Place, by: usize, page: Page) -> Place {
        let mut left = from.piece.saturating_add(by);
        for (line, text) in self.lines.iter().enumerate().skip(from.line) {
            let pieces = wrapped(text, page.columns).len();
            if left < pieces {
                return Place { line, piece: left };
            }
            left -= pieces;
        }
        Place { line: self.lines.len(), piece: 0 }
    }
}

/// A line in pieces of at most `columns`, at least one.
fn wrapped(line: &str, columns: usize) -> Vec<&str> {
    // Most lines are short.
    if line.width() <= columns {
        return vec![line];
    }
    let (mut pieces, mut start, mut width) = (Vec::new(), 0, 0);
    for (at, character) in line.char_indices() {
        let own = character.width().unwrap_or(0);
        if width + own > columns && at > start {
            pieces.push(&line[start..at]);
            (start, width) = (at, 0);
        }
        width += own;
    }
    pieces.push(&line[start..]);
    pieces
}

/// The line without what would change the screen: no escape sequences (ECMA-48), no control characters, tabs as spaces.
fn printable(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut column = 0;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\t' => {
                let stop = TAB - column % TAB;
                text.extend(std::iter::repeat_n(' ', stop));
                column += stop;
            }
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                // Parameters, up to the final byte.
                while characters.next_if(|next| !('@'..='~').contains(next)).is_some() {}
                characters.next();
            }
            other if other.is_control() => {}
            other => {
                text.push(other);
                column += other.width().unwrap_or(0);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(topic: Topic, lines: &[&str]) -> Text {
        let subject = Subject { topic, pod: "default/web".to_owned(), containers: Vec::new() };
        let mut text = Text::new(subject);
        text.extend(lines.iter().map(|line| (*line).to_owned()));
        text
    }

    const PAGE: Page = Page { columns: 4, lines: 2 };

    #[test]
    fn a_log_follows_its_end_until_scrolled_up() {
        let mut log = text(Topic::Log, &["a", "b", "cdefgh"]);
        assert_eq!(log.shown(PAGE), ["cdef", "gh"]);
        log.scroll(-1, PAGE);
        assert_eq!((log.shown(PAGE), log.follows()), (vec!["b", "cdef"], false));
        log.extend(["new".to_owned()]);
        assert_eq!(log.shown(PAGE), ["b", "cdef"]);
        log.scroll(1, PAGE);
        assert!(!log.follows());
        log.scroll(100, PAGE);
        assert_eq!((log.shown(PAGE), log.follows()), (vec!["gh", "new"], true));
        log.scroll(isize::MIN, PAGE);
        assert_eq!(log.shown(PAGE), ["a", "b"]);
    }

    #[test]
    fn everything_else_is_shown_from_its_beginning_and_not_beyond_its_end() {
        let mut explained = text(Topic::Explanation, &["a", "b", "c"]);
        assert_eq!(explained.shown(PAGE), ["a", "b"]);
        explained.scroll(100, PAGE);
        explained.scroll(-1, PAGE);
        assert_eq!(explained.shown(PAGE), ["a", "b"]);
        assert!(text(Topic::Events, &[]).shown(Page { columns: 0, lines: 0 }).is_empty());
    }

    #[test]
    fn old_lines_are_dropped_and_the_view_stays() {
        let mut log = text(Topic::Log, &[]);
        log.extend((0..MOST_LINES).map(|number| number.to_string()));
        log.scroll(-10, PAGE);
        let before: Vec<String> = log.shown(PAGE).iter().map(|&line| line.to_owned()).collect();
        log.extend(["x".to_owned(), "y".to_owned()]);
        assert_eq!(log.shown(PAGE), before);
        assert_eq!(
            (log.lines.len(), log.title()),
            (MOST_LINES, "default/web: log (older lines are left out)".to_owned())
        );
    }

    #[test]
    fn long_lines_are_dropped_by_their_bytes() {
        let mut log = text(Topic::Log, &["a", "b", "c"]);
        log.scroll(isize::MIN, PAGE);
        log.extend((0..100).map(|_| "x".repeat(64 << 10)));
        assert_eq!((log.lines.len(), log.length), (64, MOST_BYTES));
        assert_eq!(log.shown(PAGE), ["xxxx", "xxxx"]);
        log.extend(["y".repeat(MOST_BYTES + 1)]);
        assert_eq!(log.shown(PAGE), ["yyyy", "yyyy"]);
        assert_eq!((log.lines.len(), text(Topic::Log, &["a"]).is_cut), (1, false));
    }

    #[test]
    fn a_log_cannot_change_the_screen() {
        assert_eq!(printable("\u{1b}[1;31mred\u{1b}[0m\r\u{7}"), "red");
        assert_eq!(printable("a\tb\u{1b}"), "a       b");
        assert_eq!(printable("日\tb\tc"), "日      b       c");
        assert_eq!(printable("\u{1b}[31"), "");
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("日本", 1), ["日", "本"]);
        assert_eq!(wrapped("", 0), [""]);
    }
}

//! What keys do. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::args::SortBy;
use super::model::{Focus, Model};
use super::shell::Target;
use super::text::{Subject, Text, Topic};

/// The keys of the list with their purpose, as help and as the last line have them.
pub(super) const KEYS: [(&str, &str, &str); 12] = [
    ("q", "quit", "quit; also Ctrl-C"),
    ("?", "help", "this help"),
    ("/", "filter", "show only pods with a text in their name or status; Esc shows all"),
    ("l", "logs", "the end of a container's log, and what is added; Tab for the next container"),
    ("e", "explain", "why the pod is in its state, and what to do"),
    ("t", "timeline", "the steps of the pod and their durations"),
    ("v", "events", "the recent events of the pod"),
    ("x", "shell", "a shell in the container, as of hostlet exec -it; Ctrl-] three times leaves it"),
    ("c", "", "sort by CPU"),
    ("m", "", "sort by memory"),
    ("r", "", "sort by restarts"),
    ("n", "", "sort by name"),
];

/// What a key asks of the world outside the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// To end.
    Quit,
    /// To fetch the text that is shown now.
    Fetch(Subject),
    /// To give the terminal to a shell in a container.
    Shell(Target),
}

impl Model {
    /// Applies a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Request> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Request::Quit),
                _ => None,
            };
        }
        self.note = None;
        self.hold_selection();
        match self.focus {
            Focus::List => self.press_in_list(key.code),
            Focus::Filter => {
                self.press_in_filter(key.code);
                None
            }
            Focus::Help => {
                self.focus = Focus::List;
                None
            }
            Focus::Text(_) => self.press_in_text(key.code),
        }
    }

    fn press_in_list(&mut self, key: KeyCode) -> Option<Request> {
        if let Some(by) = steps(key, self.list_lines()) {
            self.select(by);
            return None;
        }
        match key {
            KeyCode::Char('q') => return Some(Request::Quit),
            KeyCode::Char('?') | KeyCode::F(1) => self.focus = Focus::Help,
            KeyCode::Char('/') => self.focus = Focus::Filter,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('c') => self.sort_by = SortBy::Cpu,
            KeyCode::Char('m') => self.sort_by = SortBy::Memory,
            KeyCode::Char('r') => self.sort_by = SortBy::Restarts,
            KeyCode::Char('n') => self.sort_by = SortBy::Name,
            KeyCode::Char('l') => return self.open(Topic::Log),
            KeyCode::Char('e') | KeyCode::Enter => return self.open(Topic::Explanation),
            KeyCode::Char('t') => return self.open(Topic::Timeline),
            KeyCode::Char('v') => return self.open(Topic::Events),
            KeyCode::Char('x') => {
                let row = self.selected()?;
                let container = row.containers.first()?.clone();
                return Some(Request::Shell(Target { pod: row.pod(), container }));
            }
            _ => {}
        }
        None
    }

    fn press_in_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.focus = Focus::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.focus = Focus::List;
            }
            _ => {}
        }
    }

    fn press_in_text(&mut self, key: KeyCode) -> Option<Request> {
        let page = self.page();
        let text = self.text_mut()?;
        if let Some(by) = steps(key, page.lines) {
            text.scroll(by, page);
            return None;
        }
        match key {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Backspace => self.focus = Focus::List,
            KeyCode::Tab if text.subject.containers.len() > 1 => {
                let mut subject = text.subject.clone();
                subject.containers.rotate_left(1);
                return self.show(subject);
            }
            _ => {}
        }
        None
    }

    /// Shows a text about the selected pod.
    fn open(&mut self, topic: Topic) -> Option<Request> {
        let row = self.selected()?;
        let containers = match topic {
            Topic::Log => row.containers.clone(),
            Topic::Explanation | Topic::Timeline | Topic::Events => Vec::new(),
        };
        let subject = Subject { topic, pod: row.pod(), containers };
        self.show(subject)
    }

    fn show(&mut self, subject: Subject) -> Option<Request> {
        self.focus = Focus::Text(Text::new(subject.clone()));
        Some(Request::Fetch(subject))
    }
}

/// How far a key moves in a list of which `page` lines are shown.
fn steps(key: KeyCode, page: usize) -> Option<isize> {
    let page = isize::try_from(page.max(1)).unwrap_or(isize::MAX);
    match key {
        KeyCode::Up | KeyCode::Char('k') => Some(-1),
        KeyCode::Down | KeyCode::Char('j') => Some(1),
        KeyCode::PageUp => Some(-page),
        KeyCode::PageDown | KeyCode::Char(' ') => Some(page),
        KeyCode::Home | KeyCode::Char('g') => Some(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => Some(isize::MAX),
        _ => None,
    }
}

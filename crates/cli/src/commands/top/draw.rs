//! Draws the view into the cells of a terminal. Pure.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color as Paint, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::amounts::{cores, memory, share};
use super::columns::{Column, GAP, fitting};
use super::keys::KEYS;
use super::model::{Focus, Model};
use super::row::Row;
use super::text::Text;
use crate::commands::table::{Color, Tone};

/// The styles of a terminal with or without colors.
#[derive(Clone, Copy)]
struct Styles(Color);

impl Styles {
    fn painted(self, paint: Paint) -> Style {
        match self.0 {
            Color::On => Style::new().fg(paint),
            Color::Off => Style::new(),
        }
    }

    fn tone(self, tone: Tone) -> Style {
        self.painted(match tone {
            Tone::Fine => Paint::Green,
            Tone::Passing => Paint::Yellow,
            Tone::Bad => Paint::Red,
        })
    }
}

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const SORTED: Style = BOLD.add_modifier(Modifier::UNDERLINED);

/// Where something is drawn: never beyond the terminal, however small it is.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
}

impl Canvas<'_> {
    fn columns(&self) -> usize {
        usize::from(self.area.width)
    }

    fn lines(&self) -> usize {
        usize::from(self.area.height)
    }

    /// Writes at a column of a line, up to `width` columns; returns the column after it.
    fn put(&mut self, column: usize, line: usize, text: &str, width: usize, style: Style) -> usize {
        if line >= self.lines() || column >= self.columns() {
            return column;
        }
        let place = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        let width = width.min(self.columns() - column);
        let (x, y) = (self.area.x + place(column), self.area.y + place(line));
        let (end, _) = self.buffer.set_stringn(x, y, text, width, style);
        usize::from(end - self.area.x)
    }

    /// Writes a whole line.
    fn line(&mut self, line: usize, text: &str, style: Style) -> usize {
        // In a small terminal another one may have been there.
        self.put(0, line, &" ".repeat(self.columns()), usize::MAX, PLAIN);
        self.put(0, line, text, usize::MAX, style)
    }

    /// Sets the style of a whole line.
    fn style(&mut self, line: usize, style: Style) {
        if line < self.lines() {
            let y = self.area.y + u16::try_from(line).unwrap_or(u16::MAX);
            self.buffer.set_style(Rect { y, height: 1, ..self.area }, style);
        }
    }
}

/// Draws everything.
pub(super) fn draw(model: &Model, color: Color, buffer: &mut Buffer) {
    let area = buffer.area;
    let mut canvas = Canvas { buffer, area };
    let styles = Styles(color);
    match &model.focus {
        Focus::List | Focus::Filter => list(model, styles, &mut canvas),
        Focus::Help => help(&mut canvas),
        Focus::Text(text) => of_text(model, text, &mut canvas),
    }
}

fn list(model: &Model, styles: Styles, canvas: &mut Canvas<'_>) {
    let (pods, statuses) = model.statuses();
    let noun = if pods == 1 { "pod" } else { "pods" };
    let mut end = canvas.line(0, &format!("{}: {pods} {noun}", model.node()), BOLD);
    for (at, (status, count)) in statuses.into_iter().enumerate() {
        end = canvas.put(end, 0, if at == 0 { ": " } else { ", " }, usize::MAX, PLAIN);
        end = canvas.put(end, 0, &format!("{count} {status}"), usize::MAX, styles.tone(Tone::of(status)));
    }
    canvas.line(1, &totals(model), PLAIN);
    let mut heading = 2;
    if let Some(trouble) = model.trouble() {
        canvas.line(heading, trouble, styles.tone(Tone::Bad));
        heading += 1;
    }

    let (listed, cpus) = (model.listed(), model.usage().map_or(0, |usage| usage.cpus));
    let columns = fitting(&listed, cpus, canvas.columns());
    let mut at = 0;
    for (column, width) in &columns {
        let style = if column.is_sorted(model.sort_by) { SORTED } else { BOLD };
        canvas.put(at + indent(*column, column.heading(), *width), heading, column.heading(), *width, style);
        at += width + GAP;
    }
    let lines = model.list_lines();
    let selected = model.selected_of(&listed);
    // The page with the selected pod.
    let first = selected.map_or(0, |(place, _)| place.checked_div(lines).unwrap_or(0) * lines);
    for (line, row) in listed.iter().skip(first).take(lines).enumerate() {
        let line = heading + 1 + line;
        pod(row, &columns, cpus, styles, (canvas, line));
        if selected.is_some_and(|(_, selected)| selected.uid == row.uid) {
            canvas.style(line, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    let (last, about) = (canvas.lines().saturating_sub(1), canvas.lines().saturating_sub(2));
    match selected {
        Some((_, row)) if row.waits_for.is_empty() => {
            canvas.line(about, &format!("{}: {}", row.pod(), row.status), PLAIN)
        }
        Some((_, row)) => {
            canvas.line(about, &format!("{}: {}: {}", row.pod(), row.status, row.waits_for), PLAIN)
        }
        None if pods > 0 => canvas.line(about, "no pod matches the filter", PLAIN),
        None => canvas.line(about, "no pods", PLAIN),
    };
    match (&model.focus, &model.note) {
        (Focus::Filter, _) => {
            canvas.line(last, &format!("filter: {}_", model.filter), BOLD);
        }
        (_, Some(note)) => {
            canvas.line(last, note, BOLD);
        }
        (_, None) => {
            let keys = KEYS.iter().filter(|(_, short, _)| !short.is_empty());
            keys_line(canvas, last, keys.map(|(key, short, _)| (*key, *short)));
        }
    }
}

/// What the whole node uses, and how the pods are picked and sorted.
fn totals(model: &Model) -> String {
    let mut parts = Vec::new();
    if let Some(usage) = model.usage() {
        let (node, of_share) =
            (&usage.node, |share: Option<String>| share.map(|share| format!(" ({share})")));
        if let Some(cpu) = node.cpu_nano_cores {
            let share = of_share(share(cpu, usage.cpus.saturating_mul(1_000_000_000))).unwrap_or_default();
            parts.push(format!("CPU {} of {}{share}", cores(cpu), usage.cpus));
        }
        if let (Some(used), Some(all)) = (node.memory_bytes, node.memory_limit_bytes) {
            let share = of_share(share(used, all)).unwrap_or_default();
            parts.push(format!("memory {} of {}{share}", memory(used), memory(all)));
        }
    }
    parts.push(format!("by {}", model.sort_by.name()));
    if !model.filter.is_empty() {
        parts.push(format!("filter {}", model.filter));
    }
    parts.join("   ")
}

fn pod(row: &Row, columns: &[(Column, usize)], cpus: u64, styles: Styles, to: (&mut Canvas<'_>, usize)) {
    let (canvas, line) = to;
    let mut at = 0;
    for (column, width) in columns {
        let cell = column.cell(row, cpus);
        let style = if *column == Column::Status { styles.tone(Tone::of(&row.status)) } else { PLAIN };
        canvas.put(at + indent(*column, &cell, *width), line, &cell, *width, style);
        at += width + GAP;
    }
}

fn indent(column: Column, text: &str, width: usize) -> usize {
    if column.is_number() { width.saturating_sub(text.width()) } else { 0 }
}

fn help(canvas: &mut Canvas<'_>) {
    canvas.line(0, "hostlet top: keys", BOLD);
    let moves = [("arrows", "", "select a pod; also j, k, PgUp, PgDn, Home, End")];
    let room = canvas.lines().saturating_sub(3);
    for (line, (key, _, long)) in moves.iter().chain(&KEYS).take(room).enumerate() {
        canvas.put(2, line + 2, key, usize::MAX, BOLD);
        canvas.put(10, line + 2, long, usize::MAX, PLAIN);
    }
    canvas.line(canvas.lines().saturating_sub(1), "any key goes back", PLAIN);
}

fn of_text(model: &Model, text: &Text, canvas: &mut Canvas<'_>) {
    canvas.line(0, &text.title(), BOLD);
    for (line, shown) in text.shown(model.page()).into_iter().enumerate() {
        canvas.line(line + 1, shown, PLAIN);
    }
    let last = canvas.lines().saturating_sub(1);
    let end = if text.follows() { "following" } else { "scroll" };
    keys_line(canvas, last, [("q", "back"), ("arrows PgUp PgDn", end)].into_iter());
}

fn keys_line<'a>(canvas: &mut Canvas<'_>, line: usize, keys: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut at = canvas.line(line, "", PLAIN);
    for (key, purpose) in keys {
        // A part of a purpose is worse than none.
        if at + key.width() + 1 + purpose.width() > canvas.columns() {
            return;
        }
        at = canvas.put(at, line, key, usize::MAX, BOLD);
        at = canvas.put(at + 1, line, purpose, usize::MAX, PLAIN) + GAP;
    }
}

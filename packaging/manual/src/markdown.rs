//! A man page from a page of documentation in Markdown: headings, paragraphs, lists, code and tables. A row of a table becomes
//! an item whose tag is its first cell, which fits on any terminal.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, roman};

/// What a man page has besides its text.
pub(crate) struct Page<'p> {
    pub(crate) title: &'p str,
    pub(crate) section: &'p str,
    /// As `2026-01-31`.
    pub(crate) date: &'p str,
    /// The line that apropos(1) finds.
    pub(crate) summary: &'p str,
    pub(crate) see_also: &'p str,
}

impl Page<'_> {
    /// The page with this text.
    pub(crate) fn roff(&self, markdown: &str) -> String {
        let mut writer = Writer::default();
        let title = self.title.to_uppercase();
        let source = concat!("hostlet ", env!("CARGO_PKG_VERSION"));
        writer.roff.control("TH", [&title, self.section, self.date, source, "hostlet"]);
        writer.heading("NAME");
        writer.roff.text([roman(format!("{} - {}", self.title, self.summary))]);
        writer.heading("DESCRIPTION");
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            writer.write(event);
        }
        writer.heading("SEE ALSO");
        writer.roff.text([roman(self.see_also)]);
        writer.roff.to_roff()
    }
}

/// Collects the text of one block, and writes it at the block's end.
#[derive(Default)]
struct Writer {
    roff: Roff,
    text: Vec<Inline>,
    is_bold: bool,
    is_code_block: bool,
    lists: usize,
    /// The cells of the row that is being read.
    cells: Vec<Vec<Inline>>,
}

impl Writer {
    fn heading(&mut self, text: &str) {
        self.roff.control("SH", [text]);
    }

    fn write(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code_block => {
                for line in text.lines() {
                    self.roff.text([roman(line)]);
                }
            }
            Event::Text(text) => {
                let text = text.into_string();
                self.text.push(if self.is_bold { bold(text) } else { roman(text) });
            }
            Event::Code(text) => self.text.push(bold(text.into_string())),
            Event::SoftBreak | Event::HardBreak => self.text.push(roman(" ")),
            // Comments that mark generated parts.
            Event::Html(_) | Event::InlineHtml(_) => {}
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::Rule
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Strong | Tag::Emphasis => self.is_bold = true,
            Tag::CodeBlock(_) => {
                self.is_code_block = true;
                self.roff.control("PP", []);
                self.roff.control("RS", ["4"]);
                self.roff.control("nf", []);
            }
            Tag::List(_) => {
                self.flush();
                self.lists += 1;
            }
            Tag::Item => {
                self.roff.control("IP", ["\\(bu", "2"]);
            }
            Tag::TableHead | Tag::TableRow => self.cells.clear(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => {
                let heading: String = self.text.drain(..).map(text_of).collect();
                match level {
                    // The page's own name.
                    HeadingLevel::H1 => {}
                    HeadingLevel::H2 => self.heading(&heading.to_uppercase()),
                    _ => {
                        self.roff.control("SS", [&*heading]);
                    }
                }
            }
            TagEnd::Paragraph => {
                if self.lists == 0 {
                    self.roff.control("PP", []);
                }
                self.flush();
            }
            TagEnd::Item => self.flush(),
            TagEnd::List(_) => self.lists -= 1,
            TagEnd::Strong | TagEnd::Emphasis => self.is_bold = false,
            TagEnd::CodeBlock => {
                self.is_code_block = false;
                self.roff.control("fi", []);
                self.roff.control("RE", []);
            }
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.text)),
            // A header only says what the columns are, which the text around it does as well.
            TagEnd::TableHead => self.cells.clear(),
            TagEnd::TableRow => self.row(),
            _ => {}
        }
    }

    /// Writes a row: its first cell as the tag, the others as the text.
    fn row(&mut self) {
        let mut cells = std::mem::take(&mut self.cells).into_iter();
        let tag = cells.next().unwrap_or_default();
        self.roff.control("TP", []);
        self.roff.text(tag);
        let mut text = Vec::new();
        for cell in cells.filter(|cell| !cell.is_empty()) {
            if !text.is_empty() {
                text.push(roman(": "));
            }
            text.extend(cell);
        }
        self.roff.text(text);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.roff.text(text);
        }
    }
}

fn text_of(inline: Inline) -> String {
    match inline {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text,
        Inline::LineBreak => " ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page<'_> = Page {
        title: "hostlet-config",
        section: "5",
        date: "2026-01-31",
        summary: "configuration file of hostlet",
        see_also: "hostlet(8)",
    };

    fn roff(markdown: &str) -> String {
        PAGE.roff(markdown)
    }

    #[test]
    fn a_page_has_what_man_db_needs() {
        let text = roff("# Configuration\n\nhostlet reads it.\n");
        assert!(text.contains(".TH HOSTLET-CONFIG 5 2026-01-31"), "{text}");
        assert!(text.contains("hostlet\\-config \\- configuration file of hostlet"), "{text}");
        assert!(text.contains(".PP\nhostlet reads it."), "{text}");
        assert!(!text.contains("# Configuration"), "{text}");
    }

    #[test]
    fn code_keeps_its_lines_and_is_no_roff() {
        let text = roff("```yaml\n.kind: A\n  b: \\c\n```\n");
        assert!(text.contains(".nf\n\\&.kind: A\n  b: \\\\c\n.fi"), "{text}");
    }

    #[test]
    fn a_row_is_an_item_and_the_header_is_left_out() {
        let text = roff("| field | | |\n|---|---|---|\n| `a.b` | served | |\n| `c` | **rejected** | why |\n");
        assert!(text.contains(".TP\n\\fBa.b\\fR\nserved\n.TP\n\\fBc\\fR\n\\fBrejected\\fR: why"), "{text}");
        assert!(!text.contains("field"), "{text}");
    }

    #[test]
    fn lists_and_headings() {
        let text = roff("## Files\n\n- one `two`\n- three\n");
        assert!(text.contains(".SH FILES\n.IP \\(bu 2\none \\fBtwo\\fR\n.IP \\(bu 2\nthree"), "{text}");
    }
}

//! Reads variables from environment files (KEP-3721): lines `NAME='value'`, where a value may have several lines; everything
//! else is an error, except blank lines and comments. Equal to the stock kubelet's reader. Pure.

/// Most bytes of a line, as upstream.
const MOST_LINE_BYTES: usize = 64 << 10;

/// Why an environment file is invalid. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileError {
    /// A line is no assignment.
    #[error("line {0} has no '='")]
    NoAssignment(usize),
    /// An assignment to nothing.
    #[error("line {0} has no name before '='")]
    NoName(usize),
    /// A space between name and `=`.
    #[error("line {0} has a space before '='")]
    Space(usize),
    /// A value that is not in single quotes.
    #[error("the value in line {0} is not in single quotes")]
    NoQuotes(usize),
    /// Text after the value that is no comment.
    #[error("line {0} goes on after the value")]
    Rest(usize),
    /// A value without end.
    #[error("the value that begins in line {0} has no end")]
    NoEnd(usize),
    /// A line that is too long.
    #[error("line {0} is too long")]
    TooLong(usize),
    /// A value that is not UTF-8, which the CRI requires.
    #[error("the value that ends in line {0} is not UTF-8")]
    NotText(usize),
}

/// The lines of a file with their numbers, without their ends.
struct Lines<'c> {
    rest: &'c [u8],
    number: usize,
}

impl<'c> Lines<'c> {
    fn next(&mut self) -> Result<Option<&'c [u8]>, EnvFileError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let (line, rest) = match memchr::memchr(b'\n', self.rest) {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        if line.len() >= MOST_LINE_BYTES {
            return Err(EnvFileError::TooLong(self.number));
        }
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// The first value of `key` in a file with this content; `None` if there is none before the end. Nothing after it is checked.
pub fn env_file_value(content: &[u8], key: &str) -> Result<Option<String>, EnvFileError> {
    let mut lines = Lines { rest: content, number: 0 };
    while let Some(line) = lines.next()? {
        let line = without_leading_spaces(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let begin = lines.number;
        let equals = memchr::memchr(b'=', line).ok_or(EnvFileError::NoAssignment(begin))?;
        let (name, value) = (&line[..equals], &line[equals + 1..]);
        if without_leading_spaces(name).is_empty() {
            return Err(EnvFileError::NoName(begin));
        }
        if name.ends_with(b" ") || name.ends_with(b"\t") {
            return Err(EnvFileError::Space(begin));
        }
        let is_wanted = name == key.as_bytes();
        if value.starts_with(b" ") || value.starts_with(b"\t") {
            // As in a shell: the value is empty.
            if is_wanted {
                return Ok(None);
            }
            continue;
        }
        let first = value.strip_prefix(b"'").ok_or(EnvFileError::NoQuotes(begin))?;
        let value = quoted(first, &mut lines)?;
        if is_wanted {
            let text = String::from_utf8(value).map_err(|_| EnvFileError::NotText(lines.number))?;
            return Ok(Some(text).filter(|text| !text.is_empty()));
        }
    }
    Ok(None)
}

/// The value that begins with `first` in the present line, up to the closing quote.
fn quoted(first: &[u8], lines: &mut Lines<'_>) -> Result<Vec<u8>, EnvFileError> {
    let (begin, mut part, mut value) = (lines.number, first, Vec::new());
    loop {
        if let Some(end) = memchr::memchr(b'\'', part) {
            value.extend(&part[..end]);
            let after = without_leading_spaces(&part[end + 1..]);
            if !after.is_empty() && !after.starts_with(b"#") {
                return Err(EnvFileError::Rest(lines.number));
            }
            return Ok(value);
        }
        value.extend(part);
        value.push(b'\n');
        part = lines.next()?.ok_or(EnvFileError::NoEnd(begin))?;
    }
}

fn without_leading_spaces(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(content: &str) -> Result<Option<String>, EnvFileError> {
        env_file_value(content.as_bytes(), "KEY")
    }

    fn found(text: &str) -> Result<Option<String>, EnvFileError> {
        Ok(Some(text.to_owned()))
    }

    #[test]
    fn values_are_what_is_between_single_quotes() {
        assert_eq!(value("KEY='a b $X \"'"), found("a b $X \""));
        assert_eq!(value("# KEY='no'\n\n \t\n  KEY='yes' # comment\nKEY='late'\n"), found("yes"));
        assert_eq!(value("A='x'\r\nKEY='one\r\n two\n\n'\r\n"), found("one\n two\n\n"));
        assert_eq!(value("A='KEY=\n'\nKEY='='#"), found("="));
        assert_eq!(value("KEY='first'\nthis is no assignment"), found("first"));
    }

    #[test]
    fn a_missing_or_empty_value_is_none() {
        for content in ["", "A='KEY'", "KEY=''", "KEY= 'b'", "A= x\n", "KEYS='x'"] {
            assert_eq!(value(content), Ok(None), "{content:?}");
        }
    }

    #[test]
    fn everything_else_is_an_error() {
        for (content, error) in [
            ("A='x'\nexport", EnvFileError::NoAssignment(2)),
            ("='x'", EnvFileError::NoName(1)),
            ("\nKEY ='x'", EnvFileError::Space(2)),
            ("KEY=x", EnvFileError::NoQuotes(1)),
            ("KEY=\"x\"", EnvFileError::NoQuotes(1)),
            ("KEY=", EnvFileError::NoQuotes(1)),
            ("KEY='x'y", EnvFileError::Rest(1)),
            ("KEY='x\ny'z", EnvFileError::Rest(2)),
            ("\nKEY='x\n\n", EnvFileError::NoEnd(2)),
        ] {
            assert_eq!(value(content), Err(error), "{content:?}");
        }
        let long = format!("A='{}'\nKEY='x'", "y".repeat(MOST_LINE_BYTES));
        assert_eq!(value(&long), Err(EnvFileError::TooLong(1)));
        assert_eq!(env_file_value(b"KEY='\xff'", "KEY"), Err(EnvFileError::NotText(1)));
        assert_eq!(env_file_value(b"A='\xff'\nKEY='x'", "KEY"), found("x"));
    }
}

//! Finds the start of the last lines of a file from its end.

use std::io::{self, Read, Seek, SeekFrom};

/// Size of a read in bytes.
const BLOCK: usize = 4096;

/// Offset of the last `lines` lines. An unterminated last line is included but not counted. Searches only the last `window`
/// bytes, possibly starting in the middle of a line.
pub(super) fn tail_start<F: Read + Seek>(file: &mut F, lines: usize, window: u64) -> io::Result<u64> {
    let size = file.seek(SeekFrom::End(0))?;
    let limit = size.saturating_sub(window);
    let mut block = [0; BLOCK];
    // Includes the line end before the first line.
    let mut wanted = lines + 1;
    let mut end = size;
    while end > limit {
        let start = end.saturating_sub(BLOCK as u64).max(limit);
        let block = &mut block[..(end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(block)?;
        for (at, _) in block.iter().enumerate().rev().filter(|(_, b)| **b == b'\n') {
            wanted -= 1;
            if wanted == 0 {
                return Ok(start + at as u64 + 1);
            }
        }
        end = start;
    }
    Ok(limit)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn tail(text: &str, lines: usize) -> &str {
        let start = tail_start(&mut Cursor::new(text.as_bytes()), lines, u64::MAX).unwrap();
        &text[start as usize..]
    }

    #[test]
    fn the_last_lines_are_found() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc\n");
        assert_eq!(tail("a\nb\nc\n", 9), "a\nb\nc\n");
        assert_eq!(tail("a\nb\nc\n", 0), "");
        assert_eq!(tail("a\nb\nc", 1), "b\nc", "what has no end is not counted");
        assert_eq!(tail("", 3), "");
    }

    #[test]
    fn the_search_ends_at_the_window() {
        let long = "x".repeat(3 * BLOCK);
        let start = tail_start(&mut Cursor::new(long.as_bytes()), 1, 5000).unwrap();
        assert_eq!(start, long.len() as u64 - 5000);
    }

    proptest! {
        #[test]
        fn blocks_do_not_matter(lengths in proptest::collection::vec(0usize..3000, 0..12), lines in 0usize..12) {
            let all: Vec<String> = lengths.iter().map(|n| "x".repeat(*n) + "\n").collect();
            let expected = all[all.len().saturating_sub(lines)..].concat();
            let text = all.concat();
            prop_assert_eq!(tail(&text, lines), expected);
        }
    }
}

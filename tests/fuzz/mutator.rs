//! Mutates inputs. The same seed and run give the same input.

/// Tokens that some reader interprets.
const PIECES: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    b":",
    b": ",
    b"- ",
    b"? ",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\"",
    b"'",
    b"|\n",
    b">\n",
    b"&a ",
    b"*a",
    b"<<: *a\n",
    b"!!str ",
    b"!x ",
    b"---\n",
    b"...\n",
    b"#",
    b"%YAML 1.1\n",
    b"~",
    b"null",
    b"true",
    b"yes",
    b"0",
    b"-1",
    b"0x7f",
    b"0o17",
    b"1e999",
    b".inf",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"2147483648",
    b"65536",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xc3\xa9",
    b"\xe2\x80\xa8",
    b"\x1b[2J",
    b"\\u0000",
    b"../",
    b"/",
    b"@sha256:",
    b".",
    b"_",
    b"Ki",
    b"E",
    b"n",
    b"stdout ",
    b" P ",
    b"nameserver ",
    b"search ",
    b"options ",
];

/// A small random number generator (xorshift64*), and the mutations.
pub(crate) struct Mutator(u64);

impl Mutator {
    pub(crate) fn new(seed: u64, run: u64) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ run.wrapping_mul(0xd134_2543_de82_ef95);
        Self(mixed.max(1))
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).map_or(0, |number| number % end.max(1))
    }

    fn range(&mut self, input: &[u8]) -> std::ops::Range<usize> {
        let start = self.below(input.len() + 1);
        let length = self.below((input.len() - start).min(64) + 1);
        start..start + length
    }

    /// An input with one to four mutations.
    pub(crate) fn mutate(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(input.len() + 1);
            let range = self.range(&input);
            match self.below(7) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 => input.truncate(at),
                2 => drop(input.drain(range)),
                3 => {
                    let copy = input[range].to_vec();
                    input.splice(at..at, copy);
                }
                4 => {
                    let other = &corpus[self.below(corpus.len())];
                    let piece = other[self.range(other)].to_vec();
                    input.splice(at..at, piece);
                }
                5 => drop(input.splice(range, PIECES[self.below(PIECES.len())].iter().copied())),
                _ => drop(input.splice(at..at, PIECES[self.below(PIECES.len())].iter().copied())),
            }
        }
        input
    }
}

//! The names of rotated logs: `<log>.<YYYYMMDD-HHMMSS>`, with `.gz` once compressed and `.tmp` until that is complete, as the
//! stock kubelet's. Pure.

use jiff::ToSpan;
use jiff::civil::DateTime;

/// Suffix of a compressed file.
const COMPRESSED: &str = ".gz";
/// Suffix of a file being compressed.
const UNFINISHED: &str = ".tmp";

/// When a log was rotated, in local time and whole seconds. Orders the files of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RotationStamp(DateTime);

/// How a rotated log is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotatedForm {
    /// As the runtime wrote it.
    Plain,
    /// With gzip.
    Compressed,
    /// The unfinished copy of one being compressed, or what a killed kubelet left of it.
    Unfinished,
}

/// A file that a rotation left: `<log>.<stamp>`, possibly compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotatedLog {
    /// When it was rotated.
    pub stamp: RotationStamp,
    /// How it is stored.
    pub form: RotatedForm,
}

impl RotationStamp {
    /// The stamp of a rotation at this time.
    pub fn at(time: DateTime) -> Self {
        Self(time.with().subsec_nanosecond(0).build().unwrap_or(time))
    }

    /// The earliest later stamp.
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1.second()))
    }

    /// Parses `YYYYMMDD-HHMMSS`.
    fn parse(text: &str) -> Option<Self> {
        let (date, time) = text.split_once('-')?;
        let number = |text: &str, from: usize, to: usize| text.get(from..to)?.parse::<i16>().ok();
        let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if date.len() != 8 || time.len() != 6 || !is_digits(date) || !is_digits(time) {
            return None;
        }
        let small = |text: &str, from: usize| number(text, from, from + 2).and_then(|n| i8::try_from(n).ok());
        let date_time = DateTime::new(
            number(date, 0, 4)?,
            small(date, 4)?,
            small(date, 6)?,
            small(time, 0)?,
            small(time, 2)?,
            small(time, 4)?,
            0,
        );
        date_time.ok().map(Self)
    }
}

impl RotatedLog {
    /// Parses the name of a file next to the log called `log`; `None` if it is not one of its rotated files.
    pub fn parse(name: &str, log: &str) -> Option<Self> {
        let rest = name.strip_prefix(log)?.strip_prefix('.')?;
        let (stamp, form) = match (rest.strip_suffix(COMPRESSED), rest.strip_suffix(UNFINISHED)) {
            (Some(stamp), _) => (stamp, RotatedForm::Compressed),
            (None, Some(stamp)) => (stamp, RotatedForm::Unfinished),
            (None, None) => (rest, RotatedForm::Plain),
        };
        RotationStamp::parse(stamp).map(|stamp| Self { stamp, form })
    }

    /// The name of its file.
    pub fn name(&self, log: &str) -> String {
        let stamp = self.stamp.0.strftime("%Y%m%d-%H%M%S");
        let suffix = match self.form {
            RotatedForm::Plain => "",
            RotatedForm::Compressed => COMPRESSED,
            RotatedForm::Unfinished => UNFINISHED,
        };
        format!("{log}.{stamp}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_those_of_a_stock_kubelet() {
        let time = date(2026, 1, 2).at(3, 4, 5, 678);
        let named = |form| RotatedLog { stamp: RotationStamp::at(time), form }.name("0.log");
        assert_eq!(named(RotatedForm::Plain), "0.log.20260102-030405");
        assert_eq!(named(RotatedForm::Compressed), "0.log.20260102-030405.gz");
        assert_eq!(named(RotatedForm::Unfinished), "0.log.20260102-030405.tmp");
    }

    #[test]
    fn other_files_are_not_rotated_logs() {
        for name in [
            "0.log",
            "0.log.",
            "0.log.1",
            "0.log.20260102-030405.bak",
            "0.log.20260102-030405.gz.tmp",
            "0.log.20261302-030405",
            "0.log.20260102_030405",
            "0.log.2026010-2030405",
            "0.log.+0260102-030405",
            "10.log.20260102-030405",
            "0.log.20260102-0304٥",
        ] {
            assert_eq!(RotatedLog::parse(name, "0.log"), None, "{name}");
        }
    }

    #[test]
    fn stamps_increase() {
        let last = RotationStamp::at(date(2026, 12, 31).at(23, 59, 59, 0));
        assert_eq!(last.next(), RotationStamp::at(date(2027, 1, 1).at(0, 0, 0, 0)));
        assert!(last < last.next());
    }

    proptest! {
        #[test]
        fn names_are_read_back(seconds in 0i64..4_000_000_000, form in 0usize..3) {
            let time = jiff::Timestamp::from_second(seconds).unwrap().to_zoned(jiff::tz::TimeZone::UTC).datetime();
            let form = [RotatedForm::Plain, RotatedForm::Compressed, RotatedForm::Unfinished][form];
            let log = RotatedLog { stamp: RotationStamp::at(time), form };
            prop_assert_eq!(RotatedLog::parse(&log.name("3.log"), "3.log"), Some(log));
        }

        #[test]
        fn no_name_makes_the_parser_panic(rest: String) {
            let _ = RotatedLog::parse(&format!("0.log.{rest}"), "0.log");
        }
    }
}

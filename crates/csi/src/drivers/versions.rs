//! The versions of CSI that a driver says it supports. Pure. The rules and texts are upstream's (`HighestSupportedVersion` of
//! `apimachinery/pkg/util/version`).

use hostlet_base::go_quoted;

/// No version can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum VersionsError {
    /// The driver states none.
    #[error("Plugin returned an empty list for supported versions")]
    Empty,
    /// None is a version up to 1.x.
    #[error(
        "None of the versions specified {} are supported. err=could not find a highest supported version from versions ([{}]) reported: \
         {}", quoted(versions), versions.join(" "), cause.as_deref().unwrap_or("<nil>")
    )]
    NotFound { versions: Vec<String>, cause: Option<String> },
    /// The highest one is 0.x.
    #[error(
        "None of the versions specified {} are supported. err=highest supported version reported is {highest}, must be v1.x",
        quoted(versions)
    )]
    Old { versions: Vec<String>, highest: String },
}

/// Checks that 1.x is among the versions.
pub(super) fn check(versions: &[String]) -> Result<(), VersionsError> {
    if versions.is_empty() {
        return Err(VersionsError::Empty);
    }
    let parsed: Vec<_> = versions.iter().map(|version| parse(version)).collect();
    let usable = parsed.iter().flatten().filter(|version| version[0] <= 1);
    let versions = versions.to_vec();
    match usable.max() {
        Some(highest) if highest[0] == 1 => Ok(()),
        Some(highest) => {
            let numbers: Vec<String> = highest.iter().map(u64::to_string).collect();
            Err(VersionsError::Old { versions, highest: numbers.join(".") })
        }
        None => {
            let cause = parsed.into_iter().find_map(Result::err).map(|error| error.to_string());
            Err(VersionsError::NotFound { versions, cause })
        }
    }
}

/// A text is no version.
#[derive(Debug, thiserror::Error)]
enum ParseError {
    #[error("could not parse {} as version", go_quoted(.0))]
    Format(String),
    #[error("illegal version string {}", go_quoted(.0))]
    Short(String),
    #[error("illegal zero-prefixed version component {} in {}", go_quoted(.0), go_quoted(.1))]
    Zero(String, String),
    #[error("illegal non-numeric version component {} in {}", go_quoted(.0), go_quoted(.1))]
    Number(String, String),
}

/// The numbers, at least two, of a version that may start with `v` and end with anything.
fn parse(text: &str) -> Result<Vec<u64>, ParseError> {
    let start = text.trim_start();
    let start = start.strip_prefix('v').unwrap_or(start);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(start);
    if end == 0 {
        return Err(ParseError::Format(text.to_owned()));
    }
    while let Some(rest) = start[end..].strip_prefix('.') {
        match digits(rest) {
            0 => break,
            more => end += 1 + more,
        }
    }
    let parts: Vec<&str> = start[..end].split('.').collect();
    if parts.len() < 2 {
        return Err(ParseError::Short(text.to_owned()));
    }
    if parts[0].starts_with('0') && parts[0] != "0" {
        return Err(ParseError::Zero(parts[0].to_owned(), text.to_owned()));
    }
    let number =
        |part: &&str| part.parse().map_err(|_| ParseError::Number((*part).to_owned(), text.to_owned()));
    parts.iter().map(number).collect()
}

/// A list as Go prints it with `%q`.
fn quoted(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| go_quoted(text)).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(versions: &[&str]) -> Result<(), String> {
        let versions: Vec<String> = versions.iter().map(|version| (*version).to_owned()).collect();
        check(&versions).map_err(|error| error.to_string())
    }

    #[test]
    fn a_version_1_is_enough() {
        for versions in [
            &["1.0.0"][..],
            &["v1.0"],
            &["0.3.0", "1.5.0"],
            &["2.0.0", "1.0.0"],
            &["rubbish", " 1.2-alpha"],
            &["1.10.0.7"],
        ] {
            assert_eq!(checked(versions), Ok(()), "{versions:?}");
        }
    }

    #[test]
    fn the_others_are_rejected_in_upstreams_words() {
        assert_eq!(checked(&[]).unwrap_err(), "Plugin returned an empty list for supported versions");
        assert_eq!(
            checked(&["0.2.0", "0.3.0", "2.0.0"]).unwrap_err(),
            "None of the versions specified [\"0.2.0\" \"0.3.0\" \"2.0.0\"] are supported. err=highest supported version reported is \
             0.3.0, must be v1.x"
        );
        assert_eq!(
            checked(&["2.0.0"]).unwrap_err(),
            "None of the versions specified [\"2.0.0\"] are supported. err=could not find a highest supported version from versions \
             ([2.0.0]) reported: <nil>"
        );
        for (version, cause) in [
            ("x1.0", "could not parse \"x1.0\" as version"),
            ("1", "illegal version string \"1\""),
            ("1.", "illegal version string \"1.\""),
            ("01.0", "illegal zero-prefixed version component \"01\" in \"01.0\""),
            ("99999999999999999999.0", "illegal non-numeric version component"),
        ] {
            let error = checked(&[version]).unwrap_err();
            assert!(error.contains(cause), "{error}");
        }
    }
}

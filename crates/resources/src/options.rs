//! Values of policy options, as Go reads them.

use hostlet_base::go_quoted;

/// A value that is neither true nor false.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad value for option {}: strconv.ParseBool: parsing {}: invalid syntax", go_quoted(.name), go_quoted(.value))]
pub struct BoolOptionError {
    name: String,
    value: String,
}

/// Reads a value like `strconv.ParseBool`.
pub(crate) fn bool_option(name: &str, value: &str) -> Result<bool, BoolOptionError> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(BoolOptionError { name: name.to_owned(), value: value.to_owned() }),
    }
}

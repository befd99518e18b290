//! Configuration errors with their locations. Every message fits on one line and says what to change.

use std::fmt;
use std::io;
use std::path::PathBuf;

use hostlet_base::one_line;

/// Maximum bytes of one error message, which may quote long names and values.
const MAX_LINE: usize = 1000;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line in a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; `None` for the whole file.
        line: Option<usize>,
    },
    /// A flag of the command line, without its dashes.
    Flag(String),
    /// No single place: a default, or a combination of several settings.
    Merged,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Self::File { path, line: None } => write!(f, "{}", path.display()),
            Self::Flag(name) => write!(f, "--{name}"),
            Self::Merged => f.write_str("configuration"),
        }
    }
}

/// A configuration error.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or directory could not be read.
    #[error("{}: cannot {action}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The operation.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The path is a directory, not a file.
    #[error("{}: is a directory; name a file, or give the directory with --config-dir", .0.display())]
    IsDirectory(PathBuf),
    /// A file is far larger than any configuration.
    #[error("{}: the file is larger than {limit} bytes; that is not a configuration", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The size limit, in bytes.
        limit: u64,
    },
    /// A file is not UTF-8.
    #[error("{0}: the file is not UTF-8 text; save it as UTF-8")]
    NotUtf8(Place),
    /// A file has no document.
    #[error(
        "{}: the file is empty; it needs at least apiVersion: kubelet.config.k8s.io/v1beta1 and \
         kind: KubeletConfiguration", .0.display()
    )]
    Empty(PathBuf),
    /// A file is not YAML or JSON, or has a duplicate field.
    #[error("{at}:{column}: {message}")]
    Syntax {
        /// The location.
        at: Place,
        /// The column in it, counted from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A document has an unknown or duplicate kind.
    #[error("{at}: {message}")]
    Document {
        /// The location.
        at: Place,
        /// What is wrong with it.
        message: String,
    },
    /// A field does not exist.
    #[error("{at}: unknown field {path:?}{}", hint(.nearest))]
    UnknownField {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// The known field with the most similar name.
        nearest: Option<String>,
    },
    /// A value has the wrong type.
    #[error("{at}: {path}: {message}")]
    WrongValue {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// What was found and what was expected.
        message: String,
    },
    /// A value violates a rule.
    #[error("{at}: {path}: {message}")]
    Invalid {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// The rule.
        message: String,
    },
    /// A flag has an invalid value.
    #[error("--{flag}: {message}")]
    Flag {
        /// The flag, without its dashes.
        flag: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A setting is not supported yet, and ignoring it would be unsafe.
    #[error("{at}: {path}: {message}")]
    NotServed {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// What is missing.
        message: String,
    },
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!(" (did you mean {nearest:?}?)")).unwrap_or_default()
}

impl ConfigError {
    /// The location of the error, for sorting.
    fn place(&self) -> Place {
        match self {
            Self::Read { path, .. }
            | Self::TooLarge { path, .. }
            | Self::IsDirectory(path)
            | Self::Empty(path) => Place::File { path: path.clone(), line: None },
            Self::Flag { flag, .. } => Place::Flag((*flag).to_owned()),
            Self::NotUtf8(at)
            | Self::Syntax { at, .. }
            | Self::Document { at, .. }
            | Self::UnknownField { at, .. }
            | Self::WrongValue { at, .. }
            | Self::Invalid { at, .. }
            | Self::NotServed { at, .. } => at.clone(),
        }
    }
}

/// All errors of a configuration, one line each; never empty.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The errors, ordered by location.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<Vec<ConfigError>> for ConfigErrors {
    fn from(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_cached_key(ConfigError::place);
        Self(errors)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}", one_line(&error.to_string(), MAX_LINE))?;
            // Each line includes its cause, since a list has no single `source`.
            if let Some(cause) = std::error::Error::source(error) {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A known setting that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Where it is set.
    pub at: Place,
    /// The whole path of the field; `None` for a flag that sets no field.
    pub path: Option<String>,
    /// What is missing.
    pub message: String,
}

impl fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}: {path}: {}", self.at, self.message),
            None => write!(f, "{}: {}", self.at, self.message),
        }
    }
}

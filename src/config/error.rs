//! What can be wrong with a configuration, each with the place it stands at. Every message fits one line and says what to
//! change.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::types::one_line;

/// Most bytes of one line about an error: it may quote names and values that somebody made long.
const LINE_MOST: usize = 1000;

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A file, and the line in it, counted from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line; none if the whole file is meant.
        line: Option<usize>,
    },
    /// A flag of the command line, without its dashes.
    Flag(String),
    /// No single place: a default, or what several places make together.
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

/// One thing that keeps a configuration from being used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or directory could not be read.
    #[error("{}: cannot {action}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// A directory stands where a file was named.
    #[error("{}: is a directory; name a file, or give the directory with --config-dir", .0.display())]
    IsDirectory(PathBuf),
    /// A file is far larger than any configuration.
    #[error("{}: the file is larger than {limit} bytes; that is no configuration", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// A file is not text.
    #[error("{0}: the file is not UTF-8 text; save it as UTF-8")]
    NotUtf8(Place),
    /// A file holds nothing.
    #[error(
        "{}: the file is empty; it needs at least apiVersion: kubelet.config.k8s.io/v1beta1 and \
         kind: KubeletConfiguration", .0.display()
    )]
    Empty(PathBuf),
    /// A file is neither YAML nor JSON, or sets a field twice.
    #[error("{at}:{column}: {message}")]
    Syntax {
        /// The line where reading failed.
        at: Place,
        /// The column in it, counted from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A document is not of a kind that is read here, or is there twice.
    #[error("{at}: {message}")]
    Document {
        /// Where the document stands.
        at: Place,
        /// What is wrong with it.
        message: String,
    },
    /// There is no such field.
    #[error("{at}: unknown field {path:?}{}", hint(.nearest))]
    UnknownField {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// The known field that may have been meant.
        nearest: Option<String>,
    },
    /// A value is not of the type the field has.
    #[error("{at}: {path}: {message}")]
    WrongValue {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// What it is and what was expected.
        message: String,
    },
    /// A value breaks a rule.
    #[error("{at}: {path}: {message}")]
    Invalid {
        /// Where it is set.
        at: Place,
        /// The whole path of the field.
        path: String,
        /// The rule.
        message: String,
    },
    /// A flag cannot be used as it is given.
    #[error("--{flag}: {message}")]
    Flag {
        /// The flag, without its dashes.
        flag: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// A setting asks for what hostlet does not do yet, and ignoring it would be unsafe.
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
    /// Where the error stands, for sorting.
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

/// Everything that keeps a configuration from being used: one line each, never empty.
#[derive(Debug)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The errors, in the order of the places they stand at.
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
            write!(f, "{separator}{}", one_line(&error.to_string(), LINE_MOST))?;
            // Each line stands for itself, so it carries its cause; a list has no single source to chain to.
            if let Some(cause) = std::error::Error::source(error) {
                write!(f, ": {cause}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A setting that is understood but changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigWarning {
    /// Where it is set.
    pub at: Place,
    /// The whole path of the field; none if a flag that sets no field is meant.
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

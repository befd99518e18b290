//! Initializes `tracing` for the process.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt};

use super::journal::stderr_is_journal;

/// Overrides the verbosity, in the syntax of `tracing_subscriber::filter::Targets`, e.g. `hostlet::pleg=debug,info`.
const FILTER_VARIABLE: &str = "HOSTLET_LOG";
/// Disables colors if set (no-color.org).
const NO_COLOR_VARIABLE: &str = "NO_COLOR";
/// The journal's `SYSLOG_IDENTIFIER`.
const JOURNAL_IDENTIFIER: &str = "hostlet";
/// Prefix of field names in the journal, e.g. `HOSTLET_POD`.
const JOURNAL_PREFIX: &str = "HOSTLET";

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text.
    Text,
    /// One JSON object per line.
    Json,
}

/// The log target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard error.
    Stderr,
    /// The journal's native protocol, which preserves levels and fields.
    Journald,
}

impl LogTarget {
    /// Selects the journal if stderr is connected to it. JSON is for programs that read lines, so it stays on stderr.
    pub fn detect(format: LogFormat) -> Self {
        match format {
            LogFormat::Text if stderr_is_journal() => Self::Journald,
            LogFormat::Text | LogFormat::Json => Self::Stderr,
        }
    }
}

/// Logging options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// The format on stderr.
    pub format: LogFormat,
    /// The kubelet's `-v`: 0 to 2 is info, 3 and 4 debug, more is trace.
    pub verbosity: u8,
    /// The log target.
    pub target: LogTarget,
}

/// Why logging could not be initialized.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter in the environment is invalid.
    #[error("{FILTER_VARIABLE}={value:?} is not a log filter; use e.g. hostlet=debug,info")]
    Filter {
        /// Its value.
        value: String,
        /// The error.
        source: ParseError,
    },
    /// Logging is already initialized.
    #[error("logging is already initialized")]
    AlreadySet(#[source] TryInitError),
}

/// Initializes logging for the process; call it once. Falls back to stderr if the journal's socket cannot be reached.
pub fn init(config: TelemetryConfig) -> Result<(), TelemetryError> {
    let from_environment = std::env::var(FILTER_VARIABLE).ok();
    let filter = filter(config.verbosity, from_environment.as_deref())?;
    let (journal, failure) = match config.target {
        LogTarget::Stderr => (None, None),
        LogTarget::Journald => match tracing_journald::layer() {
            Ok(journal) => (Some(journal), None),
            Err(e) => (None, Some(e)),
        },
    };
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match journal {
        Some(journal) => journal
            .with_syslog_identifier(JOURNAL_IDENTIFIER.to_owned())
            .with_field_prefix(Some(JOURNAL_PREFIX.to_owned()))
            .boxed(),
        None => {
            let colors = io::stderr().is_terminal() && std::env::var_os(NO_COLOR_VARIABLE).is_none();
            lines(config.format, colors, io::stderr)
        }
    };
    subscriber(layer, filter).try_init().map_err(TelemetryError::AlreadySet)?;
    if let Some(error) = failure {
        tracing::warn!(%error, "cannot reach the journal's socket, logging to stderr");
    }
    Ok(())
}

fn subscriber(
    layer: Box<dyn Layer<Registry> + Send + Sync>,
    filter: Targets,
) -> impl Subscriber + Send + Sync {
    tracing_subscriber::registry().with(layer.with_filter(filter))
}

/// The default filter: only warnings of libraries, unless the environment overrides it. kube's warnings about failed lists are
/// off, because hostlet logs them itself when they matter.
fn filter(verbosity: u8, from_environment: Option<&str>) -> Result<Targets, TelemetryError> {
    let directives = match (from_environment.filter(|value| !value.is_empty()), verbosity) {
        (Some(value), _) => value,
        (None, 0..=2) => "warn,kube_runtime=error,hostlet=info",
        (None, 3..=4) => "warn,kube_runtime=error,hostlet=debug",
        (None, 5..) => "warn,hostlet=trace",
    };
    directives.parse().map_err(|source| TelemetryError::Filter { value: directives.to_owned(), source })
}

/// A layer that writes one line per event.
fn lines<W>(format: LogFormat, colors: bool, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_ansi(colors).with_writer(writer);
    match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Buffer {
        /// The output of `log` with this format and verbosity.
        fn logged(format: LogFormat, verbosity: u8, environment: Option<&str>, log: impl FnOnce()) -> String {
            let buffer = Self::default();
            let writer = buffer.clone();
            let layer = lines(format, false, move || writer.clone());
            let filter = filter(verbosity, environment).unwrap();
            tracing::subscriber::with_default(subscriber(layer, filter), log);
            let bytes = buffer.0.lock().clone();
            String::from_utf8(bytes).unwrap()
        }
    }

    fn every_level() {
        tracing::trace!(target: "hostlet::pleg", "t");
        tracing::debug!(target: "hostlet::pleg", "d");
        tracing::info!(target: "hostlet::pleg", "i");
        tracing::info!(target: "hyper", "library");
    }

    #[test]
    fn verbosity_is_the_kubelets() {
        for (verbosity, lines) in [(0, 1), (2, 1), (3, 2), (4, 2), (5, 3), (10, 3)] {
            let logged = Buffer::logged(LogFormat::Text, verbosity, None, every_level);
            assert_eq!(logged.lines().count(), lines, "-v={verbosity}: {logged}");
            assert!(!logged.contains("library"));
        }
    }

    #[test]
    fn the_environment_overrides_the_verbosity() {
        let logged = Buffer::logged(LogFormat::Text, 9, Some("hyper=info"), every_level);
        assert!(logged.contains("library") && logged.lines().count() == 1, "{logged}");
        assert_eq!(Buffer::logged(LogFormat::Text, 0, Some(""), every_level).lines().count(), 1);

        let error = filter(0, Some("hostlet=loud")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "HOSTLET_LOG=\"hostlet=loud\" is not a log filter; use e.g. hostlet=debug,info"
        );
    }

    #[test]
    fn lines_carry_their_fields_in_both_formats() {
        let log = || tracing::info!(target: "hostlet", pod = "default/web", "started");
        let text = Buffer::logged(LogFormat::Text, 0, None, log);
        assert!(text.ends_with(" INFO hostlet: started pod=\"default/web\"\n"), "{text}");
        let json = Buffer::logged(LogFormat::Json, 0, None, log);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["message"], &json["pod"]), (&"started".into(), &"default/web".into()));
        assert_eq!(json["level"], "INFO");
    }

    #[test]
    fn json_stays_on_stderr() {
        assert_eq!(LogTarget::detect(LogFormat::Json), LogTarget::Stderr);
    }
}

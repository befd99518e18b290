//! Initializes `tracing` for the process.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt, reload};

use super::journal::stderr_is_journal;

/// Overrides the verbosity, in the syntax of `tracing_subscriber::filter::Targets`, e.g. `hostlet_observe::pleg=debug,info`.
const FILTER_VARIABLE: &str = "HOSTLET_LOG";
/// Disables colors if set (no-color.org).
const NO_COLOR_VARIABLE: &str = "NO_COLOR";
/// The journal's `SYSLOG_IDENTIFIER`.
const JOURNAL_IDENTIFIER: &str = "hostlet";
/// Prefix of field names in the journal, e.g. `HOSTLET_POD`.
const JOURNAL_PREFIX: &str = "HOSTLET";

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people: time, level, message and fields.
    Text,
    /// One JSON object per line.
    Json,
}

/// Where the log goes.
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
    /// Where the log goes; see [`LogTarget::detect`].
    pub target: LogTarget,
}

/// Why logging could not be initialized.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter in the environment is invalid.
    #[error("{FILTER_VARIABLE}={value:?} is not a log filter; use e.g. hostlet=debug,info")]
    Filter {
        /// The value of the variable.
        value: String,
        /// Where the value is wrong.
        source: ParseError,
    },
    /// Logging is already initialized.
    #[error("logging is already initialized")]
    AlreadySet(#[source] TryInitError),
    /// It cannot be changed.
    #[error("the log cannot be changed")]
    NotChanged(#[source] reload::Error),
}

/// A layer that writes events.
type Output = Box<dyn Layer<Registry> + Send + Sync>;

/// Changes the process's log at run time.
#[derive(Clone)]
pub struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    output: reload::Handle<Output, Registry>,
}

impl LogControl {
    /// Changes format and verbosity. The environment still overrides the verbosity. Nothing changes on an error.
    pub fn apply(&self, format: LogFormat, verbosity: u8) -> Result<(), TelemetryError> {
        let filter = filter_of_environment(verbosity)?;
        let (output, failure) = output(format, LogTarget::detect(format));
        self.output.reload(output).map_err(TelemetryError::NotChanged)?;
        self.filter.reload(filter).map_err(TelemetryError::NotChanged)?;
        warn_no_journal(failure);
        Ok(())
    }
}

/// Initializes logging for the process; call it once. Falls back to stderr if the journal's socket cannot be reached.
pub fn init(config: TelemetryConfig) -> Result<LogControl, TelemetryError> {
    let filter = filter_of_environment(config.verbosity)?;
    let (output, failure) = output(config.format, config.target);
    let (subscriber, control) = subscriber(output, filter);
    subscriber.try_init().map_err(TelemetryError::AlreadySet)?;
    warn_no_journal(failure);
    Ok(control)
}

fn filter_of_environment(verbosity: u8) -> Result<Targets, TelemetryError> {
    filter(verbosity, std::env::var(FILTER_VARIABLE).ok().as_deref())
}

fn warn_no_journal(failure: Option<io::Error>) {
    if let Some(error) = failure {
        tracing::warn!(%error, "cannot reach the journal's socket, logging to stderr");
    }
}

/// Where events are written, and why not to the journal if that was the target.
fn output(format: LogFormat, target: LogTarget) -> (Output, Option<io::Error>) {
    let failure = match target {
        LogTarget::Stderr => None,
        LogTarget::Journald => match tracing_journald::layer() {
            Ok(journal) => return (in_journal(journal), None),
            Err(error) => Some(error),
        },
    };
    let colors = io::stderr().is_terminal() && std::env::var_os(NO_COLOR_VARIABLE).is_none();
    (lines(format, colors, io::stderr), failure)
}

/// With the levels' usual priorities: what is normal is informational, not a notice.
fn in_journal(journal: tracing_journald::Layer) -> Output {
    let priorities = PriorityMappings {
        error: Priority::Error,
        warn: Priority::Warning,
        info: Priority::Informational,
        debug: Priority::Debug,
        trace: Priority::Debug,
    };
    journal
        .with_syslog_identifier(JOURNAL_IDENTIFIER.to_owned())
        .with_field_prefix(Some(JOURNAL_PREFIX.to_owned()))
        .with_priority_mappings(priorities)
        .boxed()
}

fn subscriber(output: Output, filter: Targets) -> (impl Subscriber + Send + Sync, LogControl) {
    let (output_layer, output) = reload::Layer::new(output);
    let (filter_layer, filter) = reload::Layer::new(filter);
    let subscriber = tracing_subscriber::registry().with(output_layer.with_filter(filter_layer));
    (subscriber, LogControl { filter, output })
}

/// The default filter: only warnings of libraries, unless the environment overrides it. A target is a prefix, so `hostlet` names all
/// crates of hostlet. kube's warnings about failed lists are off, because hostlet logs them itself when they matter.
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
            tracing::subscriber::with_default(subscriber(layer, filter).0, log);
            let bytes = buffer.0.lock().clone();
            String::from_utf8(bytes).unwrap()
        }
    }

    fn every_level() {
        tracing::trace!(target: "hostlet_observe::pleg", "t");
        tracing::debug!(target: "hostlet_observe::pleg", "d");
        tracing::info!(target: "hostlet_observe::pleg", "i");
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
    fn format_and_verbosity_change_at_run_time() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let layer = lines(LogFormat::Text, false, move || writer.clone());
        let (subscriber, control) = subscriber(layer, filter(0, None).unwrap());
        let writer = buffer.clone();
        tracing::subscriber::with_default(subscriber, || {
            every_level();
            control.filter.reload(filter(4, None).unwrap()).unwrap();
            every_level();
            control.output.reload(lines(LogFormat::Json, false, move || writer.clone())).unwrap();
            every_level();
        });
        let logged = String::from_utf8(buffer.0.lock().clone()).unwrap();
        let is_json = logged.lines().map(|line| line.starts_with('{')).collect::<Vec<_>>();
        assert_eq!(is_json, [false, false, false, true, true], "{logged}");
    }

    #[test]
    fn json_stays_on_stderr() {
        assert_eq!(LogTarget::detect(LogFormat::Json), LogTarget::Stderr);
    }
}

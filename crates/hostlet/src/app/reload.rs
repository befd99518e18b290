//! Reloads the configuration on SIGHUP: applies what can change at run time, names everything else, and requests a rescan of
//! manifests and credentials. An invalid configuration changes nothing.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use hostlet_base::{RescanRequester, error_chain};
use hostlet_config::{ConfigErrors, ConfigWarning, EffectiveConfig, KubeletFlags, Loaded, load};
use hostlet_serve::supervisor::{ConfigState, Notifier, Notify};
use hostlet_telemetry::LogControl;

/// Fields that apply without a restart. Besides them, the files of the kubeconfig and the manifests are read again.
const RELOADABLE: [&str; 2] = ["logging.format", "logging.verbosity"];

/// What a reload needs to know of the start.
pub(crate) struct Reload {
    /// The command line, which names the files.
    pub flags: KubeletFlags,
    /// The default of the node's name.
    pub hostname: String,
    /// The configuration that the daemon started with.
    pub started_with: EffectiveConfig,
    pub warnings: Vec<ConfigWarning>,
    /// The log, whose format and verbosity may change.
    pub logs: LogControl,
    /// SIGHUP.
    pub hang_up: Signal,
}

/// The changes of a reload, by path of the field.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    /// Applied now.
    applied: Vec<String>,
    /// In effect after a restart.
    need_restart: Vec<String>,
}

impl Reload {
    /// Reloads on each SIGHUP until cancelled.
    pub(super) async fn run(
        mut self,
        rescan: Arc<RescanRequester>,
        state: watch::Sender<ConfigState>,
        notifier: Option<Notifier>,
        cancel: CancellationToken,
    ) {
        let notify = |notify| {
            if let Some(notifier) = &notifier {
                notifier.send(notify);
            }
        };
        let mut last = self.started_with.clone();
        loop {
            tokio::select! {
                // Cancel-safe: waits for a token.
                () = cancel.cancelled() => return,
                // Cancel-safe: a signal is taken only when `recv` returns.
                Some(()) = self.hang_up.recv() => {}
            }
            notify(Notify::Reloading);
            let (flags, hostname) = (self.flags.clone(), self.hostname.clone());
            // A file may be on a slow disk.
            let loaded = tokio::task::spawn_blocking(move || load(&flags, &hostname));
            match loaded.await {
                Ok(Ok(loaded)) => {
                    let changes = changes(&self.started_with, &last, &loaded.effective);
                    last = loaded.effective.clone();
                    state.send_replace(match changes.need_restart.is_empty() {
                        true => ConfigState::Applied,
                        false => ConfigState::NeedsRestart,
                    });
                    self.apply(loaded, &changes);
                }
                Ok(Err(errors)) => {
                    log_errors(&errors);
                    state.send_replace(ConfigState::Invalid);
                }
                Err(error) => {
                    tracing::error!(%error, "reading the configuration panicked; nothing was changed")
                }
            }
            // Files of manifests and credentials are independent of the configuration's.
            rescan.request();
            notify(Notify::Ready);
        }
    }

    fn apply(&mut self, loaded: Loaded, changes: &Changes) {
        let logging = &loaded.config.logging;
        let verbosity = u8::try_from(logging.verbosity).unwrap_or(u8::MAX);
        if let Err(error) = self.logs.apply(logging.format, verbosity) {
            tracing::error!(error = error_chain(&error), "cannot change the log");
        }
        let known: HashSet<String> = self.warnings.iter().map(ConfigWarning::to_string).collect();
        for warning in loaded.warnings.iter().filter(|warning| !known.contains(&warning.to_string())) {
            tracing::warn!("{warning}");
        }
        self.warnings = loaded.warnings;
        for field in &changes.need_restart {
            tracing::warn!(
                field,
                "{field} was changed and needs a restart of hostlet; pods keep running meanwhile"
            );
        }
        if changes.applied.is_empty() {
            tracing::info!("configuration reloaded; manifests and credentials are read again");
        } else {
            let applied = changes.applied.join(", ");
            tracing::info!(applied, "configuration reloaded; manifests and credentials are read again");
        }
    }
}

fn log_errors(errors: &ConfigErrors) {
    for line in errors.to_string().lines() {
        tracing::error!("the configuration is invalid, nothing was changed: {line}");
    }
}

/// What the new configuration changes, compared with the one of the start and with the one of the last reload.
fn changes(started_with: &EffectiveConfig, last: &EffectiveConfig, new: &EffectiveConfig) -> Changes {
    let is_reloadable = |field: &String| RELOADABLE.contains(&field.as_str());
    Changes {
        applied: last.changes(new).into_iter().filter(is_reloadable).collect(),
        need_restart: started_with.changes(new).into_iter().filter(|field| !is_reloadable(field)).collect(),
    }
}

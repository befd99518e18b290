//! `logging`: `LoggingConfiguration` of component-base.

use hostlet_base::GoDuration;
use serde::{Deserialize, Serialize};

use super::scalars::{QuantityText, blank_is_unset, duration_or_nanos};

/// Logging options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct Logging {
    #[serde(deserialize_with = "blank_is_unset")]
    pub format: Option<LogFormat>,
    #[serde(deserialize_with = "duration_or_nanos")]
    pub(crate) flush_frequency: Option<GoDuration>,
    pub verbosity: Option<u32>,
    pub(crate) vmodule: Option<Vec<VModule>>,
    pub options: LogOptions,
}

/// The log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The verbosity of some source files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct VModule {
    pub(crate) file_pattern: Option<String>,
    pub verbosity: Option<u32>,
}

/// Options by log format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct LogOptions {
    pub text: OutputRouting,
    pub json: OutputRouting,
}

/// Output streams and buffering (`OutputRoutingOptions` of component-base).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
pub(crate) struct OutputRouting {
    pub(crate) split_stream: Option<bool>,
    pub(crate) info_buffer_size: Option<QuantityText>,
}

//! The records that a stock kubelet left in its root directory (KEP-2535, `image_manager`): what it pulled with which credentials, and
//! the pulls that it had begun. Read once by the daemon that takes its place, and never changed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use hostlet_base::{error_chain, one_line};
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::record::{Access, ImageRecord};

/// Longest file that is read, bytes: a record has at most some hundred Secrets, each with names of at most 253 bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The start of the names of its files. A digest of what the file is about follows.
const FILE_PREFIX: &str = "sha256-";

/// The versions of its files.
const API_VERSIONS: [&str; 2] = ["kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"];

/// Longest part of a file's text in an error.
const MAX_SHOWN: usize = 200;

/// The records of a stock kubelet.
#[derive(Debug, Default)]
pub(crate) struct StockRecords {
    /// By the runtime's ID of the image. Its names are as in the specs of pods, without tag and digest.
    pub(super) records: BTreeMap<String, ImageRecord>,
    /// The images, as in the specs of pods, whose pulls had begun.
    pub(super) intents: Vec<String>,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StockRecordError {
    /// It cannot be read.
    #[error("cannot read it")]
    Read(#[source] io::Error),
    #[error("it is larger than {MAX_SIZE} bytes")]
    TooLarge,
    /// It is not JSON, or has other types than expected.
    #[error("invalid JSON at line {line}, column {column}")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It is something else.
    #[error("it is a {} of {}, not a {expected} of {}", one_line(.kind, MAX_SHOWN), one_line(.api_version, MAX_SHOWN), API_VERSIONS[0])]
    Kind {
        kind: String,
        api_version: String,
        /// The kind of the files in this directory.
        expected: &'static str,
    },
    /// It is about another image than its name says.
    #[error("it is about {}, for which it has the wrong name", one_line(.0, MAX_SHOWN))]
    Name(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed<T> {
    kind: String,
    api_version: String,
    #[serde(flatten)]
    content: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PulledRecord {
    last_updated_time: Option<Timestamp>,
    image_ref: String,
    #[serde(default)]
    credential_mapping: BTreeMap<String, Access>,
}

#[derive(Deserialize)]
struct Intent {
    image: String,
}

impl StockRecords {
    /// Reads the records in the root directory of a kubelet. What cannot be read is left out and logged. Blocks on the disk.
    pub(crate) fn read(root_dir: &Path) -> Self {
        let dir = root_dir.join("image_manager");
        let records = read_all(&dir.join("pulled"), parse_record).into_iter().collect();
        Self { records, intents: read_all(&dir.join("pulling"), parse_intent) }
    }
}

/// Parses a record of an image: its ID and who may use it.
fn parse_record(name: &str, bytes: &[u8]) -> Result<(String, ImageRecord), StockRecordError> {
    let PulledRecord { last_updated_time, image_ref, credential_mapping } =
        parse(bytes, "ImagePulledRecord")?;
    check_name(name, &image_ref)?;
    let last_updated_time = last_updated_time.unwrap_or_default();
    Ok((image_ref, ImageRecord { last_updated_time, credential_mapping }))
}

/// Parses a record of a pull that has begun.
fn parse_intent(name: &str, bytes: &[u8]) -> Result<String, StockRecordError> {
    let Intent { image } = parse(bytes, "ImagePullIntent")?;
    check_name(name, &image)?;
    Ok(image)
}

fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8], expected: &'static str) -> Result<T, StockRecordError> {
    let json =
        |error: serde_json::Error| StockRecordError::Json { line: error.line(), column: error.column() };
    let Typed { kind, api_version, content } = serde_json::from_slice::<Typed<T>>(bytes).map_err(json)?;
    if kind != expected || !API_VERSIONS.contains(&&*api_version) {
        return Err(StockRecordError::Kind { kind, api_version, expected });
    }
    Ok(content)
}

/// The stock kubelet finds a record only by its name.
fn check_name(name: &str, about: &str) -> Result<(), StockRecordError> {
    if name == format!("{FILE_PREFIX}{}", hex::encode(Sha256::digest(about))) {
        return Ok(());
    }
    Err(StockRecordError::Name(about.to_owned()))
}

/// Reads the files of one directory; nothing if there is none.
fn read_all<T>(dir: &Path, parse: impl Fn(&str, &[u8]) -> Result<T, StockRecordError>) -> Vec<T> {
    let listed = fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match listed {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!(path = %dir.display(), %error, "cannot list the stock kubelet's records of pulls; continuing without");
            return Vec::new();
        }
    };
    let files = entries.into_iter().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let named = files.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let records = named.filter(|(name, _)| name.starts_with(FILE_PREFIX) && !name.ends_with(".tmp"));
    let parsed = records.filter_map(|(name, path): (String, PathBuf)| {
        let parsed = read(&path).and_then(|bytes| parse(&name, &bytes));
        let log = |error: &StockRecordError| {
            tracing::warn!(path = %path.display(), error = error_chain(error), "cannot use a record of a pull by the stock kubelet; its image counts as preloaded");
        };
        parsed.inspect_err(log).ok()
    });
    parsed.collect()
}

fn read(path: &Path) -> Result<Vec<u8>, StockRecordError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(StockRecordError::Read)?;
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(StockRecordError::Read)?;
    if bytes.len() as u64 > MAX_SIZE { Err(StockRecordError::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn name_of(about: &str) -> String {
        format!("{FILE_PREFIX}{}", hex::encode(Sha256::digest(about)))
    }

    fn record(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut record = json!({
            "kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "lastUpdatedTime": "2026-01-01T00:00:00Z", "imageRef": "sha256:1",
            "credentialMapping": {"r.io/a": {"kubernetesServiceAccounts": [{"uid": "7", "namespace": "n", "name": "a"}]}},
        });
        change(&mut record);
        record.to_string().into_bytes()
    }

    #[test]
    fn what_is_no_record_is_named() {
        let parsed = |change: &dyn Fn(&mut Value)| {
            parse_record(&name_of("sha256:1"), &record(change)).map_err(|error| error.to_string())
        };
        assert!(
            parsed(&|_| {})
                .is_ok_and(|(id, record)| id == "sha256:1" && record.credential_mapping.len() == 1)
        );
        assert!(parsed(&|record| record["apiVersion"] = json!("kubelet.config.k8s.io/v1alpha1")).is_ok());
        assert!(parsed(&|record| record["credentialMapping"] = json!({})).is_ok());
        for (change, expected) in [
            (
                &(|record: &mut Value| record["kind"] = json!("Pod")) as &dyn Fn(&mut Value),
                "it is a Pod of kubelet.config.k8s.io/v1beta1, not a ImagePulledRecord of kubelet.config.k8s.io/v1beta1",
            ),
            (
                &|record| record["apiVersion"] = json!("kubelet.config.k8s.io/v9"),
                "it is a ImagePulledRecord of kubelet.config.k8s.io/v9",
            ),
            (
                &|record| record["imageRef"] = json!("sha256:2"),
                "it is about sha256:2, for which it has the wrong name",
            ),
            (&|record| record["imageRef"] = json!(5), "invalid JSON at line 1, column "),
        ] {
            let error = parsed(change).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(parse_intent(&name_of("r.io/a:1"), b"{").is_err());
    }

    #[test]
    fn only_records_are_read() {
        let root = tempfile::tempdir().unwrap();
        assert!(StockRecords::read(root.path()).intents.is_empty(), "there are none");
        let (pulled, pulling) =
            (root.path().join("image_manager/pulled"), root.path().join("image_manager/pulling"));
        fs::create_dir_all(pulled.join(name_of("a directory"))).unwrap();
        fs::create_dir_all(&pulling).unwrap();
        let valid = record(|_| {});
        fs::write(pulled.join(name_of("sha256:1")), &valid).unwrap();
        fs::write(pulled.join(name_of("sha256:1") + ".tmp"), &valid).unwrap();
        fs::write(pulled.join("other"), &valid).unwrap();
        fs::write(pulled.join(name_of("sha256:2")), "broken").unwrap();
        fs::write(pulled.join(name_of("large")), vec![b' '; MAX_SIZE as usize + 1]).unwrap();
        let intent =
            r#"{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"busybox"}"#;
        fs::write(pulling.join(name_of("busybox")), intent).unwrap();
        let read = StockRecords::read(root.path());
        assert_eq!(read.records.keys().collect::<Vec<_>>(), ["sha256:1"]);
        assert_eq!(read.intents, ["busybox"]);
    }
}

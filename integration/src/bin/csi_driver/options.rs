//! The arguments.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: csi_driver --endpoint SOCKET --volumes DIRECTORY [OPTION...]
  --name NAME              the driver's name (csi.hostlet.test)
  --node-id ID             the identifier of the node (node-1)
  --registration SOCKET    registers there as a plugin
  --faults FILE            what goes wrong
  --journal FILE           a line of JSON for each call
  --image                  volumes are images with filesystems on loop devices, not directories
  --no-attach              volumes need not be attached by the controller
  --without CAPABILITY     has it not: STAGE_UNSTAGE_VOLUME, or Controller.EXPAND_VOLUME of one service alone
  --max-volumes COUNT      how many volumes can be attached to a node
  --topology KEY=VALUE     where the node is";

/// How the driver behaves.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) name: String,
    pub(crate) node_id: String,
    pub(crate) endpoint: PathBuf,
    pub(crate) volumes: PathBuf,
    pub(crate) registration: Option<PathBuf>,
    pub(crate) faults: Option<PathBuf>,
    pub(crate) journal: Option<PathBuf>,
    pub(crate) is_image: bool,
    pub(crate) attaches: bool,
    without: Vec<String>,
    pub(crate) max_volumes: i64,
    pub(crate) topology: BTreeMap<String, String>,
}

impl Options {
    pub(crate) fn read() -> Result<Self> {
        let mut options = Self {
            name: "csi.hostlet.test".to_owned(),
            node_id: "node-1".to_owned(),
            endpoint: PathBuf::new(),
            volumes: PathBuf::new(),
            registration: None,
            faults: None,
            journal: None,
            is_image: false,
            attaches: true,
            without: Vec::new(),
            max_volumes: 0,
            topology: BTreeMap::new(),
        };
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--image" => {
                    options.is_image = true;
                    continue;
                }
                "--no-attach" => {
                    options.attaches = false;
                    continue;
                }
                _ => {}
            }
            let value = arguments.next().with_context(|| format!("{argument} without a value\n{USAGE}"))?;
            match argument.as_str() {
                "--name" => options.name = value,
                "--node-id" => options.node_id = value,
                "--endpoint" => options.endpoint = value.into(),
                "--volumes" => options.volumes = value.into(),
                "--registration" => options.registration = Some(value.into()),
                "--faults" => options.faults = Some(value.into()),
                "--journal" => options.journal = Some(value.into()),
                "--without" => options.without.push(value),
                "--max-volumes" => options.max_volumes = value.parse().context("--max-volumes")?,
                "--topology" => {
                    let (key, value) = value.split_once('=').context("--topology KEY=VALUE")?;
                    options.topology.insert(key.to_owned(), value.to_owned());
                }
                _ => bail!("{argument} is unknown\n{USAGE}"),
            }
        }
        if options.endpoint.as_os_str().is_empty() || options.volumes.as_os_str().is_empty() {
            bail!(USAGE);
        }
        Ok(options)
    }

    /// Whether a service has a capability, by its name in the specification.
    pub(crate) fn has(&self, service: &str, capability: &str) -> bool {
        let of_service = format!("{service}.{capability}");
        !self.without.iter().any(|without| *without == capability || *without == of_service)
    }
}

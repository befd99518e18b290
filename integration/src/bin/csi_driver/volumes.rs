//! The volumes: a directory for each, with what is known of it and its data. Drivers of several nodes share them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::calls::{Failed, invalid, not_found};

/// The size of a volume that nobody asks a size for, bytes.
pub(crate) const DEFAULT_SIZE: u64 = 64 << 20;

/// What is known of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    /// As which it was created.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) size: u64,
    /// Whether it is an image, not a directory.
    pub(crate) is_image: bool,
    /// The nodes that it is attached to, and whether it can only be read there.
    pub(crate) attached: BTreeMap<String, bool>,
}

/// All volumes.
pub(crate) struct Volumes {
    dir: PathBuf,
    /// Held while volumes are changed.
    changing: Mutex<()>,
}

impl Volumes {
    /// The volumes in a directory, which need not exist.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        for part in ["volumes", "nodes"] {
            fs::create_dir_all(dir.join(part)).with_context(|| format!("creating {}", dir.display()))?;
        }
        Ok(Self { dir: dir.to_owned(), changing: Mutex::default() })
    }

    /// A node has a driver.
    pub(crate) fn add_node(&self, node: &str) -> Result<()> {
        let file = File::options().create(true).append(true).open(self.node_file(node));
        file.context("noting a node").map(drop)
    }

    pub(crate) fn has_node(&self, node: &str) -> bool {
        !node.contains('/') && self.node_file(node).exists()
    }

    /// A file for what is known of a node.
    pub(crate) fn node_file(&self, node: &str) -> PathBuf {
        self.dir.join("nodes").join(node)
    }

    fn volume_dir(&self, id: &str) -> PathBuf {
        self.dir.join("volumes").join(id)
    }

    /// Where the data of a volume is: a directory, or an image.
    pub(crate) fn data(&self, volume: &Volume) -> PathBuf {
        self.volume_dir(&volume.id).join(if volume.is_image { "image" } else { "data" })
    }

    /// A volume that exists.
    pub(crate) fn get(&self, id: &str) -> Result<Volume, Failed> {
        self.find(id)?.ok_or_else(|| not_found(&format!("there is no volume {id}")))
    }

    fn find(&self, id: &str) -> Result<Option<Volume>> {
        if !is_safe(id) {
            return Ok(None);
        }
        match fs::read(self.volume_dir(id).join("volume.json")) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).context("a broken volume")?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("reading a volume"),
        }
    }

    /// All volumes.
    pub(crate) fn all(&self) -> Result<Vec<Volume>> {
        let mut volumes = Vec::new();
        for entry in fs::read_dir(self.dir.join("volumes")).context("listing the volumes")? {
            volumes.extend(self.find(&entry?.file_name().to_string_lossy())?);
        }
        Ok(volumes)
    }

    /// Creates a volume, unless there is one of this name.
    pub(crate) fn create(&self, name: &str, size: u64, is_image: bool) -> Result<Volume, Failed> {
        let _changing = self.changing.lock();
        if let Some(known) = self.all()?.into_iter().find(|volume| volume.name == name) {
            return Ok(known);
        }
        let id = format!("vol-{:016x}", rand::random::<u64>());
        Ok(self.make(&id, name, size, is_image)?)
    }

    /// The volume with this identifier, which is created if it does not exist.
    pub(crate) fn ensure(&self, id: &str, is_image: bool) -> Result<Volume, Failed> {
        let _changing = self.changing.lock();
        if !is_safe(id) {
            return Err(invalid("a volume's identifier has letters, digits, -, _ and dots"));
        }
        match self.find(id)? {
            Some(known) => Ok(known),
            None => Ok(self.make(id, id, DEFAULT_SIZE, is_image)?),
        }
    }

    fn make(&self, id: &str, name: &str, size: u64, is_image: bool) -> Result<Volume> {
        let (id, name) = (id.to_owned(), name.to_owned());
        let volume = Volume { id, name, size, is_image, attached: BTreeMap::new() };
        fs::create_dir_all(self.volume_dir(&volume.id)).context("creating a volume")?;
        if is_image {
            File::create(self.data(&volume))
                .and_then(|image| image.set_len(size))
                .context("creating an image")?;
        } else {
            fs::create_dir_all(self.data(&volume)).context("creating a volume's data")?;
        }
        self.write(&volume)?;
        Ok(volume)
    }

    fn write(&self, volume: &Volume) -> Result<()> {
        let dir = self.volume_dir(&volume.id);
        let (new, file) = (dir.join("volume.new"), dir.join("volume.json"));
        fs::write(&new, serde_json::to_vec(volume)?).context("writing a volume")?;
        fs::rename(new, file).context("writing a volume")
    }

    /// Changes a volume.
    pub(crate) fn change<T>(
        &self,
        id: &str,
        work: impl FnOnce(&mut Volume) -> Result<T, Failed>,
    ) -> Result<T, Failed> {
        let _changing = self.changing.lock();
        let mut volume = self.get(id)?;
        let result = work(&mut volume)?;
        self.write(&volume)?;
        Ok(result)
    }

    /// Grows a volume to a size, bytes. Returns the size now.
    pub(crate) fn grow(&self, id: &str, size: u64) -> Result<u64, Failed> {
        self.change(id, |volume| {
            volume.size = volume.size.max(size);
            if volume.is_image {
                let image =
                    File::options().write(true).open(self.data(volume)).context("opening an image")?;
                image.set_len(volume.size).context("growing an image")?;
            }
            Ok(volume.size)
        })
    }

    /// Deletes a volume, if it exists.
    pub(crate) fn delete(&self, id: &str) -> Result<(), Failed> {
        let _changing = self.changing.lock();
        if self.find(id)?.is_some() {
            fs::remove_dir_all(self.volume_dir(id)).context("deleting a volume")?;
        }
        Ok(())
    }
}

/// Whether this is the name of a file, and nothing else.
fn is_safe(id: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !id.is_empty() && id.len() <= 200 && !id.starts_with('.') && id.chars().all(is_legal)
}

//! Plans an import: which blobs, which references between them, and which names. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use hostlet_base::ImageReference;
use hostlet_base::json;
use serde::de::DeserializeOwned;

use super::archive::{Found, Survey};
use super::media::{
    DOCKER_CONFIG, DOCKER_LAYER, DOCKER_LAYER_GZIP, DOCKER_MANIFEST, Descriptor, DockerImage, Index, Layout,
    Manifest, Platform, Shape,
};
use super::target::Target;
use super::{Digest, PlanError};

/// Labels by which containerd's garbage collector follows references; the keys are also used by containerd's own importer.
const CONFIG_LABEL: &str = "containerd.io/gc.ref.content.config";
const LAYER_LABEL: &str = "containerd.io/gc.ref.content.l.";
const MANIFEST_LABEL: &str = "containerd.io/gc.ref.content.m.";
/// Annotation with an image's name, as written by containerd and BuildKit.
const NAME_ANNOTATION: &str = "io.containerd.image.name";
/// Annotation with an image's name by the OCI image-spec. It may be a bare tag, which names no image.
const REF_NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";
/// Maximum nesting of indexes.
const DEPTH_MOST: usize = 4;

/// The planned import.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Referenced blobs come before the blobs that refer to them.
    pub(super) blobs: Vec<PlannedBlob>,
    pub(super) images: Vec<PlannedImage>,
}

/// A blob of the plan.
#[derive(Debug)]
pub(super) struct PlannedBlob {
    pub(super) digest: Digest,
    /// Length in bytes.
    pub(super) size: u64,
    pub(super) content: Content,
    /// Labels for containerd's garbage collector.
    pub(super) labels: BTreeMap<String, String>,
}

/// The location of a blob's content.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory.
    Known(Bytes),
    /// In a file of the archive.
    File(String),
}

/// An image of the plan.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlannedImage {
    /// The names of its records: its ID, its name with tag (if it has one), and its name with digest.
    pub(super) records: Vec<String>,
    pub(super) target: Target,
}

/// Plans the import of an archive for Linux on `architecture` (OCI name).
pub(super) fn plan(survey: &Survey, architecture: &str) -> Result<Plan, PlanError> {
    let mut planner = Planner {
        survey,
        by_digest: survey.by_digest(),
        architecture,
        plan: Plan::default(),
        known: HashMap::new(),
        foreign: BTreeSet::new(),
    };
    // The OCI layout wins, as in containerd: newer versions of `docker save` write both.
    let found = match (survey.find("oci-layout"), survey.find("manifest.json")) {
        (Some(_), _) => planner.oci()?,
        (None, Some(_)) => planner.docker()?,
        (None, None) => return Err(PlanError::NoLayout),
    };
    if !planner.plan.images.is_empty() {
        return Ok(planner.plan);
    }
    Err(match found {
        NoImage::Unnamed => PlanError::NoName,
        NoImage::Foreign => PlanError::OtherPlatform {
            host: architecture.to_owned(),
            found: planner.foreign.into_iter().collect::<Vec<_>>().join(", "),
        },
    })
}

/// Why an archive gives no image.
enum NoImage {
    /// None of the images has a name.
    Unnamed,
    /// A named image is for another platform.
    Foreign,
}

struct Planner<'s> {
    survey: &'s Survey,
    by_digest: BTreeMap<&'s Digest, (&'s str, &'s Found)>,
    architecture: &'s str,
    plan: Plan,
    /// Descriptors planned so far, with the configuration of their image; `None` if it is for another platform.
    known: HashMap<Digest, Option<Digest>>,
    /// The other platforms that the archive has images for.
    foreign: BTreeSet<String>,
}

impl Planner<'_> {
    fn oci(&mut self) -> Result<NoImage, PlanError> {
        let layout: Layout = self.file("oci-layout")?;
        if layout.image_layout_version != "1.0.0" {
            return Err(PlanError::LayoutVersion(layout.image_layout_version));
        }
        let index: Index = self.file("index.json")?;
        let mut seen = NoImage::Unnamed;
        for root in &index.manifests {
            let Some(name) = root.annotations.as_ref().and_then(name_of) else { continue };
            let name = Name::parse(name)?;
            match self.add(root, 0)? {
                Some(config) => self.add_image(&name, root, &config)?,
                None => seen = NoImage::Foreign,
            }
        }
        Ok(seen)
    }

    fn docker(&mut self) -> Result<NoImage, PlanError> {
        let images: Vec<DockerImage> = self.file("manifest.json")?;
        let mut seen = NoImage::Unnamed;
        for image in &images {
            let tags = image.repo_tags.as_deref().unwrap_or_default();
            if tags.is_empty() {
                continue;
            }
            let (name, found) = self.found(&image.config)?;
            if !self.fits(name, found)? {
                seen = NoImage::Foreign;
                continue;
            }
            let root = self.add_docker_image(image)?;
            for tag in tags {
                let config = self.found(&image.config)?.1.digest.clone();
                self.add_image(&Name::parse(tag)?, &root, &config)?;
            }
        }
        Ok(seen)
    }

    /// Plans an image from `docker save`, which has no manifest: generates the same one as containerd does.
    fn add_docker_image(&mut self, image: &DockerImage) -> Result<Descriptor, PlanError> {
        let config = self.docker_blob(&image.config, |_| DOCKER_CONFIG)?;
        let mut layers = Vec::new();
        for layer in image.layers.iter().flatten() {
            let media = |found: &Found| if found.is_gzip { DOCKER_LAYER_GZIP } else { DOCKER_LAYER };
            layers.push(self.docker_blob(layer, media)?);
        }
        let manifest = Manifest { schema_version: 2, media_type: DOCKER_MANIFEST.to_owned(), config, layers };
        let content = serde_json::to_vec(&manifest)
            .map_err(|source| PlanError::Document { name: "manifest.json".to_owned(), source })?;
        let (digest, size) = (Digest::of(&content), content.len() as u64);
        let config = Digest::parse(&manifest.config.digest);
        if self.known.insert(digest.clone(), config).is_none() {
            self.plan.blobs.push(PlannedBlob {
                digest: digest.clone(),
                size,
                content: Content::Known(content.into()),
                labels: labels(&manifest),
            });
        }
        Ok(Descriptor {
            media_type: manifest.media_type,
            digest: digest.to_string(),
            size,
            ..Descriptor::default()
        })
    }

    fn docker_blob(
        &mut self,
        file: &str,
        media_type: impl Fn(&Found) -> &'static str,
    ) -> Result<Descriptor, PlanError> {
        let (name, found) = self.found(file)?;
        let descriptor = Descriptor {
            media_type: media_type(found).to_owned(),
            digest: found.digest.to_string(),
            size: found.size,
            ..Descriptor::default()
        };
        self.push(name, found, BTreeMap::new());
        Ok(descriptor)
    }

    fn add_image(&mut self, name: &Name, root: &Descriptor, config: &Digest) -> Result<(), PlanError> {
        let digest = digest(&root.digest)?;
        let mut records = vec![config.to_string()];
        records.extend(name.tagged.clone());
        records.push(format!("{}@{digest}", name.repository));
        let target = Target { media_type: root.media_type.clone(), digest, size: root.size };
        self.plan.images.push(PlannedImage { records, target });
        Ok(())
    }

    /// Plans a descriptor's target for this platform. Returns the image's configuration; `None` if there is no image for
    /// this platform.
    fn add(&mut self, descriptor: &Descriptor, depth: usize) -> Result<Option<Digest>, PlanError> {
        if let Some(platform) =
            descriptor.platform.as_ref().filter(|platform| !platform.fits(self.architecture))
        {
            self.foreign.insert(platform.to_string());
            return Ok(None);
        }
        let digest = digest(&descriptor.digest)?;
        if let Some(known) = self.known.get(&digest) {
            return Ok(known.clone());
        }
        let config = match Shape::of(&descriptor.media_type) {
            Shape::Manifest => self.add_manifest(descriptor)?,
            Shape::Index if depth == DEPTH_MOST => return Err(PlanError::TooDeep),
            Shape::Index => self.add_index(descriptor, depth)?,
            Shape::Other => return Err(PlanError::NotAnImage(descriptor.media_type.clone())),
        };
        self.known.insert(digest, config.clone());
        Ok(config)
    }

    fn add_index(&mut self, descriptor: &Descriptor, depth: usize) -> Result<Option<Digest>, PlanError> {
        let (name, found) = self.blob(descriptor)?;
        let index: Index = document(name, found)?;
        let (mut config, mut labels) = (None, BTreeMap::new());
        for child in &index.manifests {
            if Shape::of(&child.media_type) == Shape::Other {
                continue;
            }
            if let Some(own) = self.add(child, depth + 1)? {
                labels.insert(format!("{MANIFEST_LABEL}{}", labels.len()), child.digest.clone());
                config.get_or_insert(own);
            }
        }
        if config.is_some() {
            self.push(name, found, labels);
        }
        Ok(config)
    }

    fn add_manifest(&mut self, descriptor: &Descriptor) -> Result<Option<Digest>, PlanError> {
        let (name, found) = self.blob(descriptor)?;
        let manifest: Manifest = document(name, found)?;
        let (config_name, config) = self.blob(&manifest.config)?;
        if !self.fits(config_name, config)? {
            return Ok(None);
        }
        for layer in &manifest.layers {
            let (name, found) = self.blob(layer)?;
            self.push(name, found, BTreeMap::new());
        }
        self.push(config_name, config, BTreeMap::new());
        self.push(name, found, labels(&manifest));
        Ok(Some(config.digest.clone()))
    }

    /// Whether an image's configuration is for this platform. One without a platform, or too large to read, is.
    fn fits(&mut self, name: &str, config: &Found) -> Result<bool, PlanError> {
        if config.content.is_none() {
            return Ok(true);
        }
        let platform: Platform = document(name, config)?;
        let fits = platform.fits(self.architecture);
        if !fits {
            self.foreign.insert(platform.to_string());
        }
        Ok(fits)
    }

    fn push(&mut self, name: &str, found: &Found, labels: BTreeMap<String, String>) {
        let config = self.known.entry(found.digest.clone());
        if let std::collections::hash_map::Entry::Vacant(unknown) = config {
            unknown.insert(None);
            let content = match &found.content {
                Some(content) => Content::Known(content.clone()),
                None => Content::File(name.to_owned()),
            };
            let digest = found.digest.clone();
            self.plan.blobs.push(PlannedBlob { digest, size: found.size, content, labels });
        }
    }

    /// Parses the document in a file of the archive.
    fn file<T: DeserializeOwned>(&self, name: &str) -> Result<T, PlanError> {
        let (name, found) = self.found(name)?;
        document(name, found)
    }
}

impl<'s> Planner<'s> {
    fn found(&self, name: &str) -> Result<(&'s str, &'s Found), PlanError> {
        self.survey.find(name).ok_or_else(|| PlanError::Missing(name.to_owned()))
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<(&'s str, &'s Found), PlanError> {
        let digest = digest(&descriptor.digest)?;
        let missing = || PlanError::Missing(digest.to_string());
        let (name, found) = *self.by_digest.get(&digest).ok_or_else(missing)?;
        if found.size != descriptor.size {
            return Err(PlanError::Size(digest.to_string()));
        }
        Ok((name, found))
    }
}

fn digest(text: &str) -> Result<Digest, PlanError> {
    Digest::parse(text).ok_or_else(|| PlanError::Digest(text.to_owned()))
}

fn document<T: DeserializeOwned>(name: &str, found: &Found) -> Result<T, PlanError> {
    let content = found.content.as_ref().ok_or_else(|| PlanError::NoDocument(name.to_owned()))?;
    json::from_slice(content).map_err(|source| PlanError::Document { name: name.to_owned(), source })
}

/// A manifest's references, as labels for containerd's garbage collector.
fn labels(manifest: &Manifest) -> BTreeMap<String, String> {
    let layers = manifest.layers.iter().enumerate();
    let layers = layers.map(|(at, layer)| (format!("{LAYER_LABEL}{at}"), layer.digest.clone()));
    let config = (CONFIG_LABEL.to_owned(), manifest.config.digest.clone());
    std::iter::once(config).chain(layers).collect()
}

fn name_of(annotations: &BTreeMap<String, String>) -> Option<&str> {
    let annotation = |key| annotations.get(key).map(String::as_str).filter(|name| !name.is_empty());
    let by_spec = || annotation(REF_NAME_ANNOTATION).filter(|name| name.contains([':', '/', '@']));
    annotation(NAME_ANNOTATION).or_else(by_spec)
}

/// An image's name as containerd stores it.
struct Name {
    repository: String,
    tagged: Option<String>,
}

impl Name {
    fn parse(name: &str) -> Result<Self, PlanError> {
        let reference = ImageReference::parse(name)
            .map_err(|source| PlanError::Name { name: name.to_owned(), source })?;
        let tagged = match (reference.tag, reference.digest) {
            (Some(tag), _) => Some(format!("{}:{tag}", reference.name)),
            (None, None) => Some(format!("{}:latest", reference.name)),
            (None, Some(_)) => None,
        };
        Ok(Self { repository: reference.name, tagged })
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;

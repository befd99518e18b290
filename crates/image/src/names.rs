//! Names of images as runtimes list them. Pure.

use hostlet_base::ImageReference;

/// The fully qualified name with its digest, or else its tag, as runtimes list it. Empty for what is no reference.
pub(crate) fn qualified(image: &str) -> String {
    match ImageReference::parse(image) {
        Ok(ImageReference { name, digest: Some(digest), .. }) => format!("{name}@{digest}"),
        Ok(ImageReference { name, tag, digest: None }) => format!("{name}:{}", tag.unwrap_or("latest")),
        Err(_) => String::new(),
    }
}

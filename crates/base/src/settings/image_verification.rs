//! For which images pods need credentials of their own. `image` applies it.

/// Which present images a pod may use only with credentials that are accepted for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageVerification {
    /// There is no verification: the feature gate is off.
    Disabled,
    /// No image.
    Never,
    /// Images that this node has pulled.
    ExceptPreloaded,
    /// All images except these: names without tag and digest, or prefixes followed by `/*` (`preloadedImagesVerificationAllowlist`).
    ExceptAllowlisted(Vec<String>),
    /// All images.
    Always,
}

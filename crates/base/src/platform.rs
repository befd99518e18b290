//! The Kubernetes version and architecture of this program.

/// The reported kubelet version. Clients compare it with the API server's: a kubelet may be up to three minor versions older, and
/// not newer (<https://kubernetes.io/releases/version-skew-policy/>).
pub const KUBERNETES_VERSION: &str = "v1.37.2";

/// The host's architecture in Go's notation, used by Kubernetes and OCI images.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

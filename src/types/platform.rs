//! What this program is built for and acts as, in the words of Kubernetes.

/// The version of Kubernetes whose kubelet this one acts as. Others compare it with the API server's: a kubelet may be up
/// to three minor versions older, and not newer (<https://kubernetes.io/releases/version-skew-policy/>).
pub const KUBERNETES_VERSION: &str = "v1.37.2";

/// The architecture of this host as Go names it, and with it Kubernetes and OCI images.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

//! Settings of the node's API: where it listens, its certificate, and who may use it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::breach::Breach;
use super::defaults::Membership;
use super::endpoints::Endpoints;
use super::flags::ProcessFlags;
use super::hostlet::HostletConfiguration;
use super::values::{path, time};
use super::wire::{AuthorizationMode, KubeletConfiguration, TlsVersion};

/// The names that Go has for cipher suites (`crypto/tls`), with those that Kubernetes keeps.
const CIPHER_SUITES: [&str; 27] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// The node's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeApi {
    /// Where it listens; `None` if it is off (`enableServer`, `address`, `port`).
    pub listen: Option<SocketAddr>,
    /// Where everybody may read without TLS and credentials; `None` if that is off (`address`, `readOnlyPort`).
    pub read_only: Option<SocketAddr>,
    /// Where its serving certificate comes from.
    pub certificate: ServingCertificate,
    /// Directory of certificates (`--cert-dir`).
    pub cert_dir: PathBuf,
    /// Whether TLS 1.2 is too old (`tlsMinVersion`).
    pub needs_tls_1_3: bool,
    /// Permitted cipher suites of TLS 1.2, by Go's names; empty for all (`tlsCipherSuites`).
    pub cipher_suites: Vec<String>,
    /// Permitted groups for the key exchange, by IANA's numbers; empty for all (`tlsCurvePreferences`).
    pub groups: Vec<u16>,
    /// File of the authorities for client certificates (`authentication.x509.clientCAFile`).
    pub client_ca_file: Option<PathBuf>,
    /// How long the API server's answers about bearer tokens are kept; `None` if tokens are not accepted
    /// (`authentication.webhook.enabled`, `cacheTTL`).
    pub tokens: Option<Duration>,
    /// Whether requests without credentials are accepted (`authentication.anonymous.enabled`).
    pub is_anonymous_permitted: bool,
    /// How long the API server's permissions and refusals are kept; `None` if everybody may do everything (`authorization.mode`,
    /// `authorization.webhook`).
    pub authorization: Option<(Duration, Duration)>,
    /// Whether a stream over WebSocket needs only the verb `get`, as with the stock kubelet (`streamsNeedGetOnly` of
    /// HostletConfiguration).
    pub streams_need_get_only: bool,
    /// Whether there are the endpoints for commands, logs and the like (`enableDebuggingHandlers`).
    pub has_debugging: bool,
    /// Which of them there are.
    pub endpoints: Endpoints,
    /// How long nothing may pass through a stream (`streamingConnectionIdleTimeout`).
    pub streaming_idle: Duration,
}

/// Where the certificate of the node's API comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServingCertificate {
    /// Files (`tlsCertFile`, `tlsPrivateKeyFile`).
    Files(CertificateFiles),
    /// The cluster, and until then the files, if any (`serverTLSBootstrap`).
    Cluster(Option<CertificateFiles>),
    /// hostlet, which signs it itself.
    SelfSigned,
}

/// A certificate with its intermediates, and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// File of the certificate, followed by its intermediates (`tlsCertFile`).
    pub certificate: PathBuf,
    /// File of the private key (`tlsPrivateKeyFile`).
    pub key: PathBuf,
}

impl NodeApi {
    pub(super) fn new(
        kubelet: &KubeletConfiguration,
        hostlet: &HostletConfiguration,
        flags: &ProcessFlags,
    ) -> Self {
        let on = |port: Option<i32>| {
            let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0)?;
            Some(SocketAddr::new(kubelet.address?, port))
        };
        let files = path(&kubelet.tls_cert_file).zip(path(&kubelet.tls_private_key_file));
        let files = files.map(|(certificate, key)| CertificateFiles { certificate, key });
        let (authentication, authorization) = (&kubelet.authentication, &kubelet.authorization);
        let groups = kubelet.tls_curve_preferences.iter().flatten();
        Self {
            listen: on(kubelet.port).filter(|_| kubelet.enable_server.unwrap_or_default()),
            read_only: on(kubelet.read_only_port),
            certificate: match (kubelet.server_tls_bootstrap.unwrap_or_default(), files) {
                (true, files) => ServingCertificate::Cluster(files),
                (false, Some(files)) => ServingCertificate::Files(files),
                (false, None) => ServingCertificate::SelfSigned,
            },
            cert_dir: flags.cert_dir.clone(),
            needs_tls_1_3: kubelet.tls_min_version == Some(TlsVersion::VersionTLS13),
            cipher_suites: kubelet.tls_cipher_suites.clone().unwrap_or_default(),
            groups: groups.filter_map(|group| u16::try_from(*group).ok()).collect(),
            client_ca_file: path(&authentication.x509.client_ca_file),
            tokens: authentication
                .webhook
                .enabled
                .unwrap_or_default()
                .then(|| time(authentication.webhook.cache_ttl)),
            is_anonymous_permitted: authentication.anonymous.enabled.unwrap_or_default(),
            authorization: match authorization.mode {
                Some(AuthorizationMode::AlwaysAllow) => None,
                Some(AuthorizationMode::Webhook) | None => Some((
                    time(authorization.webhook.cache_authorized_ttl),
                    time(authorization.webhook.cache_unauthorized_ttl),
                )),
            },
            streams_need_get_only: hostlet.streams_need_get_only.unwrap_or_default(),
            has_debugging: kubelet.enable_debugging_handlers.unwrap_or_default(),
            endpoints: Endpoints::new(kubelet),
            streaming_idle: time(kubelet.streaming_connection_idle_timeout),
        }
    }
}

/// Violations of rules by settings of the node's API.
pub(super) fn breaches(kubelet: &KubeletConfiguration, membership: Membership) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut add = |path: &str, message: String| breaches.push((path.to_owned(), message));
    let (certificate, key) = (path(&kubelet.tls_cert_file), path(&kubelet.tls_private_key_file));
    match (&certificate, &key) {
        (Some(_), None) => add("tlsCertFile", "needs tlsPrivateKeyFile".to_owned()),
        (None, Some(_)) => add("tlsPrivateKeyFile", "needs tlsCertFile".to_owned()),
        (Some(_), Some(_)) | (None, None) => {}
    }
    for name in kubelet.tls_cipher_suites.iter().flatten() {
        if !CIPHER_SUITES.contains(&name.as_str()) {
            add("tlsCipherSuites", format!("{name:?} is no cipher suite that Go knows"));
        }
    }
    let mut seen = BTreeSet::new();
    for group in kubelet.tls_curve_preferences.iter().flatten() {
        if !(1..=i32::from(u16::MAX)).contains(group) {
            add("tlsCurvePreferences", format!("{group} must be between 1 and {}", u16::MAX));
        } else if !seen.insert(group) {
            add("tlsCurvePreferences", format!("{group} is listed twice"));
        }
    }
    if membership == Membership::Alone && kubelet.enable_server == Some(true) {
        let needs = |what: &str, instead: &str| {
            format!(
                "this node is standalone, without an API server {what}; {instead}, or join a cluster (--kubeconfig)"
            )
        };
        if kubelet.authentication.webhook.enabled == Some(true) {
            add(
                "authentication.webhook.enabled",
                needs("that knows bearer tokens", "set authentication.webhook.enabled: false"),
            );
        }
        if kubelet.authorization.mode == Some(AuthorizationMode::Webhook) {
            add("authorization.mode", needs("that decides", "set authorization.mode: AlwaysAllow"));
        }
        if kubelet.server_tls_bootstrap == Some(true) {
            add(
                "serverTLSBootstrap",
                needs("to request a certificate from", "set tlsCertFile and tlsPrivateKeyFile"),
            );
        }
    }
    breaches
}

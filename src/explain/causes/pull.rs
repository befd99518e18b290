//! What keeps an image from being pulled, in the words of containerd and of registries.

use super::rule::{Rule, rule};

const NAME: &str = "check name and tag in spec.containers[].image; a digest must be of this very repository";
const CREDENTIALS: &str = "check the name in spec.containers[].image; for a private registry give containerd credentials \
     (registry.configs in /etc/containerd/config.toml)";
const NETWORK: &str = "check the registry's name and port in spec.containers[].image, and this host's network, firewall and \
     proxy (HTTPS_PROXY of the service containerd)";
const LATER: &str = "wait, or see how the registry fares; hostlet tries again by itself";
const DAMAGED: &str = "push the image to its registry again, or take another tag; if it is pulled through a mirror or proxy, see \
     what that one serves";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["pull qps exceeded"],
        "this node asks registries too often",
        "wait, or raise registryPullQPS and registryBurst in the configuration",
    ),
    rule(
        &["no space left on device"],
        "a disk of this host is full",
        "make room where the container runtime keeps images (df -h /var/lib/containerd)",
    ),
    rule(
        &["no such host"],
        "the name of its registry is not known to DNS",
        "check the registry's name in spec.containers[].image, and this host's DNS (/etc/resolv.conf)",
    ),
    rule(
        &["lookup "],
        "this host's DNS does not answer",
        "check this host's DNS (/etc/resolv.conf, resolvectl status), and the registry's name in spec.containers[].image",
    ),
    rule(
        &["proxyconnect"],
        "the proxy does not answer",
        "check HTTPS_PROXY and NO_PROXY of the service containerd",
    ),
    rule(&["connection refused"], "nothing answers where its registry should be", NETWORK),
    rule(&["no route to host"], "its registry cannot be reached from this host", NETWORK),
    rule(&["network is unreachable"], "its registry cannot be reached from this host", NETWORK),
    rule(&["i/o timeout"], "its registry does not answer", NETWORK),
    rule(&["tls handshake timeout"], "its registry does not answer", NETWORK),
    rule(&["connection reset"], "the connection to its registry was cut", NETWORK),
    rule(
        &["certificate signed by unknown authority"],
        "nobody this host trusts vouches for its registry's certificate",
        "give containerd the certificate: /etc/containerd/certs.d/REGISTRY/hosts.toml with ca, or add it to the host's own \
         (update-ca-certificates), and restart containerd",
    ),
    rule(
        &["certificate has expired or is not yet valid"],
        "its registry's certificate is not valid at this time",
        "check this host's clock (date), and renew the registry's certificate",
    ),
    rule(
        &["certificate is valid for"],
        "its registry's certificate is for another name",
        "name the registry in spec.containers[].image as its certificate does",
    ),
    rule(
        &["x509"],
        "its registry's certificate is not accepted",
        "correct the registry's certificate, or give containerd the authority it is from: \
         /etc/containerd/certs.d/REGISTRY/hosts.toml with ca",
    ),
    rule(
        &["first record does not look like a tls handshake"],
        "its registry speaks plain HTTP, and containerd expects TLS",
        "give the registry a certificate, or permit plain HTTP: /etc/containerd/certs.d/REGISTRY/hosts.toml with \
         server = \"http://REGISTRY\"",
    ),
    rule(
        &["http response to https client"],
        "its registry speaks plain HTTP, and containerd expects TLS",
        "give the registry a certificate, or permit plain HTTP: /etc/containerd/certs.d/REGISTRY/hosts.toml with \
         server = \"http://REGISTRY\"",
    ),
    rule(&["tls: "], "the encrypted connection to its registry cannot be made", NETWORK),
    rule(
        &["429 too many requests"],
        "its registry is asked too often from this address (a rate limit)",
        "wait, log in to the registry with credentials for containerd, or use a mirror",
    ),
    rule(
        &["toomanyrequests"],
        "its registry is asked too often from this address (a rate limit)",
        "wait, log in to the registry with credentials for containerd, or use a mirror",
    ),
    rule(
        &["no basic auth credentials"],
        "its registry asks for credentials, and containerd has none",
        CREDENTIALS,
    ),
    rule(
        &["401 unauthorized"],
        "its registry asks for credentials, or does not accept those it got",
        CREDENTIALS,
    ),
    rule(
        &["unauthorized"],
        "its registry asks for credentials, or does not accept those it got",
        CREDENTIALS,
    ),
    rule(&["403 forbidden"], "its registry denies access to it, or has no such repository", CREDENTIALS),
    rule(&["access denied"], "its registry denies access to it, or has no such repository", CREDENTIALS),
    rule(
        &["authorization failed"],
        "its registry asks for credentials, or does not accept those it got",
        CREDENTIALS,
    ),
    rule(&["500 internal server error"], "its registry fails (500)", LATER),
    rule(&["502 bad gateway"], "its registry is not up behind its proxy (502)", LATER),
    rule(&["503 service unavailable"], "its registry is not available at the moment (503)", LATER),
    rule(&["504 gateway time"], "its registry is too slow behind its proxy (504)", LATER),
    rule(
        &["no match for platform"],
        "it is not made for this machine's architecture",
        "use an image for this machine (uname -m), or build it for several architectures",
    ),
    rule(
        &["schema 1 image manifests are no longer supported"],
        "it is of a format that containerd does not read any more (Docker schema 1)",
        "push it again with a tool of this decade",
    ),
    rule(
        &["no signatures"],
        "it is of a format that containerd hardly reads any more (Docker schema 1)",
        "push it again with a tool of this decade",
    ),
    rule(
        &["could not fetch content descriptor", "text/html"],
        "what answers is no registry of images",
        "check the registry's name in spec.containers[].image; a web page answers there, perhaps a proxy's or a log-in page",
    ),
    rule(&["could not fetch content descriptor", "not found"], "its registry lacks a part of it", DAMAGED),
    rule(&["content at", "not found"], "its registry lacks a part of it", DAMAGED),
    rule(&["unexpected commit digest"], "its registry sent something else than was asked for", DAMAGED),
    rule(&["unexpected commit size"], "its registry sent something else than was asked for", DAMAGED),
    rule(&["failed to extract layer"], "a part of it is damaged, or not packed as it says", DAMAGED),
    rule(&["unexpected end of json input"], "its registry's answer breaks off", DAMAGED),
    rule(&["invalid character"], "its registry's answer makes no sense", DAMAGED),
    rule(&["unexpected eof"], "the connection to its registry broke off", LATER),
    rule(
        &["unsupported media type"],
        "it is of a kind that is no container image",
        "check name and tag in spec.containers[].image: other things than images (charts, signatures) are kept in registries too",
    ),
    rule(&["manifest unknown"], "its registry does not have it", NAME),
    rule(&["name unknown"], "its registry does not have it", NAME),
    rule(&["not found"], "its registry does not have it", NAME),
    rule(
        &["unexpected status"],
        "what answers does not behave as a registry",
        "check the registry's name and port in spec.containers[].image",
    ),
    rule(
        &["failed with status code"],
        "what answers does not behave as a registry",
        "check the registry's name and port in spec.containers[].image",
    ),
    rule(&["context deadline exceeded"], "its registry takes too long", NETWORK),
    rule(
        &[": no answer within"],
        "it takes too long",
        "see how fast the registry answers from this host; hostlet tries again, and what has arrived is kept",
    ),
    rule(&["canceled"], "the pull was broken off", LATER),
];

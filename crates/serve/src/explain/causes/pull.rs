//! Causes of failed image pulls, from messages of containerd and registries.

use hostlet_base::causes::{Rule, rule};

const NAME: &str = "check the name and tag in spec.containers[].image; a digest must be from this repository";
const CREDENTIALS: &str = "check the name in spec.containers[].image; for a private registry name a Secret of type \
     kubernetes.io/dockerconfigjson in imagePullSecrets, or give this node credentials (config.json in hostlet's root directory)";
const NETWORK: &str = "check the registry's name and port in spec.containers[].image, and this host's network, firewall and \
     proxy (HTTPS_PROXY of the containerd service)";
const LATER: &str = "wait, or check the registry's state; hostlet retries automatically";
const DAMAGED: &str = "push the image to its registry again, or use another tag; if it is pulled through a mirror or proxy, check what that serves";

pub(super) const RULES: &[Rule] = &[
    rule(
        &["pull qps exceeded"],
        "this node reached its own limit on pulls",
        "wait, or raise registryPullQPS and registryBurst in the configuration",
    ),
    rule(
        &["image pull secret"],
        "a Secret in imagePullSecrets has no valid registry credentials",
        "create it again with the right content (kubectl create secret docker-registry); hostlet retries automatically",
    ),
    rule(
        &["no space left on device"],
        "a disk of this host is full",
        "free space where the container runtime stores images (df -h /var/lib/containerd)",
    ),
    rule(
        &["no such host"],
        "the name of its registry cannot be resolved",
        "check the registry's name in spec.containers[].image, and this host's DNS (/etc/resolv.conf)",
    ),
    rule(
        &["lookup "],
        "this host's DNS does not answer",
        "check this host's DNS (/etc/resolv.conf, resolvectl status), and the registry's name in \
         spec.containers[].image",
    ),
    rule(
        &["proxyconnect"],
        "the proxy does not answer",
        "check HTTPS_PROXY and NO_PROXY of the containerd service",
    ),
    rule(&["connection refused"], "nothing listens at its registry's address", NETWORK),
    rule(&["no route to host"], "its registry cannot be reached from this host", NETWORK),
    rule(&["network is unreachable"], "its registry cannot be reached from this host", NETWORK),
    rule(&["i/o timeout"], "its registry does not answer", NETWORK),
    rule(&["tls handshake timeout"], "its registry does not answer", NETWORK),
    rule(&["connection reset"], "the connection to its registry was reset", NETWORK),
    rule(
        &["certificate signed by unknown authority"],
        "its registry's certificate is from an authority that this host does not trust",
        "give containerd the certificate: /etc/containerd/certs.d/REGISTRY/hosts.toml with ca, or add it to the \
         host's own \
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
        "use the name in the certificate for the registry in spec.containers[].image",
    ),
    rule(
        &["x509"],
        "its registry's certificate is not accepted",
        "correct the registry's certificate, or give containerd its certificate authority: \
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
    rule(&["tls: "], "the TLS connection to its registry cannot be established", NETWORK),
    rule(
        &["429 too many requests"],
        "its registry limits the rate of requests from this address",
        "wait, log in to the registry (imagePullSecrets), or use a mirror",
    ),
    rule(
        &["toomanyrequests"],
        "its registry limits the rate of requests from this address",
        "wait, log in to the registry (imagePullSecrets), or use a mirror",
    ),
    rule(
        &["no basic auth credentials"],
        "its registry requires credentials, and there are none",
        CREDENTIALS,
    ),
    rule(&["401 unauthorized"], "its registry requires credentials, or rejected those it got", CREDENTIALS),
    rule(&["unauthorized"], "its registry requires credentials, or rejected those it got", CREDENTIALS),
    rule(&["403 forbidden"], "its registry denies access to it, or has no such repository", CREDENTIALS),
    rule(&["access denied"], "its registry denies access to it, or has no such repository", CREDENTIALS),
    rule(
        &["authorization failed"],
        "its registry requires credentials, or rejected those it got",
        CREDENTIALS,
    ),
    rule(&["500 internal server error"], "its registry has an internal error (500)", LATER),
    rule(&["502 bad gateway"], "its registry is down behind its proxy (502)", LATER),
    rule(&["503 service unavailable"], "its registry is not available at the moment (503)", LATER),
    rule(&["504 gateway time"], "its registry is too slow behind its proxy (504)", LATER),
    rule(
        &["no match for platform"],
        "it is not built for this machine's architecture",
        "use an image for this machine (uname -m), or build it for several architectures",
    ),
    rule(
        &["schema 1 image manifests are no longer supported"],
        "it has a format that containerd no longer supports (Docker schema 1)",
        "push it again with a current tool",
    ),
    rule(
        &["no signatures"],
        "it has a format that containerd has deprecated (Docker schema 1)",
        "push it again with a current tool",
    ),
    rule(
        &["could not fetch content descriptor", "text/html"],
        "the server that responds is not an image registry",
        "check the registry's name in spec.containers[].image; it serves a web page, perhaps a proxy's or a \
         login page",
    ),
    rule(&["could not fetch content descriptor", "not found"], "its registry lacks a part of it", DAMAGED),
    rule(&["content at", "not found"], "its registry lacks a part of it", DAMAGED),
    rule(
        &["unexpected commit digest"],
        "its registry sent content that does not match its digest or size",
        DAMAGED,
    ),
    rule(
        &["unexpected commit size"],
        "its registry sent content that does not match its digest or size",
        DAMAGED,
    ),
    rule(&["failed to extract layer"], "a layer is damaged, or not compressed as declared", DAMAGED),
    rule(&["unexpected end of json input"], "its registry's response is truncated", DAMAGED),
    rule(&["invalid character"], "its registry's response is not valid", DAMAGED),
    rule(&["unexpected eof"], "the connection to its registry was interrupted", LATER),
    rule(
        &["unsupported media type"],
        "it is not a container image",
        "check the name and tag in spec.containers[].image: registries also store other artifacts (charts, \
         signatures)",
    ),
    rule(&["manifest unknown"], "its registry does not have it", NAME),
    rule(&["name unknown"], "its registry does not have it", NAME),
    rule(&["not found"], "its registry does not have it", NAME),
    rule(
        &["unexpected status"],
        "the server that responds does not behave like a registry",
        "check the registry's name and port in spec.containers[].image",
    ),
    rule(
        &["failed with status code"],
        "the server that responds does not behave like a registry",
        "check the registry's name and port in spec.containers[].image",
    ),
    rule(&["context deadline exceeded"], "its registry takes too long to respond", NETWORK),
    rule(
        &[": no answer within"],
        "it takes too long",
        "check how fast the registry responds to this host; hostlet retries, and what was downloaded is kept",
    ),
    rule(&["canceled"], "the pull was cancelled", LATER),
];

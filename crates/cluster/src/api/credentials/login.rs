//! One attempt to load the server and credentials: from a kubeconfig, the files it refers to, and its credential plugin.

use std::fmt::Display;
use std::io;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hostlet_base::{error_chain, json};
use hostlet_host::file_work;
use hostlet_net::http::{Proxy, ProxyError};
use hostlet_net::tls::{
    CertificateInfo, CertificateStore, TlsError, Trust, certificates_of, client_config, keys_of,
};
use http::header::InvalidHeaderValue;
use http::{HeaderValue, Uri};
use jiff::Timestamp;
use kube::Config;
use kube::client::ConfigExt;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::ClientConfig;
use serde_json::Value;

use super::plugin::{self, PluginError, bearer};
use super::source::CredentialsSource;
use crate::api::kubeconfig::{self, KubeconfigFile, current_cluster};

/// Why there are no credentials. Problems are texts because kube's error sources repeat themselves.
#[derive(Debug, thiserror::Error)]
pub(in crate::api) enum LoginError {
    /// The file is unusable.
    #[error("{file}: {problem}; it needs a current-context with a cluster and the credentials of this node")]
    Kubeconfig { file: KubeconfigFile, problem: String },
    /// It has an unusable proxy.
    #[error("{file}: proxy-url: {problem}")]
    Proxy { file: KubeconfigFile, problem: ProxyError },
    /// The environment has an unusable proxy for its server.
    #[error("{variable} in the environment of hostlet: {problem}")]
    ProxyVariable { variable: &'static str, problem: ProxyError },
    /// Its credentials or certificates are unusable.
    #[error("{file}: {problem}; correct or replace the credentials it names")]
    Credentials { file: KubeconfigFile, problem: String },
    /// Its plugin failed.
    #[error("{file}: the credential plugin {command}: {}", error_chain(problem))]
    Plugin { file: KubeconfigFile, command: String, problem: PluginError },
}

impl LoginError {
    /// Whether there are no credentials, rather than some that cannot be used now: a bootstrap may replace them.
    pub(in crate::api) fn is_without_credentials(&self) -> bool {
        match self {
            Self::Kubeconfig { .. } | Self::Credentials { .. } => true,
            Self::Proxy { .. } | Self::ProxyVariable { .. } | Self::Plugin { .. } => false,
        }
    }
}

/// Why a user entry and its files yield no credentials.
#[derive(Debug, thiserror::Error)]
enum UserEntryError {
    #[error("{path} cannot be read: {error}")]
    Read { path: String, error: io::Error },
    #[error("client-certificate: {}", error_chain(.0))]
    Certificate(TlsError),
    #[error("{0} is not base64")]
    Base64(&'static str),
    #[error("there is no {0}, and a client certificate needs both certificate and key")]
    Incomplete(&'static str),
    #[error(transparent)]
    Tls(TlsError),
    #[error("the token's file is empty")]
    EmptyToken,
    #[error("the token has characters that HTTP does not permit")]
    Token,
    #[error("{0}")]
    Password(InvalidHeaderValue),
    #[error("auth-provider {0} was removed; use a credential plugin (exec)")]
    Provider(Value),
}

/// The server and the credentials.
#[derive(Clone, Debug)]
pub(in crate::api) struct Login {
    /// The cluster and its connection parameters, with all credentials resolved from files and plugins.
    pub(in crate::api) config: Arc<Config>,
    /// The TLS of its connections.
    pub(in crate::api) tls: ClientConfig,
    /// The `Authorization` header, if any.
    pub(in crate::api) authorization: Option<HeaderValue>,
    /// The client certificate, if there is one that no plugin issued.
    pub(in crate::api) certificate: Option<CertificateInfo>,
    /// The proxy to the server, if any.
    pub(in crate::api) proxy: Option<Proxy>,
    /// The parameters that connections depend on.
    identity: Identity,
}

#[derive(Clone, Debug, PartialEq)]
struct Identity {
    server: Uri,
    proxy: Option<Proxy>,
    certificate: Value,
    root_cert: Option<Vec<Vec<u8>>>,
}

impl Login {
    /// Whether the other login's connections can be reused.
    pub(in crate::api) fn shares_connections(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

/// The result of an attempt, and how to renew it.
#[derive(Clone, Debug)]
pub(super) struct Obtained {
    pub(super) login: Login,
    /// Whether another attempt could give a different result, because it reads a file or runs a plugin.
    pub(super) is_renewable: bool,
    /// Whether it runs a plugin.
    pub(super) is_issued: bool,
    /// Its expiry, if a plugin reported one.
    pub(super) expires: Option<Timestamp>,
}

/// The source of credentials. The kubeconfig is read until it is usable, and again only when a bootstrap replaced it: a running
/// daemon does not change its cluster.
#[derive(Debug)]
pub(super) struct Origin {
    source: CredentialsSource,
    kubeconfig: Option<Kubeconfig>,
}

impl Origin {
    pub(super) fn new(source: CredentialsSource) -> Self {
        Self { source, kubeconfig: None }
    }

    /// Reads the kubeconfig again in the next attempt.
    pub(super) fn forget(&mut self) {
        self.kubeconfig = None;
    }

    /// Makes an attempt. Cancel-safe.
    pub(super) async fn obtain(&mut self) -> Result<Obtained, LoginError> {
        let kubeconfig = match self.kubeconfig.clone() {
            Some(kubeconfig) => kubeconfig,
            None => self.read().await?,
        };
        let obtained = self.log_in(kubeconfig.clone()).await?;
        self.kubeconfig = Some(kubeconfig);
        Ok(obtained)
    }

    async fn read(&self) -> Result<Kubeconfig, LoginError> {
        let path = self.source.file.path.clone();
        let read = file_work(move || kubeconfig::read(&path)).await.map_err(|error| self.unusable(error))?;
        read.map_err(|error| self.unusable(error))
    }

    async fn log_in(&self, mut kubeconfig: Kubeconfig) -> Result<Obtained, LoginError> {
        let proxy = self.cluster_proxy(&mut kubeconfig)?;
        // Reads the CA file.
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| self.unusable(error))?;
        let proxy = match proxy {
            Some(proxy) => Some(proxy),
            None => self
                .source
                .proxies
                .proxy(&config.cluster_url)
                .map_err(|(variable, problem)| LoginError::ProxyVariable { variable, problem })?,
        };
        let exec = config.auth_info.exec.take();
        let auth = json::to_value(&config.auth_info).map_err(|error| self.invalid(error))?;
        let (store, now) = (self.source.store.clone(), self.source.clock.now());
        let read = file_work(move || read_files(auth, store.as_ref(), now)).await;
        let read = read.map_err(|error| self.invalid(error))?;
        let Files { mut auth, mut authorization, certificate, is_read } =
            read.map_err(|error| self.invalid(error))?;
        let mut expires = None;
        let is_issued = exec.is_some() && authorization.is_none();
        if let Some(exec) = exec.filter(|_| is_issued) {
            let issued = plugin::run(&exec).await.map_err(|problem| LoginError::Plugin {
                file: self.source.file.clone(),
                command: exec.command.clone().unwrap_or_default(),
                problem,
            })?;
            (authorization, expires) = (issued.authorization, issued.expires);
            if let Some((certificate, key)) = issued.certificate {
                auth["client-certificate-data"] = certificate.into();
                auth["client-key-data"] = key.into();
            }
        }
        config.auth_info = json::from_value(&auth).map_err(|error| self.invalid(error))?;
        // Validated before any connection uses them.
        let tls = tls_config(&config, &auth).map_err(|error| self.invalid(error_chain(&error)))?;
        config.extra_headers_layer().map_err(|error| self.invalid(error))?;
        let identity = Identity {
            server: config.cluster_url.clone(),
            proxy: proxy.clone(),
            certificate: auth,
            root_cert: config.root_cert.clone(),
        };
        let certificate = certificate.filter(|_| !is_issued);
        let login = Login { config: Arc::new(config), tls, authorization, certificate, proxy, identity };
        Ok(Obtained { login, is_renewable: is_read || is_issued, is_issued, expires })
    }

    /// Takes the proxy of the current cluster out of the kubeconfig.
    fn cluster_proxy(&self, kubeconfig: &mut Kubeconfig) -> Result<Option<Proxy>, LoginError> {
        let url = current_cluster(kubeconfig).and_then(|cluster| cluster.proxy_url.take());
        let proxy = url.filter(|url| !url.is_empty()).map(|url| Proxy::parse(&url)).transpose();
        proxy.map_err(|problem| LoginError::Proxy { file: self.source.file.clone(), problem })
    }

    fn unusable(&self, problem: impl Display) -> LoginError {
        LoginError::Kubeconfig { file: self.source.file.clone(), problem: problem.to_string() }
    }

    fn invalid(&self, problem: impl Display) -> LoginError {
        LoginError::Credentials { file: self.source.file.clone(), problem: problem.to_string() }
    }
}

/// The TLS configuration for a cluster and a user entry whose files are inlined.
fn tls_config(config: &Config, auth: &Value) -> Result<ClientConfig, UserEntryError> {
    let trust = match &config.root_cert {
        _ if config.accept_invalid_certs => Trust::Anybody,
        Some(authorities) => Trust::Authorities(authorities),
        None => Trust::System,
    };
    let data = |field: &'static str| {
        let given = auth[field].as_str().filter(|data| !data.is_empty());
        let decoded = given.map(|data| STANDARD.decode(data).map_err(|_| UserEntryError::Base64(field)));
        decoded.transpose()
    };
    let identity = match (data("client-certificate-data")?, data("client-key-data")?) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, Some(_)) => return Err(UserEntryError::Incomplete("client-certificate")),
        (Some(_), None) => return Err(UserEntryError::Incomplete("client-key")),
    };
    let identity = identity.as_ref().map(|(certificate, key)| (certificate.as_slice(), key.as_slice()));
    client_config(trust, identity).map_err(UserEntryError::Tls)
}

/// A user entry without its plugin.
struct Files {
    /// The entry with its files inlined, without the parts that go into the header.
    auth: Value,
    authorization: Option<HeaderValue>,
    /// Its client certificate, or a newer one of the store.
    certificate: Option<CertificateInfo>,
    /// Whether a file was read.
    is_read: bool,
}

/// Reads the files of a user entry. If it has several authentication methods, the precedence is client-go's. A certificate in
/// `store` that is newer and not expired replaces the entry's, as upstream's certificate manager does.
fn read_files(
    mut auth: Value,
    store: Option<&CertificateStore>,
    now: Timestamp,
) -> Result<Files, UserEntryError> {
    let mut take = |field: &str| {
        let taken = auth.as_object_mut().and_then(|auth| auth.remove(field));
        taken.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let (token, token_file) = (take("token"), take("tokenFile"));
    let (username, password) = (take("username"), take("password"));
    let (certificate, key) = (take("client-certificate"), take("client-key"));
    let provider = auth.as_object_mut().and_then(|auth| auth.remove("auth-provider"));
    let mut is_read = false;
    let mut read = |path: &str| {
        is_read = true;
        std::fs::read(path).map_err(|error| UserEntryError::Read { path: path.to_owned(), error })
    };
    for (field, path) in [("client-certificate-data", certificate), ("client-key-data", key)] {
        let is_given = auth[field].as_str().is_some_and(|data| !data.is_empty());
        if let Some(path) = path.filter(|_| !is_given) {
            auth[field] = STANDARD.encode(read(&path)?).into();
        }
    }
    let in_file =
        token_file.map(|path| read(&path).map(|token| String::from_utf8_lossy(&token).into_owned()));
    let token = match (in_file, token) {
        (Some(Ok(in_file)), _) if !in_file.trim().is_empty() => Some(in_file),
        (Some(Err(problem)), None) => return Err(problem),
        (Some(Ok(_)), None) => return Err(UserEntryError::EmptyToken),
        (_, token) => token,
    };
    let provided = provider.map(|provider| id_token(&provider)).transpose()?;
    let authorization = match (token.or(provided), username, password) {
        (Some(token), _, _) => Some(bearer(&token).ok_or(UserEntryError::Token)?),
        (None, Some(username), Some(password)) => {
            let pair = STANDARD.encode(format!("{username}:{password}"));
            let mut header =
                HeaderValue::try_from(format!("Basic {pair}")).map_err(UserEntryError::Password)?;
            header.set_sensitive(true);
            Some(header)
        }
        (None, _, _) => None,
    };
    let certificate = client_certificate(&mut auth, store, now)?;
    let is_read = is_read || (certificate.is_some() && store.is_some());
    Ok(Files { auth, authorization, certificate, is_read })
}

/// The client certificate of a user entry, without the key that may be in the same file, or the newer one of the store.
fn client_certificate(
    auth: &mut Value,
    store: Option<&CertificateStore>,
    now: Timestamp,
) -> Result<Option<CertificateInfo>, UserEntryError> {
    let Some(data) = auth["client-certificate-data"].as_str().filter(|data| !data.is_empty()) else {
        return Ok(None);
    };
    // Reported with the key's.
    let Ok(text) = STANDARD.decode(data) else { return Ok(None) };
    let mut info = CertificateInfo::from_pem(&text).map_err(UserEntryError::Certificate)?;
    let mut certificates = certificates_of(&text).map_err(UserEntryError::Certificate)?;
    // A damaged store is reported by the task that renews certificates.
    if let Some(Ok(Some(stored))) = store.map(CertificateStore::current)
        && let Ok(newer) = CertificateInfo::from_pem(&stored)
        && newer.not_before > info.not_before
        && !newer.is_expired(now)
    {
        certificates = certificates_of(&stored).map_err(UserEntryError::Certificate)?;
        auth["client-key-data"] = STANDARD.encode(keys_of(&stored)).into();
        info = newer;
    }
    auth["client-certificate-data"] = STANDARD.encode(certificates).into();
    if let Some(key) = auth["client-key-data"].as_str().and_then(|key| STANDARD.decode(key).ok()) {
        auth["client-key-data"] = STANDARD.encode(keys_of(&key)).into();
    }
    Ok(Some(info))
}

/// The token of a legacy auth provider, if it can be used directly.
fn id_token(provider: &Value) -> Result<String, UserEntryError> {
    let token = provider["config"]["id-token"].as_str().filter(|_| provider["name"] == "oidc");
    token.map(str::to_owned).ok_or_else(|| UserEntryError::Provider(provider["name"].clone()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kubeconfig(user: &str) -> String {
        kubeconfig::of_one_user("https://127.0.0.1:1", user)
    }

    #[tokio::test]
    async fn errors_name_the_file_and_a_remedy_once() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("kubeconfig");
        let files = kubeconfig("{client-certificate: /none.crt, client-key: /none.key}");
        let proxied = files.replace("server:", "proxy-url: 'ftp://127.0.0.1:2', server:");
        let damaged = kubeconfig(&format!(
            "{{client-certificate-data: {0}, client-key-data: {0}}}",
            STANDARD.encode("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
        ));
        let old = kubeconfig("{auth-provider: {name: gcp, config: {}}}");
        let failing = kubeconfig(
            "{exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', interactiveMode: Never}}",
        );
        for (text, problem, remedy) in [
            (None, "No such file or directory", "needs a current-context"),
            (Some("a: ["), "line 1 column", "needs a current-context"),
            (Some("clusters: []"), "current context", "needs a current-context"),
            (Some(files.as_str()), "/none.crt", "replace the credentials"),
            (Some(damaged.as_str()), "", "replace the credentials"),
            (Some(old.as_str()), "gcp", "use a credential plugin"),
            (Some(proxied.as_str()), "proxy-url: the scheme \"ftp\"", "use http, https or socks5"),
            (Some(failing.as_str()), "exit status: 1", "credential plugin false"),
        ] {
            let _ = std::fs::remove_file(&path);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let error = Origin::new(CredentialsSource::new(path.clone())).obtain().await.unwrap_err();
            let message = error_chain(&error);
            assert!(message.starts_with(&format!("--kubeconfig {}: ", path.display())), "{message}");
            assert!(
                message.contains(remedy) && (problem.is_empty() || message.matches(problem).count() == 1),
                "{message}"
            );
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn one_authentication_method_wins() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "from-file\n").unwrap();
        let file = file.display().to_string();
        let header =
            |auth: Value| read_files(auth, None, Timestamp::UNIX_EPOCH).map(|files| files.authorization);
        assert_eq!(header(json!({"token": "t", "tokenFile": file})).unwrap(), bearer("from-file"));
        assert_eq!(header(json!({"token": "t", "tokenFile": "/none"})).unwrap(), bearer("t"));
        assert!(
            header(json!({"tokenFile": "/none"})).unwrap_err().to_string().contains("/none cannot be read")
        );
        assert_eq!(header(json!({"username": "u", "password": "p"})).unwrap().unwrap(), "Basic dTpw");
        let provider = json!({"name": "oidc", "config": {"id-token": "i"}});
        assert_eq!(header(json!({"auth-provider": provider})).unwrap(), bearer("i"));
        assert_eq!(header(json!({"as": "somebody"})).unwrap(), None);
    }
}

//! Wires the node's API: its ports, its TLS, who may use it, and what it answers. It runs on threads of its own, so that no request can
//! delay the pods.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hostlet_base::WallClock;
use hostlet_cluster::api::{IssuedCertificate, ServingCertificateTask, ServingMetrics, ServingSettings};
use hostlet_config::{CertificateFiles, Config, EffectiveConfig, NodeApi, ServingCertificate};
use hostlet_host::checkpoints_dir;
use hostlet_net::tls::{CertificateStore, ServerTls, TlsError, TlsVersion, self_signed_files};
use hostlet_serve::node_api::auth::{
    ApiReviews, Authenticator, AuthenticatorSettings, Authorizer, Reviews, StreamingVerbs,
};
use hostlet_serve::node_api::streams::{StreamDeps, StreamMetrics};
use hostlet_serve::node_api::{
    ApiListeners, ApiTlsError, Checkpoints, ContainerLogDeps, DebugHandlers, EndpointDeps, Guard, Healthz,
    IdentityFiles, ListenError, NodeApiServer, NodePages, PodLists, RequestMetrics, Scraped, SystemLogs,
    TlsSettings, TlsTask, ZPages,
};
use hostlet_telemetry::LogControl;
use kube::Client;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::own_threads::OwnThreads;
use super::parts::Parts;
use super::paths::SYSTEM_LOGS;
use super::tasks::{Stage, Tasks};

/// How many threads answer. A copy of a large file needs one; the other one answers everything else meanwhile.
const THREADS: usize = 2;

/// Why the node's API could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeApiError {
    /// A port could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Its certificate or the authorities of its clients cannot be used.
    #[error(transparent)]
    Tls(#[from] ApiTlsError),
    /// Its own certificate could not be made.
    #[error(
        "cannot make a certificate for the node's API; set tlsCertFile and tlsPrivateKeyFile, or serverTLSBootstrap"
    )]
    SelfSigned(#[source] TlsError),
    /// Its threads could not be started.
    #[error("cannot start the threads of the node's API")]
    Threads(#[source] io::Error),
}

/// What the process was started with, to show it, and its log.
pub(super) struct AboutProcess {
    pub(super) configuration: EffectiveConfig,
    pub(super) flags: BTreeMap<String, String>,
    pub(super) log: LogControl,
}

/// The node's API, before it runs.
pub(super) struct NodeApiSide {
    listeners: ApiListeners,
    tls: TlsTask,
    threads: OwnThreads,
    /// Where the certificate of the cluster is published.
    issued: watch::Sender<IssuedCertificate>,
    /// `None` on a standalone node.
    clients: Option<ApiClients>,
}

/// Clients of the API server.
pub(super) struct ApiClients {
    reviews: Client,
    /// For certificate requests.
    node: Client,
}

impl ApiClients {
    /// The clients of a joined node.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self { reviews: cluster.reviews(), node: cluster.node_client() }
    }
}

impl NodeApiSide {
    /// Opens its ports and reads its certificate; `None` if it is off. Blocks.
    pub(super) fn open(config: &Config, clients: Option<ApiClients>) -> Result<Option<Self>, NodeApiError> {
        let settings = &config.node_api;
        let listeners = ApiListeners::bind(settings.listen, settings.read_only)?;
        if listeners.is_empty() {
            return Ok(None);
        }
        let tls = TlsSettings {
            tls: server_tls(settings),
            identity: identity(settings, &config.node_name)?,
            client_ca: settings.client_ca_file.clone(),
        };
        let issued = watch::Sender::default();
        Ok(Some(Self {
            listeners,
            tls: TlsTask::new(tls, issued.subscribe())?,
            threads: OwnThreads::new("node-api", THREADS).map_err(NodeApiError::Threads)?,
            issued,
            clients,
        }))
    }

    pub(super) fn start(
        self,
        config: &Config,
        parts: &Parts,
        about: AboutProcess,
        health: Healthz,
        tasks: &mut Tasks,
    ) {
        let settings = &config.node_api;
        let Self { listeners, tls, threads, issued, clients } = self;
        if let (ServingCertificate::Cluster(_), Some(clients), Some(reports)) =
            (&settings.certificate, &clients, &parts.reports)
        {
            let clock = WallClock::system();
            let certificates = ServingSettings {
                node: config.node_name.clone(),
                store: CertificateStore::of_server(&settings.cert_dir),
                clock: clock.clone(),
            };
            let metrics = ServingMetrics::new(&parts.metrics, clock);
            let (client, node, chance) = (clients.node.clone(), reports.node.clone(), StdRng::from_os_rng());
            let task = ServingCertificateTask::new(certificates, client, node, issued, metrics, chance);
            tasks.spawn(Stage::Node, "serving certificate", |cancel| task.run(cancel));
        }
        let reviews =
            clients.map(|clients| -> Arc<dyn Reviews> { Arc::new(ApiReviews::new(clients.reviews)) });
        let authenticator = Authenticator::new(AuthenticatorSettings {
            authorities: tls.authorities(),
            tokens: reviews.clone().zip(settings.tokens),
            is_anonymous_permitted: settings.is_anonymous_permitted,
        });
        let authorizer = match (reviews, settings.authorization) {
            (Some(reviews), Some((allowed, denied))) => {
                Authorizer::webhook(reviews, config.node_name.clone(), allowed, denied)
            }
            // The configuration of a standalone node has no other mode.
            (_, None) | (None, Some(_)) => Authorizer::AlwaysAllow,
        };
        let streaming = match settings.streams_need_get_only {
            true => StreamingVerbs::OfMethod,
            false => StreamingVerbs::Create,
        };
        let guard = Guard { authenticator, authorizer, streaming };
        let (has_debugging, server) = (settings.has_debugging, tls.config());
        let metrics = RequestMetrics::new(&parts.metrics);
        let rescan = tasks.rescan().subscribe();
        tasks.spawn(Stage::State, "node API certificate", |cancel| tls.run(rescan, cancel));
        tasks.spawn(Stage::State, "node API", |cancel| {
            let endpoints = endpoints(config, parts, about, health, cancel.clone());
            let api = NodeApiServer { endpoints, guard, has_debugging, tls: server, metrics };
            threads.run(api.run(listeners, cancel))
        });
    }
}

/// What the endpoints need.
fn endpoints(
    config: &Config,
    parts: &Parts,
    about: AboutProcess,
    healthz: Healthz,
    cancel: CancellationToken,
) -> EndpointDeps {
    let (clock, wanted) = (WallClock::system(), config.node_api.endpoints);
    let observed = parts.runtime.pleg.cache().clone();
    let stream_metrics = StreamMetrics::default();
    stream_metrics.register(&parts.metrics);
    EndpointDeps {
        healthz,
        streams: StreamDeps {
            pods: parts.handles.pods.clone(),
            pleg: parts.runtime.pleg.clone(),
            runtime: parts.runtime.runtime.clone(),
            idle: config.node_api.streaming_idle,
            metrics: stream_metrics,
        },
        logs: ContainerLogDeps {
            pods: parts.handles.pods.clone(),
            logs: parts.logs(),
            split_streams: config.pods.split_log_streams,
            clock: clock.clone(),
            cancel,
        },
        pods: PodLists {
            pods: parts.handles.pods.clone(),
            observed: observed.clone(),
            has_allocated: wanted.allocated_pods,
        },
        stats: parts.stats.clone(),
        scraped: Scraped { metrics: parts.metrics.clone(), probes: parts.handles.probes.metrics.clone() },
        pages: NodePages {
            configuration: about.configuration,
            zpages: ZPages {
                started: parts.started,
                clock: clock.clone(),
                has_status: wanted.statusz,
                flags: wanted.flagz.then_some(about.flags),
            },
            logs: SystemLogs {
                is_enabled: wanted.system_logs,
                has_query: wanted.system_log_query,
                dir: SYSTEM_LOGS.into(),
                journalctl: "journalctl".into(),
            },
            checkpoints: wanted.checkpoints.then(|| Checkpoints {
                pods: parts.handles.pods.clone(),
                observed,
                runtime: parts.runtime.runtime.clone(),
                dir: checkpoints_dir(&config.root_dir),
                clock,
            }),
            debug: DebugHandlers {
                flags: wanted.debug_flags.then_some((about.log, config.logging.format)),
                has_profiling: wanted.profiling,
            },
        },
    }
}

/// The files of the certificate, if it is not of the cluster.
fn identity(settings: &NodeApi, host: &str) -> Result<Option<IdentityFiles>, NodeApiError> {
    let of = |certificate: &Path, key: &Path| IdentityFiles {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
    };
    match &settings.certificate {
        ServingCertificate::Files(CertificateFiles { certificate, key })
        | ServingCertificate::Cluster(Some(CertificateFiles { certificate, key })) => {
            Ok(Some(of(certificate, key)))
        }
        ServingCertificate::Cluster(None) => Ok(None),
        ServingCertificate::SelfSigned => {
            let (certificate, key) =
                self_signed_files(&settings.cert_dir, host).map_err(NodeApiError::SelfSigned)?;
            Ok(Some(of(&certificate, &key)))
        }
    }
}

fn server_tls(settings: &NodeApi) -> ServerTls {
    let tls = ServerTls {
        oldest: if settings.needs_tls_1_3 { TlsVersion::V13 } else { TlsVersion::V12 },
        cipher_suites: settings.cipher_suites.clone(),
        groups: settings.groups.clone(),
    };
    let unsupported = tls.unsupported_suites();
    if !unsupported.is_empty() {
        let suites = unsupported.join(", ");
        tracing::warn!(
            suites,
            "some of tlsCipherSuites are not used: hostlet supports only forward secrecy with AEAD"
        );
    }
    tls
}

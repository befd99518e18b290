//! `hostlet purge`: removes hostlet's pods and its own files from this host. For packages, and for whoever leaves hostlet.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hostlet_base::error_chain;
use hostlet_config::{Config, load};
use hostlet_dra::RecordedClaim;
use hostlet_host::cgroup::{CgroupSettings, Cgroups};
use hostlet_host::{HostDirs, KernelMounts, file_work, root_check};
use hostlet_observe::log::LogLayout;
use hostlet_runtime::cri::{CriClient, RuntimeService};

use super::error::CommandError;
use super::exit::Exit;
use super::host_args::HostArgs;
use crate::purge::{PurgePlan, Purger, iptables, purge_facts, purge_plan};

/// Deadline of calls to the runtime, besides grace periods.
const DEADLINE: Duration = Duration::from_secs(60);

/// Arguments of `hostlet purge`.
#[derive(Clone, Debug, Args)]
pub struct PurgeArgs {
    /// Only print what would be removed
    #[arg(long)]
    pub dry_run: bool,
    /// Remove it; without this nothing is removed
    #[arg(long, conflicts_with = "dry_run")]
    pub yes: bool,
    /// The daemon that ran here
    #[command(flatten)]
    pub host: HostArgs,
}

/// Runs `hostlet purge` on the host with this name. Fails if something could not be removed.
pub async fn purge(args: PurgeArgs, hostname: String) -> Result<Exit, CommandError> {
    if let Err(error) = root_check() {
        writeln!(io::stderr(), "hostlet: {error}")?;
        return Ok(Exit::Failed);
    }
    let config = load(&args.host.flags()?, &hostname)?.config;
    let dirs = HostDirs {
        root: config.root_dir.clone(),
        pod_logs: config.pods.logs_dir.clone(),
        container_logs: CONTAINER_LOGS.into(),
    };
    let runtime: Arc<dyn RuntimeService> = Arc::new(CriClient::new(&config.runtime.runtime_socket, DEADLINE));
    let plan = match purge_plan(purge_facts(&config, &dirs, &*runtime).await) {
        Ok(plan) => plan,
        Err(obstacle) => {
            writeln!(io::stderr(), "hostlet: nothing was removed: {obstacle}")?;
            return Ok(Exit::Failed);
        }
    };
    let mut out = io::stdout();
    write!(out, "{}", text(&plan, args.yes))?;
    out.flush()?;
    if !args.yes {
        if !args.dry_run && !plan.is_empty() {
            writeln!(io::stderr(), "hostlet: nothing was removed: add --yes to remove this")?;
            return Ok(Exit::Usage);
        }
        return Ok(Exit::Ok);
    }
    let purger = Purger {
        cgroups: cgroups(&config, &*runtime).await?,
        runtime,
        root_dir: dirs.root.clone(),
        logs: LogLayout { pod_logs_dir: dirs.pod_logs, containers_dir: dirs.container_logs },
        mounts: Arc::new(KernelMounts { mountinfo: "/proc/self/mountinfo".into() }),
        iptables: iptables(&config),
    };
    let failed = purger.perform(&plan).await;
    for left in purger.remains() {
        writeln!(out, "left   {}", left.display())?;
    }
    for error in &failed {
        writeln!(io::stderr(), "hostlet: {}", error_chain(error))?;
    }
    Ok(if failed.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// What to do about claims that stay prepared.
const CLAIMS_REMEDY: &str = "       Drivers unprepare claims only for a kubelet: the next one that runs from this root directory has it done. \
     If there is none, reset the devices as their driver documents it.\n";

/// The directory for log collectors, which is not configurable upstream either.
const CONTAINER_LOGS: &str = "/var/log/containers";

/// The pods' cgroups. Those that cannot be used hold nothing of a pod that does not run.
async fn cgroups(
    config: &Config,
    runtime: &dyn RuntimeService,
) -> Result<Option<Arc<Cgroups>>, CommandError> {
    if !config.cgroups.per_qos {
        return Ok(None);
    }
    let reported = runtime.cgroup_driver().await.ok().flatten();
    let driver = reported.unwrap_or(config.cgroups.driver);
    let settings = CgroupSettings::of_existing(driver, &config.cgroups.root, Path::new("/"));
    match file_work(|| Cgroups::open(settings)).await {
        Ok(Ok(cgroups)) => Ok(Some(Arc::new(cgroups))),
        Ok(Err(error)) => {
            writeln!(io::stderr(), "hostlet: cgroups are left: {}", error_chain(&error))?;
            Ok(None)
        }
        Err(error) => Err(io::Error::other(error).into()),
    }
}

/// What is removed, and what is left, one per line.
fn text(plan: &PurgePlan, is_performed: bool) -> String {
    let word = if is_performed { "remove" } else { "would remove" };
    let mut text = String::new();
    for pod in &plan.pods {
        text.push_str(&format!("{word} pod {pod} from the container runtime\n"));
    }
    for uid in &plan.uids {
        text.push_str(&format!("{word} directory, logs and cgroup of the pod with the UID {uid}\n"));
    }
    for file in &plan.files {
        text.push_str(&format!("{word} {}\n", file.display()));
    }
    if plan.has_chains {
        text.push_str(&format!("{word} the iptables chains KUBE-IPTABLES-HINT and KUBE-FIREWALL\n"));
    }
    for RecordedClaim { namespace, name, drivers } in &plan.claims {
        let drivers = drivers.join(", ");
        text.push_str(&format!(
            "left   claim {namespace}/{name}, which stays prepared by DRA driver {drivers}\n"
        ));
    }
    if let Some(why) = &plan.unknown_claims {
        text.push_str(&format!("left   any claims that are prepared, which are unknown: {why}\n"));
    }
    if !plan.claims.is_empty() || plan.unknown_claims.is_some() {
        text.push_str(CLAIMS_REMEDY);
    }
    for kubelet in &plan.other_kubelets {
        text.push_str(&format!(
            "left   all pods: another kubelet runs here ({kubelet}), and they are its pods\n"
        ));
    }
    for pod in &plan.foreign {
        text.push_str(&format!("left   pod {pod}, which is not hostlet's\n"));
    }
    if plan.is_empty() {
        text.push_str("nothing of hostlet is left on this host\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostlet_base::PodRef;
    use hostlet_engine::ownership::OtherKubelet;

    #[test]
    fn everything_has_a_line() {
        let plan = PurgePlan {
            pods: vec![PodRef::new("default", "web", "u")],
            uids: vec!["u".into()],
            files: vec!["/var/lib/kubelet/hostlet".into()],
            has_chains: true,
            claims: vec![RecordedClaim {
                namespace: "ml".to_owned(),
                name: "gpu".to_owned(),
                drivers: vec!["gpu.example.com".to_owned()],
            }],
            unknown_claims: None,
            foreign: vec![PodRef::new("kube-system", "theirs", "v")],
            other_kubelets: vec![OtherKubelet::Process(7)],
        };
        let text = super::text(&plan, false);
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(
            text.contains("left   claim ml/gpu, which stays prepared by DRA driver gpu.example.com\n"),
            "{text}"
        );
        let unknown = PurgePlan { unknown_claims: Some("it is damaged".to_owned()), ..PurgePlan::default() };
        let unknown = super::text(&unknown, true);
        assert!(
            unknown.contains("unknown: it is damaged\n") && unknown.contains("reset the devices"),
            "{unknown}"
        );
        assert!(text.starts_with("would remove pod default/web"), "{text}");
        assert!(text.contains("left   pod kube-system/theirs"), "{text}");
        assert!(super::text(&PurgePlan::default(), true).starts_with("nothing of hostlet"));
    }
}

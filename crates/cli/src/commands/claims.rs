//! `hostlet claims`: the ResourceClaims of this node's pods, as a table, JSON or YAML.

use std::io::{self, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table};
use hostlet_dra::ClaimView;
use hostlet_serve::server::{ForgetQuery, ForgottenView};

use super::client::{DaemonArgs, claims as list_claims, post};
use super::error::CommandError;
use super::exit::Exit;
use super::objects::{ObjectFormat, write_object};

const NONE: &str = "<none>";

/// Arguments of `hostlet claims`.
#[derive(Clone, Debug, Args)]
pub struct ClaimsArgs {
    /// Stop waiting for drivers that are not registered to unprepare this claim, NAMESPACE/NAME. Only for drivers that do not come back:
    /// what they prepared stays as it is
    #[arg(long, value_name = "CLAIM", value_parser = claim, conflicts_with = "output")]
    pub forget: Option<ForgetQuery>,
    /// Print whole objects
    #[arg(short, long, value_enum)]
    pub output: Option<ObjectFormat>,
    /// The daemon's socket
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// Runs `hostlet claims`.
pub async fn claims(args: ClaimsArgs) -> Result<Exit, CommandError> {
    let socket = args.daemon.socket();
    if let Some(query) = args.forget {
        let forgotten: ForgottenView = post(&socket, "/v1/claims/forget", &query, &()).await?;
        for driver in &forgotten.drivers {
            let ForgetQuery { namespace, name } = &query;
            writeln!(io::stdout(), "{namespace}/{name}: no longer waiting for DRA driver {driver}")?;
        }
        return Ok(Exit::Ok);
    }
    let claims = list_claims(&socket).await?;
    let mut out = io::stdout().lock();
    match args.output {
        Some(format) => write_object(&mut out, format, &claims)?,
        None => write!(out, "{}", text(&claims))?,
    }
    Ok(Exit::Ok)
}

/// A text names no claim.
#[derive(Debug, thiserror::Error)]
#[error("name the claim as NAMESPACE/NAME")]
struct NotAClaim;

fn claim(text: &str) -> Result<ForgetQuery, NotAClaim> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(ForgetQuery { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        Some(_) | None => Err(NotAClaim),
    }
}

/// A line per claim and driver, and a paragraph per problem.
fn text(claims: &[ClaimView]) -> String {
    if claims.is_empty() {
        return "No pod of this node uses a ResourceClaim.\n".to_owned();
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["CLAIM", "PHASE", "DRIVER", "DEVICES", "PODS"]);
    let listed = |list: &[String]| if list.is_empty() { NONE.to_owned() } else { list.join(",") };
    for claim in claims {
        let name = format!("{}/{}", claim.namespace, claim.name);
        for driver in &claim.drivers {
            table.add_row([
                name.clone(),
                claim.phase.to_string(),
                driver.driver.clone(),
                listed(&driver.devices),
                listed(&claim.pods),
            ]);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    for claim in claims {
        let Some(error) = &claim.last_error else { continue };
        let (namespace, name) = (&claim.namespace, &claim.name);
        text.push_str(&format!("\n{namespace}/{name}: {}.\n", error.trim_end_matches('.')));
    }
    text
}

#[cfg(test)]
mod tests {
    use hostlet_base::json;

    use super::*;

    #[test]
    fn a_claim_is_shown_with_its_drivers_and_what_it_waits_for() {
        let claims = serde_json::json!([{
            "namespace": "default", "name": "gpu", "uid": "u", "phase": "Unpreparing",
            "lastError": "DRA driver nic.example.com is not registered", "pods": ["default/a"],
            "drivers": [
                {"driver": "gpu.example.com", "done": true, "devices": ["p/d0", "p/d1 (share)"]},
                {"driver": "nic.example.com", "done": false, "devices": []},
            ],
        }]);
        let claims: Vec<ClaimView> = json::from_value(&claims).unwrap();
        assert_eq!(
            text(&claims),
            "CLAIM        PHASE        DRIVER           DEVICES            PODS\n\
             default/gpu  Unpreparing  gpu.example.com  p/d0,p/d1 (share)  default/a\n\
             default/gpu  Unpreparing  nic.example.com  <none>             default/a\n\
             \ndefault/gpu: DRA driver nic.example.com is not registered.\n"
        );
        assert!(text(&[]).starts_with("No pod of this node"));
    }

    #[test]
    fn a_claim_to_forget_is_named_with_its_namespace() {
        let query = claim("ns/gpu").unwrap();
        assert_eq!((query.namespace.as_str(), query.name.as_str()), ("ns", "gpu"));
        for wrong in ["gpu", "/gpu", "ns/"] {
            assert!(claim(wrong).unwrap_err().to_string().contains("NAMESPACE/NAME"));
        }
    }
}

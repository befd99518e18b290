//! `GET /v1/claims`: the ResourceClaims of this node's pods, and what is done with them. `POST /v1/claims/forget`: gives up a claim whose
//! driver does not come back.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use hostlet_base::PodUid;
use hostlet_dra::{ClaimView, Claims};
use hostlet_observe::status::{DirectoryEntry, PodDirectory};
use serde::{Deserialize, Serialize};

use super::error::RequestError;

/// The query of `/v1/claims/forget`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetQuery {
    /// The claim's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenView {
    /// The drivers that are not asked to unprepare the claim anymore.
    pub drivers: Vec<String>,
}

/// What the endpoints read and change.
pub struct ClaimsEndpoint {
    /// The claims.
    pub claims: Claims,
    /// The pods, for their names.
    pub pods: PodDirectory,
}

impl ClaimsEndpoint {
    /// The endpoints.
    pub(super) fn routes(self) -> Router {
        let routes = Router::new().route("/v1/claims", get(claims)).route("/v1/claims/forget", post(forget));
        routes.with_state(Arc::new(self))
    }
}

/// All of them, by namespace and name.
async fn claims(State(endpoint): State<Arc<ClaimsEndpoint>>) -> Json<Vec<ClaimView>> {
    Json(named(endpoint.claims.views(), &endpoint.pods.all()))
}

async fn forget(
    State(endpoint): State<Arc<ClaimsEndpoint>>,
    Query(query): Query<ForgetQuery>,
) -> Result<Json<ForgottenView>, RequestError> {
    let drivers = endpoint.claims.forget(&query.namespace, &query.name).await?;
    Ok(Json(ForgottenView { drivers }))
}

/// The claims with the names of their pods, where they are known.
fn named(mut claims: Vec<ClaimView>, pods: &HashMap<PodUid, DirectoryEntry>) -> Vec<ClaimView> {
    for pod in claims.iter_mut().flat_map(|claim| &mut claim.pods) {
        if let Some(known) = pods.get(&PodUid::from(pod.as_str())).map(DirectoryEntry::reference) {
            *pod = format!("{}/{}", known.namespace, known.name);
        }
    }
    claims
}

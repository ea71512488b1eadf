//! The operators' API over HTTP and JSON.
//!
//! ```text
//! GET    /v1/members                             the members and voters
//! POST   /v1/members?name=NAME&address=HOST:PORT add a node; returns its join token
//! DELETE /v1/members/NODE                        remove a node
//! POST   /v1/members/NODE/promote                make it a voter
//! POST   /v1/members/NODE/demote                 make it a non-voting member
//! POST   /v1/members/NODE/evict                  evict its current incarnation
//! POST   /v1/set/NAME?k=K&names=&no_names=&policy=&no_wait=&timeout_ms=
//!                                                change the slots or the policy of a gate
//! GET    /v1/timing                              the durations of the leases
//! ```

use axum::extract::{Extension, Path, Query, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use kgate_api::{json, v1};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, ApiError, CoreHandle, Identity, Operator, Privilege};
use crate::serve::wanted::WantedSlots;

pub(in crate::serve) fn routes(core: CoreHandle) -> Router {
    Router::new()
        .route("/v1/members", get(members).post(add))
        .route("/v1/members/{node}", delete(remove))
        .route("/v1/members/{node}/{operation}", post(change))
        .route("/v1/set/{*name}", post(set))
        .route("/v1/timing", get(timing))
        .with_state(core)
}

type Replied = Answer<Json<serde_json::Value>>;

fn operation_reply(reply: v1::OperationReply) -> Json<serde_json::Value> {
    Json(json::operation(&reply))
}

async fn members(State(core): State<CoreHandle>, Extension(who): Extension<Identity>) -> Replied {
    let operator = Operator::admit(&core, &who, Privilege::SeeAll).await?;
    Ok(Json(json::members(&operator.members().await?)))
}

#[derive(Debug, Deserialize)]
struct NewNode {
    name: String,
    address: String,
}

async fn add(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Query(NewNode { name, address }): Query<NewNode>,
) -> Replied {
    let operator = Operator::admit(&core, &who, Privilege::OperateAll).await?;
    let v1::AddMemberReply { node, token } =
        operator.add(v1::AddMemberRequest { name, address }).await?;
    Ok(Json(json!({ "node": node, "token": token })))
}

async fn remove(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(node): Path<String>,
) -> Replied {
    let operator = Operator::admit(&core, &who, Privilege::OperateAll).await?;
    operator.remove(&node).await.map(operation_reply)
}

async fn change(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path((node, operation)): Path<(String, String)>,
) -> Replied {
    let operator = Operator::admit(&core, &who, Privilege::OperateAll).await?;
    match operation.as_str() {
        "promote" => operator.promote(&node).await.map(operation_reply),
        "demote" => operator.demote(&node).await.map(operation_reply),
        "evict" => operator.evict(&node, false).await.map(operation_reply),
        _ => Err(ApiError::bad_request(format!(
            "unknown operation `{operation}`: use promote, demote or evict"
        ))),
    }
}

#[derive(Debug, Deserialize)]
struct Change {
    k: Option<String>,
    names: Option<String>,
    #[serde(default)]
    no_names: bool,
    policy: Option<String>,
    #[serde(default)]
    no_wait: bool,
    #[serde(default)]
    timeout_ms: u64,
}

async fn set(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(gate): Path<String>,
    Query(Change { k, names, no_names, policy, no_wait, timeout_ms }): Query<Change>,
) -> Replied {
    let policy = match policy.as_deref() {
        None => v1::Policy::Unspecified,
        Some(name) => v1::Policy::from_name(name).ok_or_else(|| {
            ApiError::bad_request(format!("unknown policy `{name}`: use lease or hold"))
        })?,
    };
    let WantedSlots { k, expression, names } = WantedSlots::of_query(k, names);
    let request = v1::SetGateRequest {
        gate,
        k: k.unwrap_or(0),
        no_wait,
        timeout_ms,
        policy: policy.into(),
        keep_k: k.is_none(),
        names,
        no_names,
        k_expression: expression,
    };
    Ok(Json(json::set(&super::set::set(&core, &who, request).await?)))
}

async fn timing(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
) -> Answer<String> {
    core.access.authorise(&who, Privilege::SeeAll)?;
    let none = || ApiError::bad_request("this node has no leases");
    core.timing.map(|timing| timing.to_string()).ok_or_else(none)
}

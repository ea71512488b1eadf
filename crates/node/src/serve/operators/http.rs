//! The same by HTTP and JSON.
//!
//! ```text
//! GET    /v1/members                             who takes part, who votes
//! POST   /v1/members?name=NAME&address=HOST:PORT a node may take part: the token that it starts with
//! DELETE /v1/members/NODE                        it takes part no more
//! POST   /v1/members/NODE/promote                it votes; /demote: it does not; /evict: what it holds comes back
//! POST   /v1/set/NAME?k=K&policy=&no_wait=&timeout_ms=   another k or policy for a gate
//! GET    /v1/timing                              the numbers of the leases
//! ```

use axum::extract::{Extension, Path, Query, State};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use kgate_api::{json, v1};
use serde::Deserialize;
use serde_json::json;

use super::{Answer, ApiError, Desk, Identity, Need, Operator};

pub(in crate::serve) fn routes(desk: Desk) -> Router {
    Router::new()
        .route("/v1/members", get(members).post(add))
        .route("/v1/members/{node}", delete(remove))
        .route("/v1/members/{node}/{deed}", post(change))
        .route("/v1/set/{*name}", post(set))
        .route("/v1/timing", get(timing))
        .with_state(desk)
}

type Replied = Answer<Json<serde_json::Value>>;

fn done(reply: v1::OperationReply) -> Json<serde_json::Value> {
    Json(json::operation(&reply))
}

async fn members(State(desk): State<Desk>, Extension(who): Extension<Identity>) -> Replied {
    let operator = Operator::admit(&desk, &who, Need::SeeAll).await?;
    Ok(Json(json::members(&operator.members().await?)))
}

#[derive(Debug, Deserialize)]
struct Newcomer {
    name: String,
    address: String,
}

async fn add(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Query(Newcomer { name, address }): Query<Newcomer>,
) -> Replied {
    let operator = Operator::admit(&desk, &who, Need::OperateAll).await?;
    let v1::AddMemberReply { node, token } =
        operator.add(v1::AddMemberRequest { name, address }).await?;
    Ok(Json(json!({ "node": node, "token": token })))
}

async fn remove(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(node): Path<String>,
) -> Replied {
    let operator = Operator::admit(&desk, &who, Need::OperateAll).await?;
    operator.remove(&node).await.map(done)
}

async fn change(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path((node, deed)): Path<(String, String)>,
) -> Replied {
    let operator = Operator::admit(&desk, &who, Need::OperateAll).await?;
    match deed.as_str() {
        "promote" => operator.promote(&node).await.map(done),
        "demote" => operator.demote(&node).await.map(done),
        "evict" => operator.evict(&node, false).await.map(done),
        _ => Err(ApiError::bad_request(format!(
            "unknown operation `{deed}`: use promote, demote or evict"
        ))),
    }
}

#[derive(Debug, Deserialize)]
struct Wish {
    k: Option<u32>,
    policy: Option<String>,
    #[serde(default)]
    no_wait: bool,
    #[serde(default)]
    timeout_ms: u64,
}

async fn set(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(gate): Path<String>,
    Query(Wish { k, policy, no_wait, timeout_ms }): Query<Wish>,
) -> Replied {
    let operator = Operator::admit(&desk, &who, Need::Operate(&gate)).await?;
    let policy = match policy.as_deref() {
        None => v1::Policy::Unspecified,
        Some(name) => v1::Policy::from_name(name).ok_or_else(|| {
            ApiError::bad_request(format!("unknown policy `{name}`: use lease or hold"))
        })?,
    };
    let (keep_k, k, policy) = (k.is_none(), k.unwrap_or(0), policy.into());
    let wish = v1::SetGateRequest { gate, k, no_wait, timeout_ms, policy, keep_k };
    Ok(Json(json::set(&operator.set(wish).await?)))
}

async fn timing(State(desk): State<Desk>, Extension(who): Extension<Identity>) -> Answer<String> {
    desk.guard.authorise(&who, Need::SeeAll)?;
    let none = || ApiError::bad_request("this node has no leases");
    desk.timing.map(|timing| timing.to_string()).ok_or_else(none)
}

//! HTTP and JSON, for people with curl and for machines that watch machines.
//!
//! ```text
//! GET  /healthz                      200 while the process runs
//! GET  /readyz                       200 while this node can grant; otherwise 503 and why not
//! GET  /metrics                      Prometheus' text form
//! GET  /v1/status                    all gates: who holds what, who waits
//! GET  /v1/gates/NAME                one gate
//! GET  /v1/gates/NAME/explain        why somebody waits, in sentences
//! GET  /v1/watch                     a line of JSON whenever something has changed
//! PUT  /v1/gates/NAME/hold?k=&weight=   a permit for as long as the request's body goes on: each line renews it, the line `release` gives it back
//! POST /v1/gates/NAME/permits?ttl=   a permit that the log holds; /v1/permits/ID to renew it and to give it back (`permits.rs`)
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use kgate_api::v1::ErrorCode;
use kgate_api::{explain, json};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::authorisation::{Identity, Need};
use super::error::ApiError;
use super::visit::Visit;
use super::{Desk, grpc, permits};
use crate::core::{AcquireRequest, ClientMessage, DurableOptions, Process, ServerMessage};
use crate::shell::Command;

pub(super) fn routes(desk: Desk) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/watch", get(watch))
        .route("/v1/gates/{*name}", get(gate).put(hold).post(permits::acquire))
        .route("/v1/permits/{id}/renew", post(permits::renew))
        .route("/v1/permits/{id}", delete(permits::release))
        .route("/v1/hold/{*name}", put(hold))
        .with_state(desk)
}

/// For whoever asks for something else.
const PATHS: &str = "\
GET    /healthz
GET    /readyz
GET    /metrics
GET    /v1/status
GET    /v1/watch
GET    /v1/gates/NAME
GET    /v1/gates/NAME/explain
PUT    /v1/gates/NAME/hold
POST   /v1/gates/NAME/permits
POST   /v1/permits/ID/renew
DELETE /v1/permits/ID
GET    /v1/members
POST   /v1/members
DELETE /v1/members/NODE
POST   /v1/members/NODE/promote
POST   /v1/members/NODE/demote
POST   /v1/members/NODE/evict
POST   /v1/set/NAME
GET    /v1/timing
";

/// No path of ours.
pub(super) async fn nowhere(request: Request) -> Response {
    if grpc::is_grpc(request.headers()) {
        return tonic::Status::unimplemented("this node has no such service").into_http();
    }
    let text = format!("there is no {} at this node: there are\n{PATHS}", request.uri().path());
    (StatusCode::NOT_FOUND, text).into_response()
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Open to whoever can connect, as balancers and probes have no rights of their own.
async fn readyz(State(desk): State<Desk>) -> Response {
    match desk.unready().await {
        None => "ready\n".into_response(),
        Some(why) => {
            let message = format!("node {} grants nothing now: {why}", desk.node);
            ApiError::new(ErrorCode::NoQuorum, message).into_response()
        }
    }
}

async fn metrics(State(desk): State<Desk>, Extension(who): Extension<Identity>) -> Response {
    if let Err(refusal) = desk.guard.authorise(&who, Need::SeeAll) {
        return refusal.into_response();
    }
    match desk.numbers().await {
        Some(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        None => ApiError::stopped().into_response(),
    }
}

async fn status(State(desk): State<Desk>, Extension(who): Extension<Identity>) -> Response {
    if let Err(refusal) = desk.guard.authorise(&who, Need::SeeSome) {
        return refusal.into_response();
    }
    let reply = desk.show(&who, None).await;
    match reply {
        Some(reply) => axum::Json(json::status(&reply)).into_response(),
        None => ApiError::stopped().into_response(),
    }
}

/// `NAME`, or `NAME/explain`: names of gates may have slashes.
async fn gate(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
) -> Response {
    let (name, explains) = match path.strip_suffix("/explain") {
        Some(name) => (name.to_owned(), true),
        None => (path, false),
    };
    if let Err(refusal) = desk.guard.authorise(&who, Need::See(&name)) {
        return refusal.into_response();
    }
    let Some(reply) = desk.show(&who, Some(name.clone())).await else {
        return ApiError::stopped().into_response();
    };
    match reply.gates.first() {
        None => ApiError::new(ErrorCode::GateNotFound, format!("there is no gate `{name}`"))
            .into_response(),
        Some(gate) if explains => explain(&reply, gate).into_response(),
        Some(gate) => axum::Json(json::gate(gate)).into_response(),
    }
}

async fn watch(State(desk): State<Desk>, Extension(who): Extension<Identity>) -> Response {
    if let Err(refusal) = desk.guard.authorise(&who, Need::SeeSome) {
        return refusal.into_response();
    }
    let (lines, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        desk.watch(&who, None, |reply| {
            let lines = lines.clone();
            async move { lines.send(line(&json::status(&reply))).await.is_ok() }
        })
        .await;
    });
    streamed(stream)
}

fn line(value: &serde_json::Value) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(format!("{value}\n")))
}

fn streamed(stream: mpsc::Receiver<Result<Bytes, Infallible>>) -> Response {
    let body = Body::from_stream(ReceiverStream::new(stream));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

#[derive(Debug, Deserialize)]
struct Wish {
    k: Option<u32>,
    weight: Option<u32>,
    #[serde(default)]
    no_wait: bool,
}

async fn hold(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
    Query(wish): Query<Wish>,
    body: Body,
) -> Response {
    let gate = path.strip_suffix("/hold").unwrap_or(&path).to_owned();
    let visit = match Visit::begin(desk.guard.clone(), who) {
        Ok(visit) => visit,
        Err(refusal) => return refusal.into_response(),
    };
    let process = Process { command: "HTTP".into(), ..Process::default() };
    let mut hello = ClientMessage::Hello { process, resume: None, secret: grpc::new_secret() };
    let mut acquire = ClientMessage::Acquire {
        number: 0,
        request: AcquireRequest {
            gate,
            weight: wish.weight.unwrap_or(1),
            k: wish.k,
            wait: !wish.no_wait,
            process: None,
            durable: DurableOptions::default(),
        },
    };
    for ask in [&mut hello, &mut acquire] {
        if let Err((_, refusal)) = visit.hears(ask) {
            return refusal.into_response();
        }
    }
    let Some((client, _, mut told)) = desk.open().await else {
        return ApiError::stopped().into_response();
    };
    desk.send(Command::Client(client, hello)).await;
    desk.send(Command::Client(client, acquire)).await;
    tokio::spawn(renew(desk.clone(), visit.clone(), client, body));
    let (lines, stream) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Some(tell) = told.recv().await {
            visit.tells(&tell);
            let Some(value) = shown(&tell) else { continue };
            if lines.send(line(&value)).await.is_err() {
                return;
            }
        }
    });
    streamed(stream)
}

/// Each piece of the body says that the client is there; its end says nothing, and the session runs
/// out by itself.
async fn renew(desk: Desk, visit: Arc<Visit>, client: crate::core::ClientId, body: Body) {
    let mut pieces = body.into_data_stream();
    let mut sequence = 0;
    while let Some(Ok(piece)) = pieces.next().await {
        visit.pace().await;
        sequence += 1;
        let released =
            piece.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == b"release");
        let mut ask = if released { ClientMessage::Bye } else { ClientMessage::Renew { sequence } };
        let _never_refused = visit.hears(&mut ask);
        if !desk.send(Command::Client(client, ask)).await || released {
            return visit.end();
        }
    }
    desk.send(Command::Gone(client)).await;
    visit.end();
}

fn shown(tell: &ServerMessage) -> Option<serde_json::Value> {
    match tell {
        ServerMessage::Granted { slots, fence, k, .. } => {
            let fence = fence.map(|fence| format!("{:032x}", fence.0));
            Some(json!({ "granted": { "slots": slots, "fence": fence, "k": k } }))
        }
        ServerMessage::Refused { code: why, message: text, .. }
        | ServerMessage::Closed { code: why, message: text } => {
            Some(json!({ "refused": json::error(*why, text) }))
        }
        ServerMessage::Lost { message: text, .. } => Some(json!({ "lost": { "message": text } })),
        ServerMessage::Renewed { valid_for, .. } => {
            Some(json!({ "renewed": { "valid_for_ms": valid_for.map(|span| span.0 / 1_000_000) } }))
        }
        ServerMessage::Welcome { .. }
        | ServerMessage::Withdrawn { .. }
        | ServerMessage::Released { .. }
        | ServerMessage::PermitRenewed { .. } => None,
    }
}

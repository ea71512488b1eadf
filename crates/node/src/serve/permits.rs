//! Permits that the log holds, over HTTP: no stream and no session keeps them, so a script with
//! curl can.
//!
//! ```text
//! POST   /v1/gates/NAME/permits?ttl_ms=600000&k=&weight=&no_wait=&timeout_ms=
//!                                201 {permit_id, secret, fence, slots, k, ttl_ms}; waits at most `timeout_ms`
//! POST   /v1/permits/ID/renew    200 {permit_id, ttl_ms}; the header `Kgate-Secret` has the secret
//! DELETE /v1/permits/ID          204; the same header, at any node, idempotent; `Kgate-Was-Gone: true` if the
//!                                permit was not held any more
//! ```
//!
//! The TTL starts when the request is sent. Without `ttl_ms` the gate's policy must be
//! `hold`, and the permit has no end of its own.

use std::time::Duration;

use axum::extract::{Extension, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use kgate_api::v1::ErrorCode;
use kgate_control::state::PermitId;
use kgate_core::Span;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;

use super::authorisation::Identity;
use super::error::ApiError;
use super::visit::Visit;
use super::{Desk, grpc};
use crate::core::{
    AcquireRequest, ClientId, ClientMessage, DurableGrant, DurableOptions, PermitCommand, Process,
    Secret, ServerMessage,
};
use crate::shell::Command;

/// The header that shows a permit's secret.
const SECRET: &str = "kgate-secret";

/// The header that says that a permit was not held any more when it was given back.
const WAS_GONE: &str = "kgate-was-gone";

#[derive(Debug, Deserialize)]
pub(super) struct Wish {
    ttl_ms: Option<u64>,
    k: Option<u32>,
    weight: Option<u32>,
    #[serde(default)]
    no_wait: bool,
    timeout_ms: Option<u64>,
}

/// A permit that the log holds.
pub(super) async fn acquire(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
    Query(wish): Query<Wish>,
    headers: HeaderMap,
) -> Response {
    let Some(gate) = path.strip_suffix("/permits").map(str::to_owned) else {
        let message = "POST to /v1/gates/NAME/permits acquires a durable permit";
        return ApiError::bad_request(message).into_response();
    };
    // Who asks again with the secret that it has is given what the log holds for it.
    let secret = shown(&headers).unwrap_or_else(grpc::new_secret);
    let ask = ClientMessage::Acquire {
        number: 0,
        request: AcquireRequest {
            gate,
            weight: wish.weight.unwrap_or(1),
            k: wish.k,
            wait: !wish.no_wait,
            process: None,
            durable: DurableOptions { policy: None, ttl: wish.ttl_ms.map(ms), secret },
        },
    };
    let wait = wish.timeout_ms.map_or(Duration::MAX, Duration::from_millis);
    let Ok(answer) = tokio::time::timeout(wait, answer(&desk, who, ask)).await else {
        let message = format!("timed out: no permit was free within {wait:?}");
        return ApiError::new(ErrorCode::TimedOut, message).into_response();
    };
    match answer {
        Ok(ServerMessage::Granted { slots, fence, k, durable: Some(kept), .. }) => {
            let body = json!({
                "permit_id": kept.permit.0,
                "secret": format!("{:032x}", secret.0),
                "fence": fence.map(|fence| format!("{:032x}", fence.0)),
                "slots": slots,
                "k": k,
                "ttl_ms": kept.ttl.map(in_ms),
            });
            (StatusCode::CREATED, axum::Json(body)).into_response()
        }
        Ok(ServerMessage::Granted { .. }) => {
            let message = "the gate has policy lease: pass ttl_ms, or set its policy to hold";
            ApiError::bad_request(message).into_response()
        }
        Ok(tell) => said_no(tell),
        Err(response) => response,
    }
}

/// Its holder is alive.
pub(super) async fn renew(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Response {
    match word(&desk, who, id, &headers, PermitCommand::Renew).await {
        Ok(ServerMessage::PermitRenewed { durable: DurableGrant { permit, ttl }, .. }) => {
            axum::Json(json!({ "permit_id": permit.0, "ttl_ms": ttl.map(in_ms) })).into_response()
        }
        Ok(tell) => said_no(tell),
        Err(response) => response,
    }
}

/// Its holder gives it back.
pub(super) async fn release(
    State(desk): State<Desk>,
    Extension(who): Extension<Identity>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Response {
    match word(&desk, who, id, &headers, PermitCommand::Release).await {
        Ok(ServerMessage::Released { was_gone: false, .. }) => {
            StatusCode::NO_CONTENT.into_response()
        }
        // Over either way; but whoever still worked under it wants to know.
        Ok(ServerMessage::Released { was_gone: true, .. }) => {
            (StatusCode::NO_CONTENT, [(WAS_GONE, "true")]).into_response()
        }
        Ok(tell) => said_no(tell),
        Err(response) => response,
    }
}

async fn word(
    desk: &Desk,
    who: Identity,
    id: u64,
    headers: &HeaderMap,
    word: PermitCommand,
) -> Result<ServerMessage, Response> {
    let Some(secret) = shown(headers) else {
        let message = "missing header Kgate-Secret: 32 hexadecimal digits";
        return Err(ApiError::bad_request(message).into_response());
    };
    answer(
        desk,
        who,
        ClientMessage::Permit { number: 0, permit: PermitId(id), secret, command: word },
    )
    .await
}

/// Asks one thing by a stream of its own, and hears the answer.
async fn answer(
    desk: &Desk,
    who: Identity,
    mut ask: ClientMessage,
) -> Result<ServerMessage, Response> {
    let visit = Visit::begin(desk.guard.clone(), who).map_err(IntoResponse::into_response)?;
    let process = Process { command: "HTTP".into(), ..Process::default() };
    let mut hello = ClientMessage::Hello { process, resume: None, secret: grpc::new_secret() };
    for ask in [&mut hello, &mut ask] {
        visit.hears(ask).map_err(|(_, refusal)| refusal.into_response())?;
    }
    let (client, _, mut told) =
        desk.open().await.ok_or_else(|| ApiError::stopped().into_response())?;
    let _line = Line { desk: desk.clone(), client };
    desk.send(Command::Client(client, hello)).await;
    desk.send(Command::Client(client, ask)).await;
    let tell = heard(&mut told).await.ok_or_else(|| ApiError::stopped().into_response())?;
    visit.tells(&tell);
    let mut bye = ClientMessage::Bye;
    let _never_refused = visit.hears(&mut bye);
    desk.send(Command::Client(client, bye)).await;
    visit.end();
    Ok(tell)
}

/// A stream that ends when nobody waits for its answer any more: then what it waits for is taken
/// back.
struct Line {
    desk: Desk,
    client: ClientId,
}

impl Drop for Line {
    fn drop(&mut self) {
        let (desk, client) = (self.desk.clone(), self.client);
        tokio::spawn(async move { desk.send(Command::Gone(client)).await });
    }
}

async fn heard(told: &mut mpsc::Receiver<ServerMessage>) -> Option<ServerMessage> {
    loop {
        let tell = told.recv().await?;
        if !matches!(tell, ServerMessage::Welcome { .. }) {
            return Some(tell);
        }
    }
}

fn said_no(tell: ServerMessage) -> Response {
    match tell {
        ServerMessage::Refused { code: why, message: text, .. }
        | ServerMessage::Closed { code: why, message: text } => {
            ApiError::new(why, text).into_response()
        }
        _ => ApiError::unexpected_reply().into_response(),
    }
}

fn shown(headers: &HeaderMap) -> Option<Secret> {
    let text = headers.get(SECRET)?.to_str().ok()?.trim();
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16).ok().filter(|secret| digits && *secret != 0).map(Secret)
}

fn ms(ms: u64) -> Span {
    Span(ms.saturating_mul(1_000_000))
}

fn in_ms(span: Span) -> u64 {
    span.0 / 1_000_000
}

//! Durable permits over HTTP, for scripts with curl: no stream and no session is needed to keep
//! them.
//!
//! ```text
//! POST   /v1/gates/NAME/permits?ttl_ms=600000&k=&names=&weight=&no_wait=&timeout_ms=
//!                                201 {permit_id, secret, fence, slots, slot_names, k, ttl_ms}
//! POST   /v1/permits/ID/renew    200 {permit_id, ttl_ms}; the header `Kgate-Secret` has the secret
//! DELETE /v1/permits/ID          204; the same header, at any node, idempotent. The header
//!                                `Kgate-Was-Gone: true` in the reply: it was not held any more
//! ```
//!
//! The TTL starts when the request is sent. Without `ttl_ms` the gate's policy must be `hold`, and
//! the permit never expires.

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
use super::client_stream::ClientStream;
use super::error::ApiError;
use super::http::OpenStream;
use super::wanted::WantedSlots;
use super::{CoreHandle, session};
use crate::core::{
    AcquireRequest, ClientMessage, DurableGrant, DurableOptions, PermitCommand, Secret,
    ServerMessage,
};
use crate::holder_tree::Peer;

/// The request header that carries the secret of a permit.
const SECRET: &str = "kgate-secret";

/// The reply header for a released permit that was not held any more.
const WAS_GONE: &str = "kgate-was-gone";

#[derive(Debug, Deserialize)]
pub(super) struct AcquireOptions {
    ttl_ms: Option<u64>,
    k: Option<String>,
    names: Option<String>,
    weight: Option<u32>,
    #[serde(default)]
    no_wait: bool,
    timeout_ms: Option<u64>,
}

/// Acquires a durable permit.
pub(super) async fn acquire(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
    Query(options): Query<AcquireOptions>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let peer = peer.map(|Extension(peer)| peer);
    let Some(gate) = path.strip_suffix("/permits").map(str::to_owned) else {
        return Err(ApiError::bad_request("unknown operation: POST to /v1/gates/NAME/permits"));
    };
    // A repeated request with the same secret yields the same permit.
    let secret = secret_of(&headers).unwrap_or_else(session::new_secret);
    let message = ClientMessage::Acquire {
        number: 0,
        request: Box::new(AcquireRequest {
            weight: options.weight.unwrap_or(1),
            k: WantedSlots::of_query(options.k, options.names).resolve()?,
            wait: !options.no_wait,
            durable: DurableOptions { policy: None, ttl: options.ttl_ms.map(ms), secret },
            ..AcquireRequest::new(gate)
        }),
    };
    let timeout = options.timeout_ms.map_or(Duration::MAX, Duration::from_millis);
    let reply = tokio::time::timeout(timeout, call(&core, who, peer, message)).await;
    let timed_out = |_| {
        let message = format!("timed out: no permit was free within {timeout:?}");
        ApiError::new(ErrorCode::TimedOut, message)
    };
    let ServerMessage::Granted { slots, slot_names, fence, k, durable, .. } =
        reply.map_err(timed_out)??
    else {
        return Err(ApiError::unexpected_reply());
    };
    let Some(DurableGrant { permit, ttl }) = durable else {
        let message = "the gate has policy lease: pass ttl_ms, or set its policy to hold";
        return Err(ApiError::bad_request(message));
    };
    let body = json!({
        "permit_id": permit.0,
        "secret": format!("{:032x}", secret.0),
        "fence": fence.map(|fence| format!("{:032x}", fence.0)),
        "slots": slots,
        "slot_names": slot_names,
        "k": k,
        "ttl_ms": ttl.map(in_ms),
    });
    Ok((StatusCode::CREATED, axum::Json(body)).into_response())
}

/// Renews a permit.
pub(super) async fn renew(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let reply = command(&core, who, id, &headers, PermitCommand::Renew).await?;
    let ServerMessage::PermitRenewed { durable: DurableGrant { permit, ttl }, .. } = reply else {
        return Err(ApiError::unexpected_reply());
    };
    let body = json!({ "permit_id": permit.0, "ttl_ms": ttl.map(in_ms) });
    Ok(axum::Json(body).into_response())
}

/// Releases a permit.
pub(super) async fn release(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(id): Path<u64>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let reply = command(&core, who, id, &headers, PermitCommand::Release).await?;
    let ServerMessage::Released { was_gone, .. } = reply else {
        return Err(ApiError::unexpected_reply());
    };
    // Released either way, but a client that still worked under the permit should know.
    Ok(match was_gone {
        true => (StatusCode::NO_CONTENT, [(WAS_GONE, "true")]).into_response(),
        false => StatusCode::NO_CONTENT.into_response(),
    })
}

async fn command(
    core: &CoreHandle,
    who: Identity,
    id: u64,
    headers: &HeaderMap,
    command: PermitCommand,
) -> Result<ServerMessage, ApiError> {
    let missing = || ApiError::bad_request("missing header Kgate-Secret: 32 hexadecimal digits");
    let secret = secret_of(headers).ok_or_else(missing)?;
    let permit = PermitId(id);
    call(core, who, None, ClientMessage::Permit { number: 0, permit, secret, command }).await
}

/// Sends one message on a stream of its own and returns the reply; a refusal is the error.
async fn call(
    core: &CoreHandle,
    who: Identity,
    peer: Option<Peer>,
    message: ClientMessage,
) -> Result<ServerMessage, ApiError> {
    let client_stream = ClientStream::open(core.access.clone(), who)?;
    let (open_stream, mut replies) = OpenStream::begin(core, &client_stream, peer, message).await?;
    let reply = first_reply(&mut replies).await.ok_or_else(ApiError::stopped)?;
    client_stream.on_reply(&reply);
    let mut bye = ClientMessage::Bye;
    let _never_refused = client_stream.admit(&mut bye);
    open_stream.send(bye).await;
    client_stream.close();
    if let ServerMessage::Refused { code, message, .. } | ServerMessage::Closed { code, message } =
        reply
    {
        return Err(ApiError::new(code, message));
    }
    Ok(reply)
}

/// The first reply after the welcome.
async fn first_reply(replies: &mut mpsc::Receiver<ServerMessage>) -> Option<ServerMessage> {
    loop {
        let reply = replies.recv().await?;
        if !matches!(reply, ServerMessage::Welcome { .. }) {
            return Some(reply);
        }
    }
}

fn secret_of(headers: &HeaderMap) -> Option<Secret> {
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

//! The API over HTTP and JSON, for curl, load balancers and monitoring. Each error is a JSON object
//! `{code, message}`.
//!
//! ```text
//! GET  /healthz                      200 while the process runs
//! GET  /readyz                       200 while this node can grant, else 503 and the reason
//! GET  /metrics                      Prometheus' text format
//! GET  /v1/status                    all gates: holders and queues
//! GET  /v1/gates/NAME                one gate
//! GET  /v1/gates/NAME/explain        why requests wait, in sentences
//! GET  /v1/watch                     one line of JSON now and after each change
//! PUT  /v1/gates/NAME/hold?k=&names=&weight=&reason=&meta=   a permit as long as the request body
//!                                    lasts: each line renews it, the line `release` releases it;
//!                                    not where permits are bound to processes
//! POST /v1/gates/NAME/permits?ttl_ms=   a durable permit; see `durable.rs`
//! ```

use std::collections::BTreeMap;
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

use super::authorisation::{Identity, Privilege};
use super::client_stream::ClientStream;
use super::error::ApiError;
use super::wanted::WantedSlots;
use super::{CoreHandle, durable, grpc, session};
use crate::core::{AcquireRequest, ClientId, ClientMessage, Note, Process, ServerMessage};
use crate::holder_tree::Peer;
use crate::shell::Command;
use crate::slot_files::describe_process;

pub(super) fn routes(core: CoreHandle) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/watch", get(watch))
        .route("/v1/gates/{*name}", get(gate).put(hold).post(durable::acquire))
        .route("/v1/permits/{id}/renew", post(durable::renew))
        .route("/v1/permits/{id}", delete(durable::release))
        .route("/v1/hold/{*name}", put(hold))
        .with_state(core)
}

type Replied = Result<Response, ApiError>;

/// The paths, for the reply to an unknown one.
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

/// The reply to an unknown path.
pub(super) async fn not_found(request: Request) -> Response {
    if grpc::is_grpc(request.headers()) {
        return tonic::Status::unimplemented("unknown service or method").into_http();
    }
    let message = format!("unknown path {}; known paths:\n{PATHS}", request.uri().path());
    let body = json::error(ErrorCode::BadRequest, &message);
    (StatusCode::NOT_FOUND, axum::Json(body)).into_response()
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Needs no right: load balancers and probes have none.
async fn readyz(State(core): State<CoreHandle>) -> Result<&'static str, ApiError> {
    match core.unready().await {
        None => Ok("ready\n"),
        Some(why) => {
            let message = format!("node {} grants nothing now: {why}", core.node);
            Err(ApiError::new(ErrorCode::NoQuorum, message))
        }
    }
}

async fn metrics(State(core): State<CoreHandle>, Extension(who): Extension<Identity>) -> Replied {
    core.access.authorise(&who, Privilege::SeeAll)?;
    let text = core.metrics().await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

async fn status(State(core): State<CoreHandle>, Extension(who): Extension<Identity>) -> Replied {
    core.access.authorise(&who, Privilege::SeeSome)?;
    let reply = core.status(&who, None).await?;
    Ok(axum::Json(json::status(&reply)).into_response())
}

/// `NAME` or `NAME/explain`. Gate names may contain slashes.
async fn gate(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
) -> Replied {
    let (name, explains) = match path.strip_suffix("/explain") {
        Some(name) => (name.to_owned(), true),
        None => (path, false),
    };
    core.access.authorise(&who, Privilege::See(&name))?;
    let reply = core.status(&who, Some(name.clone())).await?;
    match reply.gates.first() {
        None => Err(ApiError::new(ErrorCode::GateNotFound, format!("no gate `{name}`"))),
        Some(gate) if explains => Ok(explain(&reply, gate).into_response()),
        Some(gate) => Ok(axum::Json(json::gate(gate)).into_response()),
    }
}

async fn watch(State(core): State<CoreHandle>, Extension(who): Extension<Identity>) -> Replied {
    core.access.authorise(&who, Privilege::SeeSome)?;
    let (lines, stream) = mpsc::channel(1);
    tokio::spawn(async move {
        core.watch(&who, None, |reply| {
            let lines = lines.clone();
            async move { lines.send(line(&json::status(&reply))).await.is_ok() }
        })
        .await;
    });
    Ok(streamed(stream))
}

fn line(value: &serde_json::Value) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(format!("{value}\n")))
}

fn streamed(stream: mpsc::Receiver<Result<Bytes, Infallible>>) -> Response {
    let body = Body::from_stream(ReceiverStream::new(stream));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

#[derive(Debug, Deserialize)]
struct HoldOptions {
    k: Option<String>,
    names: Option<String>,
    weight: Option<u32>,
    #[serde(default)]
    no_wait: bool,
    #[serde(default)]
    reason: String,
    /// Pairs `KEY=VALUE`, separated by commas.
    meta: Option<String>,
}

/// The pairs in `a=1,b=2`.
fn meta(text: &str) -> Result<BTreeMap<String, String>, ApiError> {
    let mut pairs = BTreeMap::new();
    for pair in text.split(',') {
        let malformed =
            || ApiError::bad_request("malformed meta: write KEY=VALUE,KEY=VALUE, each key once");
        let (key, value) = pair.split_once('=').ok_or_else(malformed)?;
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(malformed());
        }
    }
    Ok(pairs)
}

/// Why a node that binds permits to processes has no `hold`: its answer names no lock file, and the
/// process that sends the request (curl) is not the one that uses the slots. So after `kill -9` of
/// this node nothing would show that they are in use, and the next node would grant them again.
const UNBOUND: &str = "this node binds permits to processes, and nothing binds a hold over HTTP to \
    one: use `kgate run GATE CMD`, `kgate acquire GATE` in a script, or a client library; only \
    nodes with leases have `hold`";

/// The process behind a request: on a Unix socket the kernel knows it.
fn process_of(peer: Option<Peer>) -> Process {
    let known = peer.and_then(|peer| u32::try_from(peer.pid?).ok()).map(describe_process);
    let command = known.as_ref().map_or_else(String::new, |known| format!(" ({})", known.command));
    Process { command: format!("HTTP{command}"), ..known.unwrap_or_default() }.cut()
}

async fn hold(
    State(core): State<CoreHandle>,
    Extension(who): Extension<Identity>,
    Path(path): Path<String>,
    Query(options): Query<HoldOptions>,
    peer: Option<Extension<Peer>>,
    body: Body,
) -> Replied {
    if core.access.binds_to_processes {
        return Err(ApiError::bad_request(UNBOUND));
    }
    let gate = path.strip_suffix("/hold").unwrap_or(&path).to_owned();
    let meta = options.meta.as_deref().map(meta).transpose()?.unwrap_or_default();
    let acquire = ClientMessage::Acquire {
        number: 0,
        request: Box::new(AcquireRequest {
            weight: options.weight.unwrap_or(1),
            k: WantedSlots::of_query(options.k, options.names).resolve()?,
            wait: !options.no_wait,
            note: Note { reason: options.reason, meta },
            ..AcquireRequest::new(gate)
        }),
    };
    let client_stream = ClientStream::open(core.access.clone(), who)?;
    let peer = peer.map(|Extension(peer)| peer);
    let (open_stream, mut replies) =
        OpenStream::begin(&core, &client_stream, peer, acquire).await?;
    tokio::spawn(renew(open_stream, client_stream.clone(), body));
    let (lines, stream) = mpsc::channel(16);
    tokio::spawn(async move {
        while let Some(reply) = replies.recv().await {
            client_stream.on_reply(&reply);
            let Some(value) = to_json(&reply) else { continue };
            if lines.send(line(&value)).await.is_err() {
                return;
            }
        }
    });
    Ok(streamed(stream))
}

/// Each chunk of the request body renews the session; the line `release` ends it. The end of the
/// body does not: then the session expires.
async fn renew(open_stream: OpenStream, client_stream: Arc<ClientStream>, body: Body) {
    let mut chunks = body.into_data_stream();
    let mut sequence = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        client_stream.pace().await;
        sequence += 1;
        let released =
            chunk.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == b"release");
        let mut message =
            if released { ClientMessage::Bye } else { ClientMessage::Renew { sequence } };
        let _never_refused = client_stream.admit(&mut message);
        if !open_stream.send(message).await || released {
            break;
        }
    }
    client_stream.close();
}

/// A stream of the core for one HTTP request. It ends when this is dropped, so a request whose
/// caller has gone is cancelled.
pub(super) struct OpenStream {
    core: CoreHandle,
    client: ClientId,
}

impl OpenStream {
    /// Opens the stream, and sends its first message. Returns the replies, too.
    pub(super) async fn begin(
        core: &CoreHandle,
        client_stream: &ClientStream,
        peer: Option<Peer>,
        mut message: ClientMessage,
    ) -> Result<(Self, mpsc::Receiver<ServerMessage>), ApiError> {
        let process = process_of(peer);
        let mut hello =
            ClientMessage::Hello { process, resume: None, secret: session::new_secret() };
        for message in [&mut hello, &mut message] {
            client_stream.admit(message).map_err(|(_, error)| error)?;
        }
        let (client, _, replies) = core.open(None).await?;
        let open_stream = Self { core: core.clone(), client };
        open_stream.send(hello).await;
        open_stream.send(message).await;
        Ok((open_stream, replies))
    }

    /// False if the node has stopped.
    pub(super) async fn send(&self, message: ClientMessage) -> bool {
        self.core.send(Command::Client(self.client, message)).await
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let (core, client) = (self.core.clone(), self.client);
        tokio::spawn(async move { core.send(Command::Gone(client)).await });
    }
}

fn to_json(reply: &ServerMessage) -> Option<serde_json::Value> {
    match reply {
        ServerMessage::Granted { slots, fence, k, slot_names, .. } => {
            let fence = fence.map(|fence| format!("{:032x}", fence.0));
            Some(json!({ "granted": {
                "slots": slots, "slot_names": slot_names, "fence": fence, "k": k,
            } }))
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
        | ServerMessage::PermitRenewed { .. }
        | ServerMessage::OnceMarked { .. } => None,
    }
}

//! gRPC: sessions, status, watch.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use kgate_api::v1;
use kgate_api::v1::client_message::Message as Said;
use kgate_api::v1::gates_server::Gates;
use kgate_api::v1::server_message::Message as Say;
use kgate_control::state::{PermitId, Policy};
use kgate_control::timing::Timing;
use kgate_core::Span;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::Desk;
use super::authorisation::{Identity, Need};
use super::error::ApiError;
use super::visit::Visit;
use crate::core::{
    AcquireRequest, ClientId, ClientMessage, DurableGrant, DurableOptions, PermitCommand, Process,
    Secret, ServerMessage, SessionId,
};
use crate::shell::Command;

/// The service.
#[derive(Debug)]
pub(crate) struct Api(pub(super) Desk);

type Boxed<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Whether somebody speaks gRPC, and wants to be answered so.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Who asks, as the guard has found out.
pub(super) fn caller<T>(request: &Request<T>) -> Identity {
    request.extensions().get::<Identity>().cloned().expect("the guard has let it in")
}

/// Whether somebody may see one gate; of all, it is shown those that it may, and who may see none
/// is told so.
fn may_see(desk: &Desk, who: &Identity, gate: Option<&str>) -> Result<(), Status> {
    Ok(desk.guard.authorise(who, gate.map_or(Need::SeeSome, Need::See))?)
}

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<v1::ServerMessage>;
    type WatchStream = Boxed<v1::StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let desk = self.0.clone();
        let visit = Visit::begin(desk.guard.clone(), caller(&request))?;
        let (client, also, told) = desk.open().await.ok_or_else(ApiError::stopped)?;
        let (node, timing) = (desk.node, desk.timing);
        tokio::spawn(listen(desk, visit.clone(), client, also, request.into_inner()));
        let tells = ReceiverStream::new(told).map(move |tell| {
            visit.tells(&tell);
            Ok(v1::ServerMessage { message: Some(say(tell, node, timing)) })
        });
        Ok(Response::new(Box::pin(tells)))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let who = caller(&request);
        let gate = request.into_inner().gate;
        may_see(&self.0, &who, gate.as_deref())?;
        Ok(Response::new(self.0.show(&who, gate).await.ok_or_else(ApiError::stopped)?))
    }

    async fn watch(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (replies, stream) = mpsc::channel(1);
        let who = caller(&request);
        let (desk, gate) = (self.0.clone(), request.into_inner().gate);
        may_see(&desk, &who, gate.as_deref())?;
        tokio::spawn(async move {
            desk.watch(&who, gate, |reply| {
                let replies = replies.clone();
                async move { replies.send(Ok(reply)).await.is_ok() }
            })
            .await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Hands on what a client says, until it says nothing more.
async fn listen(
    desk: Desk,
    visit: Arc<Visit>,
    client: ClientId,
    also: mpsc::WeakSender<ServerMessage>,
    mut stream: Streaming<v1::ClientMessage>,
) {
    loop {
        let ask = match stream.message().await {
            Ok(Some(v1::ClientMessage { message })) => message,
            Ok(None) => break,
            Err(status) => {
                if let Some(refusal) = desk.guard.too_long(&status)
                    && let Some(tells) = also.upgrade()
                {
                    let _ = tells
                        .send(ServerMessage::Closed {
                            code: refusal.code,
                            message: refusal.message,
                        })
                        .await;
                }
                break;
            }
        };
        visit.pace().await;
        let Some(said) = ask else { continue };
        let mut ask = heard(said);
        if let Err((number, refusal)) = visit.hears(&mut ask) {
            let Some(tells) = also.upgrade() else { break };
            let refused =
                ServerMessage::Refused { number, code: refusal.code, message: refusal.message };
            if tells.send(refused).await.is_err() {
                break;
            }
        } else if !desk.send(Command::Client(client, ask)).await {
            break;
        }
    }
    desk.send(Command::Gone(client)).await;
    visit.end();
}

fn heard(said: Said) -> ClientMessage {
    match said {
        Said::Hello(v1::Hello { process, session_id, secret }) => {
            let secret = secret_of(&secret).unwrap_or(Secret::NONE);
            let resume = session_id.map(|session| (SessionId(session), secret));
            ClientMessage::Hello { process: process_of(process), resume, secret: new_secret() }
        }
        Said::Acquire(v1::Acquire {
            request_id: number,
            gate,
            weight,
            k,
            no_wait,
            process,
            policy,
            ttl_ns,
            secret,
        }) => ClientMessage::Acquire {
            number,
            request: AcquireRequest {
                gate,
                weight: weight.max(1),
                k,
                wait: !no_wait,
                process: process.map(|process| process_of(Some(process))),
                durable: DurableOptions {
                    policy: policy_of(policy),
                    ttl: ttl_ns.map(Span),
                    secret: secret_of(&secret).unwrap_or(Secret::NONE),
                },
            },
        },
        Said::PermitCommand(v1::PermitCommand {
            request_id: number,
            permit_id: permit,
            secret,
            release,
        }) => ClientMessage::Permit {
            number,
            permit: PermitId(permit),
            secret: secret_of(&secret).unwrap_or(Secret::NONE),
            command: if release { PermitCommand::Release } else { PermitCommand::Renew },
        },
        Said::Withdraw(v1::Withdraw { request_id: number }) => ClientMessage::Withdraw { number },
        Said::Release(v1::Release { request_id: number }) => ClientMessage::Release { number },
        Said::Renew(v1::Renew { sequence }) => ClientMessage::Renew { sequence },
        Said::EndSession(v1::EndSession {}) => ClientMessage::Bye,
    }
}

/// The secret that a client shows, if it is one.
fn secret_of(bytes: &[u8]) -> Option<Secret> {
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Secret(u128::from_be_bytes(bytes)))
}

/// The policy that a client wants, if it says so.
pub(super) fn policy_of(policy: i32) -> Option<Policy> {
    match v1::Policy::try_from(policy) {
        Ok(v1::Policy::Lease) => Some(Policy::Lease),
        Ok(v1::Policy::Hold) => Some(Policy::Hold),
        Ok(v1::Policy::Unspecified) | Err(_) => None,
    }
}

/// The same as it is told.
pub(super) fn policy(policy: Policy) -> v1::Policy {
    match policy {
        Policy::Lease => v1::Policy::Lease,
        Policy::Hold => v1::Policy::Hold,
    }
}

fn kept_of(kept: DurableGrant) -> v1::DurablePermit {
    v1::DurablePermit { permit_id: kept.permit.0, ttl_ns: kept.ttl.map(|span| span.0) }
}

/// A secret that nobody can guess.
pub(super) fn new_secret() -> Secret {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    Secret(u128::from_be_bytes(bytes))
}

fn process_of(process: Option<v1::Process>) -> Process {
    let v1::Process { pid, host, user, command } = process.unwrap_or_default();
    Process { pid, host, user, command }
}

fn say(tell: ServerMessage, node: u32, timing: Option<Timing>) -> Say {
    match tell {
        ServerMessage::Welcome { session, secret, valid_for, holds } => Say::Welcome(v1::Welcome {
            session_id: session.0,
            secret: secret.0.to_be_bytes().to_vec(),
            node,
            valid_for_ns: valid_for.map(|span| span.0),
            held_request_ids: holds,
            lease_ns: timing.map(|timing| timing.lease.0),
            renew_every_ns: timing.map(|timing| timing.session_ping.0),
            stop_max_ns: timing.map(|timing| (timing.grace_max() + timing.kill).0),
            kill_ns: timing.map(|timing| timing.kill.0),
        }),
        ServerMessage::PermitRenewed { number, durable: kept } => {
            Say::PermitRenewed(v1::PermitRenewed {
                request_id: number,
                permit: Some(kept_of(kept)),
            })
        }
        ServerMessage::Granted { number, slots, fence, k, durable: kept } => {
            let fence = fence.map(|fence| fence.0.to_be_bytes().to_vec());
            Say::Granted(v1::Granted {
                request_id: number,
                slots,
                fence,
                k,
                durable: kept.map(kept_of),
            })
        }
        ServerMessage::Refused { number, code: why, message: text } => {
            Say::Refused(v1::Refused { request_id: number, code: why.into(), message: text })
        }
        ServerMessage::Lost { number, message: text } => {
            Say::Lost(v1::Lost { request_id: number, message: text })
        }
        ServerMessage::Withdrawn { number } => Say::Withdrawn(v1::Withdrawn { request_id: number }),
        ServerMessage::Released { number, was_gone } => {
            Say::Released(v1::Released { request_id: number, was_gone })
        }
        ServerMessage::Renewed { sequence, valid_for } => {
            Say::Renewed(v1::Renewed { sequence, valid_for_ns: valid_for.map(|span| span.0) })
        }
        ServerMessage::Closed { code: why, message: text } => {
            Say::Closed(v1::Closed { code: why.into(), message: text })
        }
    }
}

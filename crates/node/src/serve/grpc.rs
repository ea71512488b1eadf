//! gRPC: sessions, status, watch.

use std::sync::Arc;

use axum::http::{HeaderMap, header};
use kgate_api::v1;
use kgate_api::v1::client_message::Message as Received;
use kgate_api::v1::gates_server::Gates;
use kgate_api::v1::server_message::Message as Sent;
use kgate_control::state::{PermitId, Policy};
use kgate_control::timing::Timing;
use kgate_core::Span;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::CoreHandle;
use super::authorisation::{Identity, Privilege};
use super::client_stream::ClientStream;
use super::error::ApiError;
use super::reentry;
use super::wanted::WantedSlots;
use crate::core::{
    AcquireRequest, ClientId, ClientMessage, DurableGrant, DurableOptions, MarkOnce, Note,
    PermitCommand, Process, ReentryKey, Secret, ServerMessage, SessionId,
};
use crate::holder_tree::{HolderTree, NotGuarded, Peer};
use crate::shell::Command;

/// The implementation of both services.
#[derive(Debug)]
pub(crate) struct Api(pub(super) CoreHandle);

type Boxed<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Whether a request is gRPC, so that its error must be too.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The identity of the client, which `access::identify` has added.
pub(super) fn caller<T>(request: &Request<T>) -> Identity {
    request.extensions().get::<Identity>().cloned().expect("`identify` adds it to each request")
}

/// The process at the other end of a Unix socket, by the kernel's word.
fn peer<T>(request: &Request<T>) -> Option<Peer> {
    request.extensions().get::<Peer>().copied()
}

/// Checks that the client may see a gate. The status of all gates is restricted to those that the
/// client may see; a client that may see none is refused.
fn may_see(core: &CoreHandle, who: &Identity, gate: Option<&str>) -> Result<(), Status> {
    Ok(core.access.authorise(who, gate.map_or(Privilege::SeeSome, Privilege::See))?)
}

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<v1::ServerMessage>;
    type WatchStream = Boxed<v1::StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let core = self.0.clone();
        let client_stream = ClientStream::open(core.access.clone(), caller(&request))?;
        let peer = peer(&request);
        let (client, replies, from_core) = core.open(peer).await?;
        let (node, timing) = (core.node, core.timing);
        let stream = request.into_inner();
        tokio::spawn(receive(core, client_stream.clone(), client, replies, peer, stream));
        let messages = ReceiverStream::new(from_core).map(move |message| {
            client_stream.on_reply(&message);
            let message = client_stream.add_guarded(encode(message, node, timing));
            Ok(v1::ServerMessage { message: Some(message) })
        });
        Ok(Response::new(Box::pin(messages)))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let who = caller(&request);
        let gate = request.into_inner().gate;
        may_see(&self.0, &who, gate.as_deref())?;
        Ok(Response::new(self.0.status(&who, gate).await?))
    }

    async fn reenter(
        &self,
        request: Request<v1::ReenterRequest>,
    ) -> Result<Response<v1::ReenterReply>, Status> {
        let (who, peer) = (caller(&request), peer(&request));
        Ok(Response::new(reentry::reenter(&self.0, &who, peer, request.into_inner()).await?))
    }

    async fn watch(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (replies, stream) = mpsc::channel(1);
        let who = caller(&request);
        let (core, gate) = (self.0.clone(), request.into_inner().gate);
        may_see(&core, &who, gate.as_deref())?;
        tokio::spawn(async move {
            core.watch(&who, gate, |reply| {
                let replies = replies.clone();
                async move { replies.send(Ok(reply)).await.is_ok() }
            })
            .await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Passes the messages of a client to the core until the stream ends.
async fn receive(
    core: CoreHandle,
    client_stream: Arc<ClientStream>,
    client: ClientId,
    replies: mpsc::WeakSender<ServerMessage>,
    peer: Option<Peer>,
    mut stream: Streaming<v1::ClientMessage>,
) {
    loop {
        let message = match stream.message().await {
            Ok(Some(v1::ClientMessage { message })) => message,
            Ok(None) => break,
            Err(status) => {
                if let Some(refusal) = core.access.too_long(&status)
                    && let Some(replies) = replies.upgrade()
                {
                    let _ = replies
                        .send(ServerMessage::Closed {
                            code: refusal.code,
                            message: refusal.message,
                        })
                        .await;
                }
                break;
            }
        };
        client_stream.pace().await;
        let Some(message) = message else { continue };
        if let Received::Hello(v1::Hello { front_pid: Some(front), control_group, .. }) = &message {
            let tree = peer
                .ok_or(NotGuarded::Remote)
                .and_then(|peer| HolderTree::open(peer, *front, control_group));
            if client_stream.set_guarded(&tree)
                && let Ok(tree) = tree
                && !core.send(Command::OfferTree(client, Arc::new(tree))).await
            {
                break;
            }
        }
        let message = decode(message);
        let admitted = message.and_then(|mut message| {
            client_stream.admit(&mut message)?;
            Ok(message)
        });
        let message = match admitted {
            Ok(message) => message,
            Err((number, refusal)) => {
                let Some(replies) = replies.upgrade() else { break };
                let ApiError { code, message } = refusal;
                if replies.send(ServerMessage::Refused { number, code, message }).await.is_err() {
                    break;
                }
                continue;
            }
        };
        if !core.send(Command::Client(client, message)).await {
            break;
        }
    }
    core.close(client).await;
    client_stream.close();
}

/// The message for the core, or the refusal of the request of that number.
fn decode(message: Received) -> Result<ClientMessage, (u64, ApiError)> {
    Ok(match message {
        Received::Hello(hello) => {
            let secret = secret_of(&hello.secret);
            let resume = hello.session_id.map(|session| (SessionId(session), secret));
            let process = process_of(hello.process.unwrap_or_default());
            ClientMessage::Hello { process, resume, secret: new_secret() }
        }
        Received::Acquire(acquire) => ClientMessage::Acquire {
            number: acquire.request_id,
            request: AcquireRequest {
                gate: acquire.gate,
                weight: acquire.weight.max(1),
                k: WantedSlots {
                    k: acquire.k,
                    expression: acquire.k_expression,
                    names: acquire.names,
                }
                .resolve()
                .map_err(|refusal| (acquire.request_id, refusal))?,
                wait: !acquire.no_wait,
                process: acquire.process.map(process_of),
                note: Box::new(Note { reason: acquire.reason, meta: acquire.meta }),
                durable: DurableOptions {
                    policy: policy_of(acquire.policy),
                    ttl: acquire.ttl_ns.map(Span),
                    secret: secret_of(&acquire.secret),
                },
            },
        },
        Received::PermitCommand(command) => ClientMessage::Permit {
            number: command.request_id,
            permit: PermitId(command.permit_id),
            secret: secret_of(&command.secret),
            command: if command.release { PermitCommand::Release } else { PermitCommand::Renew },
        },
        Received::MarkOnce(mark) => ClientMessage::MarkOnce {
            number: mark.request_id,
            mark: MarkOnce {
                permit: mark.permit_request_id,
                key: mark.key,
                ttl: Span(mark.ttl_ns),
                token: secret_of(&mark.token),
            },
        },
        Received::Withdraw(v1::Withdraw { request_id: number }) => {
            ClientMessage::Withdraw { number }
        }
        Received::Release(v1::Release { request_id: number }) => ClientMessage::Release { number },
        Received::Renew(v1::Renew { sequence }) => ClientMessage::Renew { sequence },
        Received::EndSession(v1::EndSession {}) => ClientMessage::Bye,
    })
}

/// The secret in a message; [`Secret::NONE`] unless it has 16 bytes.
fn secret_of(bytes: &[u8]) -> Secret {
    bytes.try_into().map_or(Secret::NONE, |bytes| Secret(u128::from_be_bytes(bytes)))
}

/// The policy in a request; none if unspecified.
pub(super) fn policy_of(policy: i32) -> Option<Policy> {
    match v1::Policy::try_from(policy) {
        Ok(v1::Policy::Lease) => Some(Policy::Lease),
        Ok(v1::Policy::Hold) => Some(Policy::Hold),
        Ok(v1::Policy::Unspecified) | Err(_) => None,
    }
}

/// The policy in a reply.
pub(super) fn policy(policy: Policy) -> v1::Policy {
    match policy {
        Policy::Lease => v1::Policy::Lease,
        Policy::Hold => v1::Policy::Hold,
    }
}

fn durable_permit(grant: DurableGrant) -> v1::DurablePermit {
    v1::DurablePermit { permit_id: grant.permit.0, ttl_ns: grant.ttl.map(|span| span.0) }
}

/// A random secret.
pub(super) fn new_secret() -> Secret {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system provides random bytes");
    Secret(u128::from_be_bytes(bytes))
}

fn process_of(process: v1::Process) -> Process {
    let v1::Process { pid, host, user, command } = process;
    Process { pid, host, user, command, note: Note::default() }
}

fn encode(message: ServerMessage, node: u32, timing: Option<Timing>) -> Sent {
    match message {
        ServerMessage::Welcome { session, secret, valid_for, holds } => {
            Sent::Welcome(v1::Welcome {
                session_id: session.0,
                secret: secret.0.to_be_bytes().to_vec(),
                node,
                valid_for_ns: valid_for.map(|span| span.0),
                held_request_ids: holds,
                lease_ns: timing.map(|timing| timing.lease.0),
                renew_every_ns: timing.map(|timing| timing.session_ping.0),
                stop_max_ns: timing.map(|timing| (timing.grace_max() + timing.kill).0),
                kill_ns: timing.map(|timing| timing.kill.0),
                guarded: false,
                unguarded_reason: String::new(),
            })
        }
        ServerMessage::PermitRenewed { number, durable: grant } => {
            Sent::PermitRenewed(v1::PermitRenewed {
                request_id: number,
                permit: Some(durable_permit(grant)),
            })
        }
        ServerMessage::Granted {
            number,
            gate: _,
            slots,
            fence,
            k,
            slot_names,
            durable,
            lock_files,
            reentry_key,
        } => Sent::Granted(v1::Granted {
            request_id: number,
            slots,
            fence: fence.map(|fence| fence.0.to_be_bytes().to_vec()),
            k,
            durable: durable.map(durable_permit),
            lock_files,
            slot_names,
            reentry_key: reentry_key.map(ReentryKey::to_text).unwrap_or_default(),
        }),
        ServerMessage::Refused { number, code: why, message: text } => {
            Sent::Refused(v1::Refused { request_id: number, code: why.into(), message: text })
        }
        ServerMessage::OnceMarked { number, used_by } => Sent::OnceMarked(v1::OnceMarked {
            request_id: number,
            first: used_by.is_none(),
            used_by: used_by.unwrap_or_default(),
        }),
        ServerMessage::Lost { number, message: text } => {
            Sent::Lost(v1::Lost { request_id: number, message: text })
        }
        ServerMessage::Withdrawn { number } => {
            Sent::Withdrawn(v1::Withdrawn { request_id: number })
        }
        ServerMessage::Released { number, was_gone } => {
            Sent::Released(v1::Released { request_id: number, was_gone })
        }
        ServerMessage::Renewed { sequence, valid_for } => {
            Sent::Renewed(v1::Renewed { sequence, valid_for_ns: valid_for.map(|span| span.0) })
        }
        ServerMessage::Closed { code: why, message: text } => {
            Sent::Closed(v1::Closed { code: why.into(), message: text })
        }
    }
}

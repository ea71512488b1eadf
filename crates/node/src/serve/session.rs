//! One session stream of a client, by gRPC or in frames: both pass each message to
//! [`SessionStream::receive`], and the client the [`Replies`].

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use kgate_api::v1;
use kgate_api::v1::client_message::Message as Received;
use kgate_api::v1::server_message::Message as Sent;
use kgate_control::state::{PermitId, Policy};
use kgate_control::timing::Timing;
use kgate_core::Span;
use tokio::sync::mpsc;
use tokio_stream::Stream;

use super::CoreHandle;
use super::authorisation::Identity;
use super::client_stream::ClientStream;
use super::error::ApiError;
use super::wanted::WantedSlots;
use crate::core::{
    AcquireRequest, ClientId, ClientMessage, DurableGrant, DurableOptions, MarkOnce, Note,
    PermitCommand, Process, ReentryKey, Secret, ServerMessage, SessionId,
};
use crate::holder_tree::{HolderTree, NotGuarded, Peer};
use crate::shell::Command;

/// A stream at the core, with its checks and counts.
pub(super) struct SessionStream {
    core: CoreHandle,
    client_stream: Arc<ClientStream>,
    client: ClientId,
    /// For refusals that do not come from the core.
    replies: mpsc::WeakSender<ServerMessage>,
    peer: Option<Peer>,
}

/// What the client is told. It ends when the core has closed the stream.
pub(super) struct Replies {
    from_core: mpsc::Receiver<ServerMessage>,
    client_stream: Arc<ClientStream>,
    node: u32,
    timing: Option<Timing>,
}

impl SessionStream {
    pub(super) async fn open(
        core: &CoreHandle,
        who: &Identity,
        peer: Option<Peer>,
    ) -> Result<(Self, Replies), ApiError> {
        let client_stream = ClientStream::open(core.access.clone(), who.clone())?;
        let (client, replies, from_core) = core.open(peer).await?;
        let (node, timing) = (core.node, core.timing);
        let told = Replies { from_core, client_stream: client_stream.clone(), node, timing };
        Ok((Self { core: core.clone(), client_stream, client, replies, peer }, told))
    }

    /// Passes a message of the client to the core. False if the stream is over.
    pub(super) async fn receive(&self, message: v1::ClientMessage) -> bool {
        self.client_stream.pace().await;
        // A message of a later version of the API.
        let Some(message) = message.message else { return true };
        if let Received::Hello(hello) = &message
            && let Some(front) = hello.front_pid
        {
            let tree = self
                .peer
                .ok_or(NotGuarded::Remote)
                .and_then(|peer| HolderTree::open(peer, front, &hello.control_group));
            if self.client_stream.set_guarded(&tree)
                && let Ok(tree) = tree
                && !self.core.send(Command::OfferTree(self.client, Arc::new(tree))).await
            {
                return false;
            }
        }
        let admitted = decode(message).and_then(|mut message| {
            self.client_stream.admit(&mut message)?;
            Ok(message)
        });
        match admitted {
            Ok(message) => self.core.send(Command::Client(self.client, message)).await,
            Err((number, ApiError { code, message })) => {
                self.reply(ServerMessage::Refused { number, code, message }).await
            }
        }
    }

    /// The client has sent a message that is too long to be read.
    pub(super) async fn refuse_too_long(&self) {
        self.refuse(self.core.access.too_long()).await;
    }

    /// Tells the client why its stream ends.
    pub(super) async fn refuse(&self, ApiError { code, message }: ApiError) {
        self.reply(ServerMessage::Closed { code, message }).await;
    }

    /// False if the stream is over.
    async fn reply(&self, message: ServerMessage) -> bool {
        let Some(replies) = self.replies.upgrade() else { return false };
        replies.send(message).await.is_ok()
    }

    /// The client has gone, or its stream is over.
    pub(super) async fn close(self) {
        self.core.close(self.client).await;
        self.client_stream.close();
    }
}

impl Replies {
    fn encode(&self, message: ServerMessage) -> v1::ServerMessage {
        self.client_stream.on_reply(&message);
        let message = encode(message, self.node, self.timing);
        v1::ServerMessage { message: Some(self.client_stream.add_guarded(message)) }
    }

    /// A reply that is there already.
    pub(super) fn try_next(&mut self) -> Option<v1::ServerMessage> {
        let message = self.from_core.try_recv().ok()?;
        Some(self.encode(message))
    }
}

impl Stream for Replies {
    type Item = v1::ServerMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = self.from_core.poll_recv(context);
        message.map(|message| message.map(|message| self.encode(message)))
    }
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
            request: Box::new(AcquireRequest {
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
                note: Note { reason: acquire.reason, meta: acquire.meta },
                durable: DurableOptions {
                    policy: policy_of(acquire.policy),
                    ttl: acquire.ttl_ns.map(Span),
                    secret: secret_of(&acquire.secret),
                },
            }),
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

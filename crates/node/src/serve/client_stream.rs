//! Access control for one stream of a client: each message is checked before it reaches the core,
//! and sessions and waiting requests are counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::server_message::Message as Sent;

use super::access::AccessControl;
use super::authorisation::{Identity, Privilege};
use super::error::ApiError;
use super::limits::{Bucket, Counted, Kind};
use crate::core::{ClientMessage, ErrorCode, Process, ServerMessage};
use crate::holder_tree::{HolderTree, NotGuarded};
use crate::shell::now;
use crate::user_database::user_name;

/// The checks and counts of one stream.
#[derive(Debug)]
pub(super) struct ClientStream {
    access: Arc<AccessControl>,
    who: Identity,
    /// The name of the client, if it is known better than the client itself may claim.
    user: Option<String>,
    _session: Counted,
    waiting: Mutex<BTreeMap<u64, Counted>>,
    /// The session has ended: it cannot be resumed, so it need not be counted any longer.
    ended: AtomicBool,
    rate: Mutex<Bucket>,
    /// Whether the node guards the client's processes, once the client has offered them.
    guarded: OnceLock<Result<(), NotGuarded>>,
}

impl ClientStream {
    /// A client opens a stream.
    pub(super) fn open(access: Arc<AccessControl>, who: Identity) -> Result<Arc<Self>, ApiError> {
        let session = access.reserve(&who, Kind::Session)?;
        let user = match &who {
            Identity::User(local) => Some(user_name(local.user)),
            Identity::Certificate(_) | Identity::Token(_) | Identity::Anonymous(_) => {
                (!access.policy.is_empty()).then(|| who.to_string())
            }
        };
        Ok(Arc::new(Self {
            access,
            who,
            user,
            _session: session,
            waiting: Mutex::default(),
            ended: AtomicBool::new(false),
            rate: Mutex::default(),
            guarded: OnceLock::new(),
        }))
    }

    /// Checks a message of the client. Only messages that use resources are refused; the error
    /// names the request. The user of a Unix socket, or with an `[[allow]]` list the identity of
    /// the client, replaces the user name that the client claims.
    pub(super) fn admit(&self, message: &mut ClientMessage) -> Result<(), (u64, ApiError)> {
        match message {
            ClientMessage::Hello { process, .. } => self.set_user(process),
            ClientMessage::Acquire { number, request } => {
                request.process.iter_mut().for_each(|process| self.set_user(process));
                self.admit_acquire(*number, &request.gate).map_err(|refusal| (*number, refusal))?;
            }
            ClientMessage::Bye => self.ended.store(true, Ordering::Relaxed),
            ClientMessage::Permit { number, .. } | ClientMessage::MarkOnce { number, .. } => {
                self.access.admit_request(&self.who).map_err(|refusal| (*number, refusal))?;
            }
            ClientMessage::Withdraw { .. }
            | ClientMessage::Release { .. }
            | ClientMessage::Renew { .. } => {}
        }
        Ok(())
    }

    fn set_user(&self, process: &mut Process) {
        if let Some(user) = &self.user {
            process.user.clone_from(user);
        }
    }

    fn admit_acquire(&self, number: u64, gate: &str) -> Result<(), ApiError> {
        self.access.admit_request(&self.who)?;
        self.access.authorise(&self.who, Privilege::Acquire(gate))?;
        let waiting = self.access.reserve(&self.who, Kind::Waiting)?;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, waiting);
        Ok(())
    }

    /// The client has offered its processes, and the node may be able to end them. Returns false
    /// for another Hello, at which the core closes the stream.
    pub(super) fn set_guarded(&self, tree: &Result<HolderTree, NotGuarded>) -> bool {
        let result = tree.as_ref().map(|_| ()).map_err(NotGuarded::clone);
        self.guarded.set(result).is_ok()
    }

    /// Tells the client in its Welcome whether the node guards its processes.
    pub(super) fn add_guarded(&self, message: Sent) -> Sent {
        let (Sent::Welcome(welcome), Some(result)) = (&message, self.guarded.get()) else {
            return message;
        };
        let guarded = result.is_ok();
        let unguarded_reason = result.as_ref().err().map(NotGuarded::to_string).unwrap_or_default();
        Sent::Welcome(v1::Welcome { guarded, unguarded_reason, ..welcome.clone() })
    }

    /// Observes a reply of the core: an answered request is not counted as waiting any more.
    pub(super) fn on_reply(&self, reply: &ServerMessage) {
        match reply {
            ServerMessage::Granted { number, .. }
            | ServerMessage::Refused { number, .. }
            | ServerMessage::Withdrawn { number } => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(number);
            }
            ServerMessage::Closed { code: ErrorCode::SessionNotFound, .. } => {
                self.ended.store(true, Ordering::Relaxed)
            }
            ServerMessage::Welcome { .. }
            | ServerMessage::Lost { .. }
            | ServerMessage::Released { .. }
            | ServerMessage::PermitRenewed { .. }
            | ServerMessage::OnceMarked { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Closed { .. } => {}
        }
    }

    /// Delays reading from a client that sends too fast. A request causes about four messages: its
    /// `Acquire`, its `Release` and two renewals.
    pub(super) async fn pace(&self) {
        let per_second = self.access.rate().saturating_mul(4);
        loop {
            let took = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(
                now(),
                per_second,
                per_second,
            );
            let Err(wait) = took else { return };
            tokio::time::sleep(Duration::from_nanos(wait.0)).await;
        }
    }

    /// The stream has ended. The session may be resumed, so it stays counted until it expires.
    pub(super) fn close(self: Arc<Self>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if !self.ended.load(Ordering::Relaxed) {
            tokio::spawn(async move {
                tokio::time::sleep(self.access.session_linger).await;
                drop(self);
            });
        }
    }
}

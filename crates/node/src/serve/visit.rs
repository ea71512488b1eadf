//! A stream of a client, as the guard sees it: what is asked for is checked before the core hears
//! of it, and what is used is counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::authorisation::{Identity, Need};
use super::error::ApiError;
use super::guard::Guard;
use super::limits::{Bucket, Counted, Kind};
use kgate_api::v1::ErrorCode;

use crate::core::{ClientMessage, Process, ServerMessage};
use crate::shell::now;

/// One stream.
#[derive(Debug)]
pub(super) struct Visit {
    guard: Arc<Guard>,
    who: Identity,
    _session: Counted,
    waiting: Mutex<BTreeMap<u64, Counted>>,
    /// Nothing is left that could come back.
    over: AtomicBool,
    pace: Mutex<Bucket>,
}

impl Visit {
    /// Somebody opens a stream.
    pub(super) fn begin(guard: Arc<Guard>, who: Identity) -> Result<Arc<Self>, ApiError> {
        let session = guard.enter(&who, Kind::Session)?;
        Ok(Arc::new(Self {
            guard,
            who,
            _session: session,
            waiting: Mutex::default(),
            over: AtomicBool::new(false),
            pace: Mutex::default(),
        }))
    }

    /// It says something: what costs others something may be refused. Where there is a list, people
    /// are shown who it is, not who it says it is.
    pub(super) fn hears(&self, ask: &mut ClientMessage) -> Result<(), (u64, ApiError)> {
        match ask {
            ClientMessage::Hello { process, .. } => self.name(process),
            ClientMessage::Acquire { number, request } => {
                request.process.iter_mut().for_each(|process| self.name(process));
                self.admit(*number, &request.gate).map_err(|refusal| (*number, refusal))?;
            }
            ClientMessage::Bye => self.over.store(true, Ordering::Relaxed),
            ClientMessage::Permit { number, .. } => {
                self.guard.ask(&self.who).map_err(|refusal| (*number, refusal))?;
            }
            ClientMessage::Withdraw { .. }
            | ClientMessage::Release { .. }
            | ClientMessage::Renew { .. } => {}
        }
        Ok(())
    }

    fn name(&self, process: &mut Process) {
        if !self.guard.policy.is_empty() {
            process.user = self.who.to_string();
        }
    }

    fn admit(&self, number: u64, gate: &str) -> Result<(), ApiError> {
        self.guard.ask(&self.who)?;
        self.guard.authorise(&self.who, Need::Acquire(gate))?;
        let waits = self.guard.enter(&self.who, Kind::Waiting)?;
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, waits);
        Ok(())
    }

    /// It is told something: who has its answer waits no more.
    pub(super) fn tells(&self, tell: &ServerMessage) {
        match tell {
            ServerMessage::Granted { number, .. }
            | ServerMessage::Refused { number, .. }
            | ServerMessage::Withdrawn { number } => {
                self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(number);
            }
            ServerMessage::Closed { code: ErrorCode::SessionNotFound, .. } => {
                self.over.store(true, Ordering::Relaxed)
            }
            ServerMessage::Welcome { .. }
            | ServerMessage::Lost { .. }
            | ServerMessage::Released { .. }
            | ServerMessage::PermitRenewed { .. }
            | ServerMessage::Renewed { .. }
            | ServerMessage::Closed { .. } => {}
        }
    }

    /// Whoever says too much at once is read more slowly: an `Acquire`, its release and renewals
    /// are four words.
    pub(super) async fn pace(&self) {
        let rate = self.guard.rate().saturating_mul(4);
        loop {
            let took =
                self.pace.lock().unwrap_or_else(PoisonError::into_inner).take(now(), rate, rate);
            let Err(wait) = took else { return };
            tokio::time::sleep(Duration::from_nanos(wait.0)).await;
        }
    }

    /// The stream has ended. The session may come back, so it is counted for as long as that.
    pub(super) fn end(self: Arc<Self>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if !self.over.load(Ordering::Relaxed) {
            tokio::spawn(async move {
                tokio::time::sleep(self.guard.linger).await;
                drop(self);
            });
        }
    }
}

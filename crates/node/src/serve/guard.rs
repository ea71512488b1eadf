//! The guard of a node's API: finds out who asks, what it may, and whether it asks too much.
//!
//! Every request passes [`identify`]; gRPC and HTTP then ask for each gate by itself. Whoever is
//! refused is told why, and counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use kgate_api::v1::ErrorCode;
use kgate_net::ClientCertificate;
use tokio::sync::Semaphore;
use tonic::Status;

use super::authorisation::{Identity, Need, Policy};
use super::error::ApiError;
use super::grpc::is_grpc;
use super::limits::{Accounts, Counted, Kind, TooMuch};
use crate::config::{BadConfig, Config};
use crate::metrics::REFUSED;
use crate::shell::now;

/// Kinds of refusals: the labels of `kgate_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No certificate, no token, or one that nobody knows.
    Unknown,
    /// It may not.
    Forbidden,
    /// Too many requests a second.
    Rate,
    /// Too many sessions.
    Sessions,
    /// Too many that wait.
    Waiting,
    /// Too many connections.
    Connections,
    /// A connection that did not greet, or not in time.
    Handshake,
    /// A message that is too long.
    Size,
}

impl Reason {
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Forbidden,
        Self::Rate,
        Self::Sessions,
        Self::Waiting,
        Self::Connections,
        Self::Handshake,
        Self::Size,
    ];

    /// What the client is told.
    fn code(self) -> ErrorCode {
        match self {
            Self::Unknown => ErrorCode::Unauthenticated,
            Self::Forbidden => ErrorCode::PermissionDenied,
            Self::Size => ErrorCode::BadRequest,
            Self::Rate | Self::Sessions | Self::Waiting | Self::Connections | Self::Handshake => {
                ErrorCode::LimitExceeded
            }
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Forbidden => "forbidden",
            Self::Rate => "rate",
            Self::Sessions => "sessions",
            Self::Waiting => "waiting",
            Self::Connections => "connections",
            Self::Handshake => "handshake",
            Self::Size => "size",
        }
    }
}

/// The guard.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(super) policy: Policy,
    accounts: Accounts,
    refused: [AtomicU64; Reason::ALL.len()],
    /// Places for connections, of all clients together.
    pub(super) places: Arc<Semaphore>,
    pub(super) cluster: String,
    /// A session may come back for so long after its stream has ended.
    pub(super) linger: Duration,
}

impl Guard {
    pub(crate) fn new(config: &Config) -> Result<Self, BadConfig> {
        let policy = Policy::new(&config.allow, user_number).map_err(BadConfig::Senseless)?;
        if config.connections_max == 0 || config.limits.message_bytes < 1024 {
            let text = "connections_max is at least 1, and message_bytes in [limits] at least 1024";
            return Err(BadConfig::Senseless(text.into()));
        }
        Ok(Self {
            policy,
            accounts: Accounts::new(config.limits),
            refused: Default::default(),
            places: Arc::new(Semaphore::new(config.connections_max.min(Semaphore::MAX_PERMITS))),
            cluster: config.cluster.clone(),
            linger: Duration::from_millis(config.lease_ms.saturating_add(config.lease_ms / 10)),
        })
    }

    /// What callers with TLS must show: a certificate, unless some are known by tokens.
    pub(super) fn callers(&self) -> ClientCertificate {
        if self.policy.has_tokens() {
            ClientCertificate::Optional
        } else {
            ClientCertificate::Required
        }
    }

    /// The longest message that is read.
    pub(super) fn message_bytes(&self) -> usize {
        self.accounts.limits().message_bytes
    }

    /// So many requests a second are usual for one client; without end, if 0.
    pub(super) fn rate(&self) -> u32 {
        self.accounts.limits().requests_per_second
    }

    /// Counts a refusal, and hands it on.
    pub(super) fn refuse(&self, reason: Reason, text: String) -> ApiError {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        ApiError::new(reason.code(), text)
    }

    /// Whether somebody may do that. For everything that the API offers, operators' commands too.
    pub(crate) fn authorise(&self, who: &Identity, need: Need<'_>) -> Result<(), ApiError> {
        let allowed = self.policy.authorise(who, need);
        allowed.map_err(|denied| self.refuse(Reason::Forbidden, denied.to_string()))
    }

    /// One more request of somebody.
    pub(super) fn ask(&self, who: &Identity) -> Result<(), ApiError> {
        self.accounts.ask(now(), who).map_err(|too_much| self.too_much(who, &too_much))
    }

    /// One more of what is counted.
    pub(super) fn enter(&self, who: &Identity, kind: Kind) -> Result<Counted, ApiError> {
        self.accounts.enter(now(), who, kind).map_err(|too_much| self.too_much(who, &too_much))
    }

    /// A message of a stream could not be read: a refusal, if it was too long.
    pub(super) fn too_long(&self, status: &Status) -> Option<ApiError> {
        let most = self.message_bytes();
        let text = || {
            format!(
                "a message of more than {most} bytes is not read (message_bytes in [limits] of this node)"
            )
        };
        (status.code() == tonic::Code::OutOfRange).then(|| self.refuse(Reason::Size, text()))
    }

    fn too_much(&self, who: &Identity, too_much: &TooMuch) -> ApiError {
        let reason = match too_much {
            TooMuch::Of(Kind::Session, _) => Reason::Sessions,
            TooMuch::Of(Kind::Waiting, _) => Reason::Waiting,
            TooMuch::Of(Kind::Connection, _) => Reason::Connections,
            TooMuch::Fast(..) => Reason::Rate,
        };
        self.refuse(reason, too_much.text(who))
    }

    /// Who asks, by its connection and its token.
    fn identity(
        &self,
        connection: &Identity,
        token: Option<&HeaderValue>,
    ) -> Result<Identity, ApiError> {
        // It shows something, though nothing that is known.
        let who = match connection {
            Identity::Stranger(address) => format!("somebody at {address}"),
            known @ (Identity::Certificate(_) | Identity::Token(_) | Identity::User(_)) => {
                known.to_string()
            }
        };
        let unknown = |text: &str| self.refuse(Reason::Unknown, format!("{who}: {text}"));
        // Without a list nobody is asked who it is, and a header for somebody else on the way does
        // no harm.
        let Some(token) = token.filter(|_| !self.policy.is_empty()) else {
            return Ok(connection.clone());
        };
        let bearer = token.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let bearer =
            bearer.ok_or_else(|| unknown("its authorization is not of the form `Bearer TOKEN`"))?;
        self.policy.bearer(bearer.trim()).ok_or_else(|| {
            unknown("no [[allow]] of this node has the SHA-256 of its token: is it the right one, and whole?")
        })
    }

    /// The numbers of refusals, in Prometheus' text format.
    pub(super) fn numbers(&self) -> String {
        let mut text = String::new();
        REFUSED.write_head(&mut text);
        for reason in Reason::ALL {
            let count = self.refused[reason as usize].load(Ordering::Relaxed);
            let (name, label) = (REFUSED.name, reason.label());
            text.push_str(&format!("{name}{{reason=\"{label}\"}} {count}\n"));
        }
        text
    }
}

/// Finds out who asks, before anything else is done for it.
pub(super) async fn identify(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    // Whether the node is alive is no secret.
    if request.uri().path() == "/healthz" {
        return next.run(request).await;
    }
    let grpc = is_grpc(request.headers());
    let connection =
        request.extensions().get::<Identity>().cloned().expect("each connection has one");
    let token = request.headers_mut().remove(header::AUTHORIZATION);
    let known = guard.identity(&connection, token.as_ref());
    let refusal = match known.and_then(|who| guard.ask(&who).map(|()| who)) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            return next.run(request).await;
        }
        Err(refusal) => refusal,
    };
    if grpc { Status::from(refusal).into_http() } else { refusal.into_response() }
}

/// The number of a user of this machine.
fn user_number(name: &str) -> Option<u32> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut line| (line.next() == Some(name)).then(|| line.nth(1)?.parse().ok())?)
}

/// A text as an error of a socket.
pub(super) fn error(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

//! Access control of the API: identifies the client of each request, and checks its rights and
//! quotas.
//!
//! Every request passes [`identify`]; gRPC and HTTP then check the right for each gate. Each
//! refusal has a reason and is counted.

use std::io;
use std::path::PathBuf;
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

use super::authorisation::{Identity, Policy, Privilege, UserDatabase};
use super::error::ApiError;
use super::grpc::is_grpc;
use super::limits::{Accounts, Counted, Kind, QuotaExceeded};
use super::listener::MESSAGE_TIMEOUT;
use super::unfinished;
use crate::config::{BadConfig, Config};
use crate::metrics::REFUSED;
use crate::shell::now;
use crate::user_database::{group_members, user_id};

/// The path of the stream of a session, the only request with more than one message.
const SESSION: &str = "/kgate.v1.Gates/Session";

/// Reasons to refuse a request or a connection: the label of `kgate_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The token is unknown or malformed.
    Unauthenticated,
    /// The list does not allow it.
    PermissionDenied,
    /// Too many requests per second.
    Rate,
    /// Too many sessions.
    Sessions,
    /// Too many waiting requests.
    Waiting,
    /// Too many connections.
    Connections,
    /// Too many unfinished messages.
    Unfinished,
    /// The handshake failed or timed out.
    Handshake,
    /// The message is too long.
    Size,
    /// The bytes are no frames of this version.
    Malformed,
}

impl Reason {
    /// All of them, each with its label.
    const LABELS: [(Self, &str); 10] = [
        (Self::Unauthenticated, "unauthenticated"),
        (Self::PermissionDenied, "permission_denied"),
        (Self::Rate, "rate"),
        (Self::Sessions, "sessions"),
        (Self::Waiting, "waiting"),
        (Self::Connections, "connections"),
        (Self::Unfinished, "unfinished"),
        (Self::Handshake, "handshake"),
        (Self::Size, "size"),
        (Self::Malformed, "malformed"),
    ];

    /// The code in the reply.
    fn code(self) -> ErrorCode {
        match self {
            Self::Unauthenticated => ErrorCode::Unauthenticated,
            Self::PermissionDenied => ErrorCode::PermissionDenied,
            Self::Size | Self::Malformed => ErrorCode::BadRequest,
            Self::Rate
            | Self::Sessions
            | Self::Waiting
            | Self::Connections
            | Self::Unfinished
            | Self::Handshake => ErrorCode::LimitExceeded,
        }
    }
}

/// Identifies clients, and checks their rights and quotas.
#[derive(Debug)]
pub(crate) struct AccessControl {
    pub(super) policy: Policy,
    accounts: Accounts,
    refused: [AtomicU64; Reason::LABELS.len()],
    /// One permit per connection, of all clients together.
    pub(super) connections: Arc<Semaphore>,
    pub(super) cluster: String,
    /// How long a session can be resumed after its stream has ended.
    pub(super) session_linger: Duration,
    /// Whether permits are bound to processes instead of time.
    pub(super) binds_to_processes: bool,
    /// The folder with the locks of slots, if there is one.
    pub(super) slot_files: Option<PathBuf>,
}

impl AccessControl {
    pub(crate) fn new(config: &Config) -> Result<Self, BadConfig> {
        let policy =
            Policy::new(&config.allow, UserDatabase { user: user_id, group: group_members })
                .map_err(|error| BadConfig::Invalid(error.to_string()))?;
        if config.connections_max == 0 || config.limits.message_bytes < 1024 {
            let text =
                "connections_max must be at least 1, and message_bytes in [limits] at least 1024";
            return Err(BadConfig::Invalid(text.into()));
        }
        Ok(Self {
            policy,
            accounts: Accounts::new(config.limits),
            refused: Default::default(),
            connections: Arc::new(Semaphore::new(
                config.connections_max.min(Semaphore::MAX_PERMITS),
            )),
            cluster: config.cluster.clone(),
            binds_to_processes: config.bound_to_processes(),
            slot_files: config.slot_files.clone(),
            session_linger: Duration::from_millis(
                config.lease_ms.saturating_add(config.lease_ms / 10),
            ),
        })
    }

    /// Whether TLS requires a client certificate: yes, unless clients may use tokens.
    pub(super) fn client_certificate(&self) -> ClientCertificate {
        if self.policy.has_tokens() {
            ClientCertificate::Optional
        } else {
            ClientCertificate::Required
        }
    }

    /// Maximum size of a message.
    pub(super) fn message_bytes(&self) -> usize {
        self.accounts.limits().message_bytes
    }

    /// Maximum number of requests per second of one client in the long run; 0: no limit.
    pub(super) fn rate(&self) -> u32 {
        self.accounts.limits().requests_per_second
    }

    /// Counts a refusal and returns its error.
    pub(super) fn refuse(&self, reason: Reason, text: String) -> ApiError {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        ApiError::new(reason.code(), text)
    }

    /// Checks that the list allows `need`, for every operation of the API.
    pub(crate) fn authorise(&self, who: &Identity, need: Privilege<'_>) -> Result<(), ApiError> {
        let allowed = self.policy.authorise(who, need);
        allowed.map_err(|denied| self.refuse(Reason::PermissionDenied, denied.to_string()))
    }

    /// Counts one request towards the rate of a client.
    pub(super) fn admit_request(&self, who: &Identity) -> Result<(), ApiError> {
        self.accounts.count_request(now(), who).map_err(|exceeded| self.over_quota(who, &exceeded))
    }

    /// Counts a session, waiting request or connection until the result is dropped.
    pub(super) fn reserve(&self, who: &Identity, kind: Kind) -> Result<Counted, ApiError> {
        self.accounts.reserve(now(), who, kind).map_err(|exceeded| self.over_quota(who, &exceeded))
    }

    /// The error for a message that is too long to be read.
    pub(super) fn too_long(&self) -> ApiError {
        let max = self.message_bytes();
        let text = format!(
            "message too large: this node reads at most {max} bytes (message_bytes in [limits])"
        );
        self.refuse(Reason::Size, text)
    }

    fn over_quota(&self, who: &Identity, exceeded: &QuotaExceeded) -> ApiError {
        let reason = match exceeded {
            QuotaExceeded::Count(Kind::Session, _) => Reason::Sessions,
            QuotaExceeded::Count(Kind::Waiting, _) => Reason::Waiting,
            QuotaExceeded::Count(Kind::Connection, _) => Reason::Connections,
            QuotaExceeded::Count(Kind::Unfinished, _) => Reason::Unfinished,
            QuotaExceeded::Rate(..) => Reason::Rate,
        };
        self.refuse(reason, exceeded.message(who))
    }

    /// The identity of a client, from its connection and its token.
    fn identity(
        &self,
        connection: &Identity,
        token: Option<&HeaderValue>,
    ) -> Result<Identity, ApiError> {
        // Not "without certificate or token": it has sent a token, though an unknown one.
        let who = match connection {
            Identity::Anonymous(address) => format!("client at {address}"),
            known @ (Identity::Certificate(_) | Identity::Token(_) | Identity::User(_)) => {
                known.to_string()
            }
        };
        let unauthenticated =
            |text: &str| self.refuse(Reason::Unauthenticated, format!("{who}: {text}"));
        // Without a list tokens have no meaning, and a header meant for a proxy must do no harm.
        let Some(token) = token.filter(|_| !self.policy.is_empty()) else {
            return Ok(connection.clone());
        };
        let bearer = token.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let bearer = bearer.ok_or_else(|| {
            unauthenticated("the header `authorization` must have the form `Bearer TOKEN`")
        })?;
        self.policy.bearer(bearer.trim()).ok_or_else(|| {
            unauthenticated(
                "no [[allow]] of this node has the SHA-256 of its token; is the token complete?",
            )
        })
    }

    /// The number of refusals by reason, in Prometheus' text format.
    pub(super) fn metrics(&self) -> String {
        let mut text = String::new();
        REFUSED.write_head(&mut text);
        let name = REFUSED.name;
        for (reason, label) in Reason::LABELS {
            let count = self.refused[reason as usize].load(Ordering::Relaxed);
            text.push_str(&format!("{name}{{reason=\"{label}\"}} {count}\n"));
        }
        text
    }
}

/// Identifies the client of a request and counts the request, before anything else is done for it.
pub(super) async fn identify(
    State(access): State<Arc<AccessControl>>,
    mut request: Request,
    next: Next,
) -> Response {
    // Liveness probes need no identity.
    if request.uri().path() == "/healthz" {
        return next.run(request).await;
    }
    let grpc = is_grpc(request.headers());
    let connection = request
        .extensions()
        .get::<Identity>()
        .cloned()
        .expect("the listener adds one to each request");
    let token = request.headers_mut().remove(header::AUTHORIZATION);
    let known = access.identity(&connection, token.as_ref());
    let refusal = match known.and_then(|who| access.admit_request(&who).map(|()| who)) {
        Ok(who) => {
            if grpc {
                let is_session = request.uri().path() == SESSION;
                let (access, who) = (access.clone(), who.clone());
                request = request.map(|body| {
                    unfinished::bounded(body, access, who, is_session, MESSAGE_TIMEOUT)
                });
            }
            request.extensions_mut().insert(who);
            return next.run(request).await;
        }
        Err(refusal) => refusal,
    };
    if grpc { Status::from(refusal).into_http() } else { refusal.into_response() }
}

/// A message as an I/O error.
pub(super) fn error(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

//! Durable permits: permits in the replicated log, which survive the end of their session and the
//! failure of their node.
//!
//! They are for scripts that come and go, and for holders that must survive the restart of every
//! process involved. A holder of the [token](DurableToken) can renew or release the permit at any
//! node. A request that is repeated with the same secret, at any node, yields the same permit: a
//! client that lost its node before the answer arrived asks another one and cannot end up with two.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as ClientMessage;
use tokio::sync::oneshot;

use crate::gate::CancelOnDrop;
use crate::session::Command;
use crate::{Error, ErrorKind, Process, Shared};

/// The name and secret of a durable permit, which suffice to renew and release it.
///
/// As text it is `permit-ID-SECRET`, the form that `kgate acquire --ttl` prints. `Debug` does not
/// show the secret.
///
/// ```
/// use kgate_client::DurableToken;
///
/// let token: DurableToken = "permit-17-000000000000000000000000000000ff".parse()?;
/// assert_eq!((token.permit_id, token.secret), (17, 255));
/// # Ok::<(), kgate_client::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DurableToken {
    /// The ID of the permit, the same at all nodes.
    pub permit_id: u64,
    /// The secret of the request that acquired it.
    pub secret: u128,
}

impl fmt::Debug for DurableToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableToken {{ permit_id: {}, secret: *** }}", self.permit_id)
    }
}

impl fmt::Display for DurableToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "permit-{}-{:032x}", self.permit_id, self.secret)
    }
}

impl FromStr for DurableToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (id, secret) = text.strip_prefix("permit-")?.split_once('-')?;
            let is_secret =
                secret.len() == 32 && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
            let secret = u128::from_str_radix(secret, 16).ok().filter(|_| is_secret)?;
            Some(Self { permit_id: id.parse().ok()?, secret })
        };
        let message = "not the token of a durable permit: expected permit-ID-SECRET";
        parse().ok_or_else(|| Error::new(ErrorKind::BadRequest, message))
    }
}

/// A durable permit. Dropping it does **not** release it: keep its [token](DurablePermit::token).
#[derive(Clone, Debug)]
pub struct DurablePermit {
    shared: Arc<Shared>,
    gate: String,
    token: DurableToken,
    slots: Vec<u32>,
    fence: u128,
    k: u32,
    ttl: Option<Duration>,
}

impl DurablePermit {
    /// The name of the gate.
    pub fn gate(&self) -> &str {
        &self.gate
    }

    /// The token that renews and releases the permit, at any node.
    pub fn token(&self) -> DurableToken {
        self.token
    }

    /// The slots of the permit, each below k.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// The fence: greater than the fence of every earlier holder of any of these slots.
    pub fn fence(&self) -> u128 {
        self.fence
    }

    /// The fence as 32 hexadecimal digits, which sort like the numbers.
    pub fn fence_hex(&self) -> String {
        format!("{:032x}", self.fence)
    }

    /// The gate's k at the time of the grant.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The permit expires this long after its last renewal was sent; none: it never expires.
    pub fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// The ID of the node through which the permit was acquired.
    pub fn node(&self) -> u32 {
        self.shared.node
    }

    /// Renews the permit: its TTL starts again when this request is sent. Returns the TTL.
    pub async fn renew(&self) -> Result<Option<Duration>, Error> {
        self.shared.renew_durable(self.token).await
    }

    /// Releases the permit. Release is idempotent; the result is false if the permit was not held
    /// any more, because it had expired, been evicted or been released before.
    pub async fn release(self) -> Result<bool, Error> {
        self.shared.release_durable(self.token).await
    }
}

/// A gate and the options of a request for a durable permit.
///
/// Either [`ttl`](Self::ttl) or the policy `hold` is required: otherwise nothing would ever free
/// the permit of a holder that is gone.
///
/// ```no_run
/// # async fn example(client: kgate_client::Client) -> Result<(), kgate_client::Error> {
/// use std::time::Duration;
///
/// let permit = client.durable("backup").ttl(Duration::from_secs(600)).acquire().await?;
/// std::fs::write("permit", permit.token().to_string()).expect("a writable directory");
/// // Later, perhaps in another process and at another node:
/// let token = std::fs::read_to_string("permit").expect("the file").parse()?;
/// client.renew(token).await?;
/// client.release(token).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a gate does nothing until `acquire` or `try_acquire` is called"]
pub struct DurableGate {
    shared: Arc<Shared>,
    gate: String,
    weight: u32,
    k: Option<u32>,
    hold: bool,
    ttl: Option<Duration>,
    no_wait: bool,
    secret: Option<u128>,
    process: Option<Process>,
    timeout: Option<Duration>,
}

impl fmt::Debug for DurableGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableGate")
            .field("gate", &self.gate)
            .field("weight", &self.weight)
            .field("k", &self.k)
            .field("hold", &self.hold)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

impl DurableGate {
    pub(crate) fn new(shared: Arc<Shared>, gate: String) -> Self {
        Self {
            shared,
            gate,
            weight: 1,
            k: None,
            hold: false,
            ttl: None,
            no_wait: false,
            secret: None,
            process: None,
            timeout: None,
        }
    }

    /// The number of slots that the request takes. Default: 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// The number of slots of the gate, as for [`Gate::k`](crate::Gate::k).
    pub fn k(mut self, k: u32) -> Self {
        self.k = Some(k);
        self
    }

    /// The permit expires this long after its last renewal was sent: between one second and one
    /// year.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The gate must have the policy `hold`; a new gate gets it. Slots of such a gate stay taken
    /// until the holder releases them or an operator evicts the permit.
    pub fn hold(mut self) -> Self {
        self.hold = true;
        self
    }

    /// The secret of the permit's token: 128 random bits. Repeating a request with the same secret
    /// is idempotent. Default: a new random secret.
    pub fn secret(mut self, secret: u128) -> Self {
        self.secret = Some(secret);
        self
    }

    /// The process that uses the permit, for people. Default: the process of the session.
    pub fn process(mut self, process: Process) -> Self {
        self.process = Some(process);
        self
    }

    /// Maximum time to wait for the permit. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits for a permit. Dropping the future cancels the request.
    pub async fn acquire(self) -> Result<DurablePermit, Error> {
        let Some(timeout) = self.timeout else { return self.request().await };
        tokio::time::timeout(timeout, self.request()).await.unwrap_or_else(|_| {
            let message = format!("timed out: no permit within {timeout:?}");
            Err(Error::new(ErrorKind::TimedOut, message))
        })
    }

    /// Returns a permit if one is free now, and none if all are in use.
    pub async fn try_acquire(mut self) -> Result<Option<DurablePermit>, Error> {
        self.no_wait = true;
        match self.acquire().await {
            Ok(permit) => Ok(Some(permit)),
            Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn request(&self) -> Result<DurablePermit, Error> {
        let secret = match self.secret {
            Some(secret) => secret,
            None => random_secret()?,
        };
        let policy = if self.hold { v1::Policy::Hold } else { v1::Policy::Unspecified };
        let request = DurableRequest::Acquire(v1::Acquire {
            request_id: 0,
            gate: self.gate.clone(),
            weight: self.weight,
            k: self.k,
            no_wait: self.no_wait,
            process: self.process.as_ref().map(Process::to_message),
            policy: policy.into(),
            ttl_ns: self.ttl.map(nanoseconds),
            secret: secret.to_be_bytes().to_vec(),
        });
        match self.shared.call_durable(request).await? {
            DurableReply::Granted { permit_id, slots, fence, k, ttl } => Ok(DurablePermit {
                shared: self.shared.clone(),
                gate: self.gate.clone(),
                token: DurableToken { permit_id, secret },
                slots,
                fence,
                k,
                ttl,
            }),
            DurableReply::Renewed { .. } | DurableReply::Released { .. } => {
                Err(Error::unexpected("not a grant"))
            }
        }
    }
}

/// A request about a durable permit. Its ID is filled in when it is sent.
#[derive(Clone, Debug)]
pub(crate) enum DurableRequest {
    Acquire(v1::Acquire),
    Command(v1::PermitCommand),
}

/// The answer to a [`DurableRequest`].
#[derive(Debug)]
pub(crate) enum DurableReply {
    Granted { permit_id: u64, slots: Vec<u32>, fence: u128, k: u32, ttl: Option<Duration> },
    Renewed { ttl: Option<Duration> },
    Released { was_gone: bool },
}

/// A request that the session sends until it is answered, on each connection once.
#[derive(Debug)]
pub(crate) struct DurableCall {
    request: DurableRequest,
    pub(crate) answer: oneshot::Sender<Result<DurableReply, Error>>,
}

impl DurableCall {
    pub(crate) fn message(&self, request_id: u64) -> ClientMessage {
        match self.request.clone() {
            DurableRequest::Acquire(acquire) => {
                ClientMessage::Acquire(v1::Acquire { request_id, ..acquire })
            }
            DurableRequest::Command(command) => {
                ClientMessage::PermitCommand(v1::PermitCommand { request_id, ..command })
            }
        }
    }

    /// Answers with a grant. Returns the message that undoes the grant if nobody can use it.
    pub(crate) fn on_granted(self, request_id: u64, granted: v1::Granted) -> Option<ClientMessage> {
        let v1::Granted { slots, fence, k, durable, .. } = granted;
        let Some(v1::DurablePermit { permit_id, ttl_ns }) = durable else {
            let message = "the gate has policy lease: pass a TTL, or set the gate's policy to hold";
            let _ = self.answer.send(Err(Error::new(ErrorKind::BadRequest, message)));
            return Some(ClientMessage::Release(v1::Release { request_id }));
        };
        let fence = fence.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
        let reply = fence.ok_or_else(|| Error::unexpected("a durable permit without a fence"));
        let ttl = ttl_ns.map(Duration::from_nanos);
        let reply = reply.map(|fence| DurableReply::Granted { permit_id, slots, fence, k, ttl });
        let DurableRequest::Acquire(acquire) = self.request else { return None };
        // The client has cancelled the request: nobody has the token of the permit.
        self.answer.send(reply).err().map(|_| {
            let secret = acquire.secret;
            let release = v1::PermitCommand { request_id, permit_id, secret, release: true };
            ClientMessage::PermitCommand(release)
        })
    }
}

impl Shared {
    pub(crate) async fn renew_durable(
        &self,
        token: DurableToken,
    ) -> Result<Option<Duration>, Error> {
        match self.command_durable(token, false).await? {
            DurableReply::Renewed { ttl } => Ok(ttl),
            DurableReply::Granted { .. } | DurableReply::Released { .. } => {
                Err(Error::unexpected("not a renewal"))
            }
        }
    }

    pub(crate) async fn release_durable(&self, token: DurableToken) -> Result<bool, Error> {
        match self.command_durable(token, true).await? {
            DurableReply::Released { was_gone } => Ok(!was_gone),
            DurableReply::Granted { .. } | DurableReply::Renewed { .. } => {
                Err(Error::unexpected("not a release"))
            }
        }
    }

    async fn command_durable(
        &self,
        token: DurableToken,
        release: bool,
    ) -> Result<DurableReply, Error> {
        let DurableToken { permit_id, secret } = token;
        let secret = secret.to_be_bytes().to_vec();
        let command = v1::PermitCommand { request_id: 0, permit_id, secret, release };
        self.call_durable(DurableRequest::Command(command)).await
    }

    async fn call_durable(&self, request: DurableRequest) -> Result<DurableReply, Error> {
        let (answer, answered) = oneshot::channel();
        let request_id = self.next_request_id();
        let call = Command::Durable(request_id, DurableCall { request, answer });
        self.commands.send(call).map_err(|_| self.session_ended())?;
        let mut cancel = CancelOnDrop { shared: self, request_id: Some(request_id) };
        let reply = answered.await.map_err(|_| self.session_ended())??;
        cancel.request_id = None;
        Ok(reply)
    }
}

fn random_secret() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    let no_random =
        |error| Error::new(ErrorKind::Credentials, format!("cannot read random bytes: {error}"));
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(u128::from_be_bytes(bytes))
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token survives the way through text; other texts are refused; `Debug` hides the secret.
    #[test]
    fn tokens_are_text() {
        let token = DurableToken { permit_id: 7, secret: 0xAB };
        assert_eq!(token.to_string().parse(), Ok(token));
        for text in ["", "permit-7", "permit-7-ab", "permit-x-000000000000000000000000000000ab"] {
            let error = text.parse::<DurableToken>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadRequest, "{text}");
        }
        assert_eq!(format!("{token:?}"), "DurableToken { permit_id: 7, secret: *** }");
    }
}

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
use kgate_api::v1::server_message::Message as ServerMessage;
use tokio::sync::oneshot;

use crate::gate::{unless_busy, within};
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
    slot_names: Vec<String>,
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

    /// The names of the slots; empty if the gate's slots have no names.
    pub fn slot_names(&self) -> &[String] {
        &self.slot_names
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
        self.shared.session.node
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
#[derive(Clone, Debug)]
#[must_use = "a gate does nothing until `acquire` or `try_acquire` is called"]
pub struct DurableGate {
    shared: Arc<Shared>,
    request: v1::Acquire,
    timeout: Option<Duration>,
}

impl DurableGate {
    pub(crate) fn new(shared: Arc<Shared>, gate: String) -> Self {
        let request = v1::Acquire { gate, weight: 1, ..v1::Acquire::default() };
        Self { shared, request, timeout: None }
    }

    /// The number of slots that the request takes. Default: 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.request.weight = weight;
        self
    }

    /// The number of slots of the gate, as for [`Gate::k`](crate::Gate::k).
    pub fn k(mut self, k: u32) -> Self {
        self.request.k = Some(k);
        self
    }

    /// The slots of the gate by an expression, as for
    /// [`Gate::k_expression`](crate::Gate::k_expression).
    pub fn k_expression(mut self, expression: &str) -> Self {
        expression.clone_into(&mut self.request.k_expression);
        self
    }

    /// The names of the slots of the gate, as for [`Gate::names`](crate::Gate::names).
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.request.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// The permit expires this long after its last renewal was sent: between one second and one
    /// year.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.request.ttl_ns = Some(nanoseconds(ttl));
        self
    }

    /// The gate must have the policy `hold`; a new gate gets it. Slots of such a gate stay taken
    /// until the holder releases them or an operator evicts the permit.
    pub fn hold(mut self) -> Self {
        self.request.policy = v1::Policy::Hold.into();
        self
    }

    /// The secret of the permit's token: 128 random bits. Repeating a request with the same secret
    /// is idempotent. Default: a new random secret.
    pub fn secret(mut self, secret: u128) -> Self {
        self.request.secret = secret.to_be_bytes().to_vec();
        self
    }

    /// The process that uses the permit, for people. Default: the process of the session.
    pub fn process(mut self, process: Process) -> Self {
        self.request.process = Some(process.to_message());
        self
    }

    /// Maximum time to wait for the permit. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Waits for a permit. Dropping the future cancels the request.
    pub async fn acquire(self) -> Result<DurablePermit, Error> {
        within(self.timeout, self.request()).await
    }

    /// Returns a permit if one is free now, and none if all are in use.
    pub async fn try_acquire(mut self) -> Result<Option<DurablePermit>, Error> {
        self.request.no_wait = true;
        unless_busy(self.acquire().await)
    }

    async fn request(&self) -> Result<DurablePermit, Error> {
        let mut request = self.request.clone();
        if request.secret.is_empty() {
            request.secret = random_secret()?;
        }
        let secret = number_of(&request.secret).expect("a secret has 16 bytes");
        let acquire =
            |request_id| ClientMessage::Acquire(v1::Acquire { request_id, ..request }.into());
        let ServerMessage::Granted(granted) = self.shared.call_durable(acquire).await? else {
            return Err(Error::unexpected("not a grant"));
        };
        let v1::Granted { slots, slot_names, fence, k, durable, .. } = granted;
        let (Some(fence), Some(durable)) = (fence.as_deref().and_then(number_of), durable) else {
            return Err(Error::unexpected("a durable permit without a fence"));
        };
        Ok(DurablePermit {
            shared: self.shared.clone(),
            gate: self.request.gate.clone(),
            token: DurableToken { permit_id: durable.permit_id, secret },
            slots,
            slot_names,
            fence,
            k,
            ttl: durable.ttl_ns.map(Duration::from_nanos),
        })
    }
}

/// A request about a durable permit or a key, which the session sends until it is answered, on each
/// connection once.
#[derive(Debug)]
pub(crate) struct DurableCall {
    pub(crate) request: ClientMessage,
    pub(crate) answer: oneshot::Sender<Result<ServerMessage, Error>>,
}

impl DurableCall {
    /// Answers with a grant. Returns the message that undoes the grant if nobody can use it.
    pub(crate) fn on_granted(self, granted: v1::Granted) -> Option<ClientMessage> {
        let request_id = granted.request_id;
        let Some(v1::DurablePermit { permit_id, .. }) = granted.durable else {
            let message = "the gate has policy lease: pass a TTL, or set the gate's policy to hold";
            let _ = self.answer.send(Err(Error::new(ErrorKind::BadRequest, message)));
            return Some(ClientMessage::Release(v1::Release { request_id }));
        };
        let ClientMessage::Acquire(request) = self.request else { return None };
        let secret = request.secret;
        // An error: the client has cancelled the request, so nobody has the token of the permit.
        self.answer.send(Ok(ServerMessage::Granted(granted))).err().map(|_| {
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
        let reply = self.command_durable(token, false).await?;
        let ServerMessage::PermitRenewed(v1::PermitRenewed { permit, .. }) = reply else {
            return Err(Error::unexpected("not a renewal"));
        };
        Ok(permit.and_then(|permit| permit.ttl_ns).map(Duration::from_nanos))
    }

    pub(crate) async fn release_durable(&self, token: DurableToken) -> Result<bool, Error> {
        let reply = self.command_durable(token, true).await?;
        let ServerMessage::Released(v1::Released { was_gone, .. }) = reply else {
            return Err(Error::unexpected("not a release"));
        };
        Ok(!was_gone)
    }

    async fn command_durable(
        &self,
        token: DurableToken,
        release: bool,
    ) -> Result<ServerMessage, Error> {
        let DurableToken { permit_id, secret } = token;
        let secret = secret.to_be_bytes().to_vec();
        let command = |request_id| {
            ClientMessage::PermitCommand(v1::PermitCommand {
                request_id,
                permit_id,
                secret,
                release,
            })
        };
        self.call_durable(command).await
    }

    pub(crate) async fn call_durable(
        &self,
        request: impl FnOnce(u64) -> ClientMessage,
    ) -> Result<ServerMessage, Error> {
        let call = |request_id, answer| {
            Command::Durable(request_id, DurableCall { request: request(request_id), answer })
        };
        self.call(call).await
    }
}

pub(crate) fn random_secret() -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; 16];
    let no_random =
        |error| Error::new(ErrorKind::Credentials, format!("cannot read random bytes: {error}"));
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(bytes)
}

/// A number of 128 bits in a message: a secret, or a fence.
fn number_of(bytes: &[u8]) -> Option<u128> {
    bytes.try_into().ok().map(u128::from_be_bytes)
}

pub(crate) fn nanoseconds(span: Duration) -> u64 {
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

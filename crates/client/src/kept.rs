//! Permits that the log holds: no session keeps them, no silence ends them, and whoever shows the
//! secret renews them or gives them back, at any node.
//!
//! For scripts that come and go, and for holders that must survive the restart of everybody. Asked
//! for again with the same secret, at whichever node, it is the same permit: so a client that has
//! lost its node before it had its answer asks another one, and cannot end up with two.

use std::fmt;
use std::time::Duration;

use kgate_api::v1;
use kgate_api::v1::client_message::Message as Say;
use kgate_api::v1::server_message::Message as Told;

use crate::session::{Line, dial};
use crate::{Address, Error, Refusal};

/// What is wanted.
#[derive(Clone)]
pub struct KeptWish {
    /// Of which gate.
    pub gate: String,
    /// How many permits at once.
    pub permits: u32,
    /// What k must be, and that of a new gate; whatever it is, if none.
    pub k: Option<u32>,
    /// The gate's policy must be `hold`, and that of a new gate is.
    pub hold: bool,
    /// It may be taken back after so long without a renewal; without, the gate's policy must be
    /// `hold`.
    pub ttl: Option<Duration>,
    /// At once or not at all.
    pub no_wait: bool,
    /// For which process: what people are shown.
    pub process: v1::Process,
    /// Hard to guess; the holder shows it.
    pub secret: u128,
}

/// Without the secret.
impl fmt::Debug for KeptWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gate, permits, k, hold, ttl, no_wait, process, secret: _ } = self;
        f.debug_struct("KeptWish")
            .field("gate", gate)
            .field("permits", permits)
            .field("k", k)
            .field("hold", hold)
            .field("ttl", ttl)
            .field("no_wait", no_wait)
            .field("process", process)
            .finish_non_exhaustive()
    }
}

/// A permit that the log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name, at all nodes.
    pub permit: u64,
    /// Its slots.
    pub slots: Vec<u32>,
    /// Its fence.
    pub fence: u128,
    /// The gate's k.
    pub k: u32,
    /// It may be taken back after so long without a renewal.
    pub ttl: Option<Duration>,
    /// Through which node it was asked for.
    pub node: u32,
}

impl Kept {
    /// Asks for one, and waits until the log holds it.
    pub async fn acquire<A>(address: A, wish: &KeptWish) -> Result<Self, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        let policy = if wish.hold { v1::Policy::Hold } else { v1::Policy::Unspecified };
        let ask = Say::Acquire(v1::Acquire {
            request_id: 1,
            gate: wish.gate.clone(),
            weight: wish.permits,
            k: wish.k,
            no_wait: wish.no_wait,
            process: None,
            policy: policy.into(),
            ttl_ns: wish.ttl.map(nanoseconds),
            secret: wish.secret.to_be_bytes().to_vec(),
        });
        match answer(&address, wish.process.clone(), ask).await? {
            (node, Told::Granted(v1::Granted { slots, fence, k, durable: Some(kept), .. })) => {
                let fence = fence.and_then(|bytes| bytes.try_into().ok()).map(u128::from_be_bytes);
                let fence = fence.ok_or_else(|| nonsense("a permit without a fence"))?;
                let ttl = kept.ttl_ns.map(Duration::from_nanos);
                Ok(Self { permit: kept.permit_id, slots, fence, k, ttl, node })
            }
            (_, Told::Granted(_)) => Err(Error::Refused(Refusal {
                code: v1::ErrorCode::BadRequest,
                message: format!(
                    "gate `{}` gives permits to sessions only: say how long it is to live, or set the gate's policy to hold",
                    wish.gate
                ),
            })),
            (_, told) => Err(refused(told)),
        }
    }

    /// Its holder is alive: its time begins anew. Returns that.
    pub async fn renew<A>(address: A, permit: u64, secret: u128) -> Result<Option<Duration>, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let told = word(address.try_into()?, permit, secret, false).await?;
        let Told::PermitRenewed(v1::PermitRenewed { permit: kept, .. }) = told else {
            return Err(refused(told));
        };
        Ok(kept.and_then(|kept| kept.ttl_ns).map(Duration::from_nanos))
    }

    /// Whatever was done with it is over. Again is the same. False if it was not held any more: it
    /// had expired, been evicted or been given back before, which the log does not remember.
    pub async fn release<A>(address: A, permit: u64, secret: u128) -> Result<bool, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let told = word(address.try_into()?, permit, secret, true).await?;
        let Told::Released(v1::Released { was_gone, .. }) = told else { return Err(refused(told)) };
        Ok(!was_gone)
    }
}

async fn word(address: Address, permit: u64, secret: u128, release: bool) -> Result<Told, Error> {
    let secret = secret.to_be_bytes().to_vec();
    let ask =
        Say::PermitCommand(v1::PermitCommand { request_id: 1, permit_id: permit, secret, release });
    Ok(answer(&address, v1::Process::default(), ask).await?.1)
}

/// Asks one thing by a session of its own, which is alive until the answer has come.
async fn answer(address: &Address, process: v1::Process, ask: Say) -> Result<(u32, Told), Error> {
    let (Line { say, mut hear }, welcome) = dial(address, &process, None).await?;
    let cut = |why: String| Error::NoNode { address: address.to_string(), why };
    let gone = || cut("the line is cut".to_owned());
    let speak = |ask: Say| say.send(v1::ClientMessage { message: Some(ask) });
    speak(ask).await.map_err(|_| gone())?;
    let every = welcome.renew_every_ns.map_or(Duration::from_millis(500), Duration::from_nanos);
    let mut renew = tokio::time::interval(every.max(Duration::from_millis(1)));
    let mut sequence = 0;
    loop {
        tokio::select! {
            biased;
            told = hear.message() => match told.map_err(|status| cut(status.message().to_owned()))? {
                Some(v1::ServerMessage { message: Some(Told::Renewed(_) | Told::Welcome(_)) | None }) => {}
                Some(v1::ServerMessage { message: Some(told) }) => {
                    let _ = speak(Say::EndSession(v1::EndSession {})).await;
                    return Ok((welcome.node, told));
                }
                None => return Err(cut("the node has closed the stream".to_owned())),
            },
            _ = renew.tick() => {
                sequence += 1;
                speak(Say::Renew(v1::Renew { sequence })).await.map_err(|_| gone())?;
            }
        }
    }
}

fn refused(told: Told) -> Error {
    match told {
        Told::Refused(v1::Refused { code: why, message: text, .. })
        | Told::Closed(v1::Closed { code: why, message: text }) => {
            Error::Refused(Refusal::new(why, text))
        }
        Told::Welcome(_)
        | Told::Granted(_)
        | Told::Lost(_)
        | Told::Withdrawn(_)
        | Told::Released(_)
        | Told::Renewed(_)
        | Told::PermitRenewed(_) => nonsense("an answer to another question"),
    }
}

fn nonsense(what: &str) -> Error {
    Error::Refused(Refusal {
        code: v1::ErrorCode::Unspecified,
        message: format!("the node has sent {what}"),
    })
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

//! Requests for permits of a gate.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kgate_api::v1;
use tokio::sync::oneshot;
use tokio_stream::Stream;

use crate::session::{Command, PendingAcquire};
use crate::status::Status;
use crate::{Error, ErrorKind, Permit, Process, Shared};

/// A gate and the options of a request for one of its permits.
///
/// ```no_run
/// # async fn example(client: kgate_client::Client) -> Result<(), kgate_client::Error> {
/// use std::time::Duration;
///
/// let permit = client.gate("gpu").k(3).timeout(Duration::from_secs(10)).acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a gate does nothing until `acquire`, `try_acquire`, `status` or `watch` is called"]
pub struct Gate {
    shared: Arc<Shared>,
    request: v1::Acquire,
    min_remaining: Duration,
    timeout: Option<Duration>,
    exclusive: bool,
}

/// How often an exclusive request is repeated because k has changed.
const EXCLUSIVE_ATTEMPTS: usize = 16;

impl Gate {
    pub(crate) fn new(shared: Arc<Shared>, gate: String) -> Self {
        let request = v1::Acquire { gate, weight: 1, ..v1::Acquire::default() };
        let (min_remaining, timeout) = (Duration::ZERO, None);
        Self { shared, request, min_remaining, timeout, exclusive: false }
    }

    /// The number of slots that the request takes. Default: 1.
    pub fn weight(mut self, weight: u32) -> Self {
        self.request.weight = weight;
        self
    }

    /// Takes all slots of the gate: no other holder is inside, as for a writer among readers that
    /// take one slot each. Requests are served in order, so readers that come later wait behind it.
    ///
    /// All slots are those at the time of the grant. If k has changed by then, the request is
    /// repeated with the new k, at the end of the queue. A greater k that is set later lets others
    /// in beside the holder.
    pub fn exclusive(mut self) -> Self {
        self.exclusive = true;
        self
    }

    /// The number of slots of the gate. A new gate gets this k; the request fails with
    /// [`ErrorKind::Conflict`] if the gate exists with another k. Default: the k of the gate, or 1
    /// for a new gate.
    pub fn k(mut self, k: u32) -> Self {
        self.request.k = Some(k);
        self
    }

    /// The slots of the gate by an expression that the node resolves for its machine: `cores`,
    /// `cores/2` or `mem/8GiB`. A new gate gets that k; an existing one must have the same
    /// expression, or that k.
    pub fn k_expression(mut self, expression: &str) -> Self {
        expression.clone_into(&mut self.request.k_expression);
        self
    }

    /// The names of the slots of the gate, in order. A new gate gets them, and their number as its
    /// k; the request fails with [`ErrorKind::Conflict`] if the gate has other names, or none.
    pub fn names<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.request.names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Why the permit is wanted, for people: at most 200 bytes.
    pub fn reason(mut self, reason: &str) -> Self {
        reason.clone_into(&mut self.request.reason);
        self
    }

    /// A pair for people; repeatable with other keys, at most 16 times.
    pub fn meta(mut self, key: &str, value: &str) -> Self {
        self.request.meta.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Maximum time to wait for the permit. Default: no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The minimum validity of the permit at the moment of the grant: the time that the holder
    /// needs to stop its work once the permit is lost. A grant with less is withheld until the
    /// session is renewed, or released. Default: zero.
    pub fn min_remaining(mut self, min_remaining: Duration) -> Self {
        self.min_remaining = min_remaining;
        self
    }

    /// The process that uses the permit, for people. Default: the process of the session.
    pub fn process(mut self, process: Process) -> Self {
        self.request.process = Some(process.to_message());
        self
    }

    /// Waits for a permit. Dropping the future cancels the request.
    pub async fn acquire(self) -> Result<Permit, Error> {
        within(self.timeout, self.request()).await
    }

    /// Returns a permit if one is free now, and none if all are in use.
    pub async fn try_acquire(mut self) -> Result<Option<Permit>, Error> {
        self.request.no_wait = true;
        unless_busy(self.acquire().await)
    }

    /// The status of this gate only. [`Status::gates`] is empty if the gate does not exist.
    pub async fn status(&self) -> Result<Status, Error> {
        Status::fetch(&self.shared.addresses, Some(&self.request.gate)).await
    }

    /// The status of this gate now, and again whenever it changes.
    pub async fn watch(&self) -> Result<impl Stream<Item = Result<Status, Error>> + use<>, Error> {
        Status::watch(self.shared.addresses.clone(), Some(&self.request.gate)).await
    }

    async fn request(&self) -> Result<Permit, Error> {
        if !self.exclusive {
            return self.request_slots(self.request.weight).await;
        }
        for _ in 0..EXCLUSIVE_ATTEMPTS {
            let weight = self.slots().await?;
            match self.request_slots(weight).await {
                Ok(permit) if permit.k() <= weight => return Ok(permit),
                // k has grown: others may be inside.
                Ok(permit) => permit.release().await?,
                // k has shrunk, or the gate never grants that much.
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    if self.request.k.is_some() || self.slots().await? >= weight {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let gate = &self.request.gate;
        let message = format!("k of gate `{gate}` keeps changing: try again when it does not");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// The number of slots that an exclusive request takes: k. A closed gate refuses any weight.
    async fn slots(&self) -> Result<u32, Error> {
        if let Some(k) = self.request.k {
            return Ok(k);
        }
        if !self.request.names.is_empty() {
            return Ok(u32::try_from(self.request.names.len()).unwrap_or(u32::MAX));
        }
        let status = self.status().await?;
        Ok(status.gate(&self.request.gate).map_or(1, |gate| gate.k().max(1)))
    }

    async fn request_slots(&self, weight: u32) -> Result<Permit, Error> {
        let acquire = |request_id, answer| {
            let request = v1::Acquire { request_id, weight, ..self.request.clone() }.into();
            Command::Acquire(PendingAcquire { request, min_remaining: self.min_remaining, answer })
        };
        let grant = self.shared.call(acquire).await?;
        Ok(Permit::new(self.shared.clone(), self.request.gate.clone(), grant))
    }
}

/// Waits no longer than `timeout`, if there is one.
pub(crate) async fn within<T>(
    timeout: Option<Duration>,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(timeout) = timeout else { return request.await };
    tokio::time::timeout(timeout, request).await.unwrap_or_else(|_| {
        let message = format!("timed out: no permit within {timeout:?}");
        Err(Error::new(ErrorKind::TimedOut, message))
    })
}

/// None if all permits are in use.
pub(crate) fn unless_busy<T>(acquired: Result<T, Error>) -> Result<Option<T>, Error> {
    match acquired {
        Ok(permit) => Ok(Some(permit)),
        Err(error) if error.kind() == ErrorKind::Busy => Ok(None),
        Err(error) => Err(error),
    }
}

impl Shared {
    /// Passes a request to the session and waits for the answer. Dropping the future cancels it.
    pub(crate) async fn call<T>(
        &self,
        command: impl FnOnce(u64, oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let request_id = self.requests.fetch_add(1, Ordering::Relaxed);
        let ended = || Error::unreachable(&self.addresses, "the session has ended");
        self.commands.send(command(request_id, answer)).map_err(|_| ended())?;
        let mut cancel = CancelOnDrop { shared: self, request_id: Some(request_id) };
        let reply = answered.await.map_err(|_| ended())??;
        cancel.request_id = None;
        Ok(reply)
    }
}

/// Cancels a request that is dropped before its answer, and releases a permit that was granted
/// meanwhile.
struct CancelOnDrop<'a> {
    shared: &'a Shared,
    request_id: Option<u64>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(request_id) = self.request_id {
            let _ = self.shared.commands.send(Command::Cancel(request_id));
        }
    }
}

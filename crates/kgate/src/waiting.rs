//! What a waiting request learns from the node: holders, its place, and an estimate.
//!
//! It asks on a connection of its own, after a second and only if somebody reads it. A node that
//! does not answer, or does not show its gates to this client, costs nothing but the details.

use std::convert::Infallible;
use std::time::Duration;

use kgate_client::{Address, GateStatus, LeaseInstant, Process, Status};
use tokio_stream::{Stream, StreamExt};

use crate::run::keeper::{EventSender, KeeperEvent};
use crate::run::waiting::{Holder, WaitReport};

/// Before the first report: a short wait is not worth one.
const FIRST_AFTER: Duration = Duration::from_secs(1);
/// Between two reports: times are counted on.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Before the next attempt to reach a node that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Reports until it is dropped.
pub(crate) async fn report(
    address: &Address,
    gate: &str,
    own: &Process,
    events: &EventSender,
) -> Infallible {
    tokio::time::sleep(FIRST_AFTER).await;
    loop {
        if let Ok(replies) = Status::watch(address, Some(gate)).await {
            follow(std::pin::pin!(replies), gate, own, events).await;
        }
        let retry_at = tokio::time::Instant::now() + RETRY_AFTER;
        while tokio::time::Instant::now() < retry_at {
            events.send(KeeperEvent::Waiting(WaitReport::default()));
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }
}

/// Reports what the node says, until it says nothing more.
async fn follow(
    mut replies: impl Stream<Item = Result<Status, kgate_client::Error>> + Unpin,
    gate: &str,
    own: &Process,
    events: &EventSender,
) {
    let mut ticks = tokio::time::interval(REPORT_INTERVAL);
    let mut last: Option<(Status, LeaseInstant)> = None;
    loop {
        tokio::select! {
            reply = replies.next() => match reply {
                Some(Ok(status)) => last = Some((status, LeaseInstant::now())),
                Some(Err(_)) | None => return,
            },
            _ = ticks.tick() => {}
        }
        if let Some((status, read_at)) = &last
            && let Some(gate) = status.gate(gate)
        {
            let elapsed = LeaseInstant::now().after(*read_at);
            events.send(KeeperEvent::Waiting(report_of(gate, own, elapsed)));
        }
    }
}

fn report_of(gate: GateStatus<'_>, own: &Process, elapsed: Duration) -> WaitReport {
    let oldest = gate.holders().max_by_key(|holder| holder.age());
    let holder = oldest.map(|holder| {
        let Process { user, pid, command, .. } = holder.process();
        Holder { user, pid, command, age: holder.age() + elapsed }
    });
    let is_own = |other: Process| other.pid == own.pid && other.host == own.host;
    let place = gate.waiting().position(|waiter| is_own(waiter.process()));
    WaitReport {
        holder,
        other_holders: gate.holders().len().saturating_sub(1) + gate.durable_permits().len(),
        place: place.map(|place| (place + 1, gate.waiting_count())),
        // What has passed without a grant was no good estimate.
        estimate: place
            .and_then(|place| gate.estimate(place))
            .and_then(|left| left.checked_sub(elapsed)),
    }
}

//! Confirms that a process runs under a permit: it has the key of the grant, and it descends from
//! the holder.
//!
//! The key alone proves that the process was told of the permit, and not that the end of the permit
//! ends the process: keys leave their process tree in files, over ssh, in the environment of a
//! daemon. On a Unix socket the kernel names the process at each end, and `/proc` its ancestors.
//! The holder of the permit has a stream at this moment, so its process is alive, and its id was
//! not given to another one.
//!
//! A node that was started again knows neither sessions nor keys. Where slots are bound to locks,
//! the kernel's word is enough: a process that descends from the one with the lock of a slot runs
//! under that permit, and ends with it.

use kgate_api::v1;
use kgate_api::v1::ErrorCode;

use super::authorisation::{Identity, Privilege};
use super::{ApiError, CoreHandle};
use crate::core::{Call, CallReply, HeldPermit, ReentryKey};
use crate::holder_tree::Peer;
use crate::slot_files::{LockedSlot, locked_slots};

/// More generations than any process has.
const GENERATIONS: usize = 4096;
/// An ancestor may end while its descendants are followed; then they have another parent.
const ATTEMPTS: usize = 3;

pub(super) async fn reenter(
    core: &CoreHandle,
    who: &Identity,
    peer: Option<Peer>,
    request: v1::ReenterRequest,
) -> Result<v1::ReenterReply, ApiError> {
    let v1::ReenterRequest { gate, reentry_key } = request;
    core.access.authorise(who, Privilege::Acquire(&gate))?;
    let malformed = || ApiError::bad_request("malformed reentry key");
    let key = ReentryKey::parse(&reentry_key).ok_or_else(malformed)?;
    let permit = match core.call(Call::FindPermit { gate: gate.clone(), key }).await {
        Ok(CallReply::Permit(permit)) => permit,
        Ok(_) => return Err(ApiError::unexpected_reply()),
        Err(unknown) if unknown.code == ErrorCode::PermitNotFound => {
            return by_lock(core, peer, gate).await.ok_or(unknown);
        }
        Err(error) => return Err(error),
    };
    let holder = core.processes().get(&permit.client).copied();
    let descends = match (peer, holder) {
        (None, None) => false,
        (Some(peer), Some(holder)) if descends(peer, holder) => true,
        (Some(_) | None, _) => {
            let text = "this process is not a descendant of the permit's holder: the permit would \
                        not end it";
            return Err(ApiError::new(ErrorCode::PermissionDenied, text));
        }
    };
    let fence = permit.fence.map(|fence| fence.0.to_be_bytes().to_vec());
    let HeldPermit { slots, k, slot_names, .. } = permit;
    Ok(v1::ReenterReply { slots, fence, k, node: core.node, descends, slot_names })
}

/// The permit of an earlier incarnation of this node under which a process runs, by the locks of
/// the slots. Its fence is not known any more.
async fn by_lock(core: &CoreHandle, peer: Option<Peer>, gate: String) -> Option<v1::ReenterReply> {
    let (folder, process) = (core.access.slot_files.as_ref()?, peer?.pid?);
    let report = core.query_status(Some(gate)).await.ok()?;
    let view = report.seen.into_iter().flat_map(|(_, views)| views).next()?;
    // Others are known by their keys: the locks of all processes are not read for nothing.
    let restored = view.holders.iter().filter(|holder| holder.cut_off && holder.fence.is_none());
    let restored: Vec<u32> = restored.flat_map(|holder| holder.slots.clone()).collect();
    if restored.is_empty() {
        return None;
    }
    let is_own = |lock: &LockedSlot| {
        let holder = i32::try_from(lock.holder.pid);
        lock.gate == view.name
            && restored.contains(&lock.slot)
            && holder.is_ok_and(|holder| is_descendant(process, holder))
    };
    let locks = locked_slots(folder);
    let slots: Vec<u32> = locks.iter().filter(|lock| is_own(lock)).map(|lock| lock.slot).collect();
    let slot_names = view.source.names_of(&slots);
    let reply = v1::ReenterReply {
        slots,
        fence: None,
        k: view.k,
        node: core.node,
        descends: true,
        slot_names,
    };
    Some(reply).filter(|reply| !reply.slots.is_empty())
}

/// Whether a process is another one or descends from it. A process outside of this node's
/// namespace, which the kernel calls 0, does not.
fn descends(peer: Peer, holder: Peer) -> bool {
    peer.pid.zip(holder.pid).is_some_and(|(process, holder)| is_descendant(process, holder))
}

fn is_descendant(process: i32, ancestor: i32) -> bool {
    (0..ATTEMPTS).any(|_| {
        let mut ancestors = std::iter::successors(Some(process), |process| parent(*process));
        ancestor > 0 && ancestors.by_ref().take(GENERATIONS).any(|process| process == ancestor)
    })
}

fn parent(process: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the process, in parentheses, may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process descends from its parent and from the first process, and neither from its child
    /// nor from a process of another namespace.
    #[test]
    fn ancestors_by_the_kernel() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let of_child = i32::try_from(child.id()).unwrap();
        assert!(is_descendant(own, own) && is_descendant(own, parent(own).unwrap()));
        assert!(is_descendant(of_child, own) && !is_descendant(own, of_child));
        assert!(!is_descendant(own, 0) && !is_descendant(0, own));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!is_descendant(of_child, own), "it has ended");
    }
}

//! Work that runs under a permit already.

use kgate_api::v1;
use tonic::Response;

use crate::transport::Services;
use crate::{Address, Error};

/// A permit under which this process runs: its holder is an ancestor of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reentry {
    /// The slots of the permit.
    pub slots: Vec<u32>,
    /// The names of the slots; empty if the gate's slots have no names.
    pub slot_names: Vec<String>,
    /// The fence of the permit, if the gate's protocol has fences.
    pub fence: Option<u128>,
    /// The gate's k.
    pub k: u32,
    /// The ID of the node.
    pub node: u32,
    /// The node has confirmed by the kernel's word that this process descends from the holder. It
    /// can do so on a Unix socket. Otherwise the caller must check it.
    pub descends: bool,
}

pub(crate) async fn confirm(address: &Address, gate: &str, key: &str) -> Result<Reentry, Error> {
    let mut services = Services::connect_any(&address.into()).await?;
    let (gate, reentry_key) = (gate.to_owned(), key.to_owned());
    let reply = services.gates.reenter(v1::ReenterRequest { gate, reentry_key }).await;
    let reply = reply.map(Response::into_inner).map_err(|status| services.error(&status))?;
    let v1::ReenterReply { slots, fence, k, node, descends, slot_names } = reply;
    let fence = fence.and_then(|fence| Some(u128::from_be_bytes(fence.try_into().ok()?)));
    Ok(Reentry { slots, slot_names, fence, k, node, descends })
}

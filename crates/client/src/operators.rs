//! For operators: who takes part, who votes, what k is.

use kgate_api::v1;
use tonic::Response;

use crate::address::Api;
use crate::status::CONNECT;
use crate::{Address, Error};

/// A connection to a node, to change the cluster through it. Nodes are named by their number or
/// their name.
pub struct Operators(Api);

impl std::fmt::Debug for Operators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operators").finish_non_exhaustive()
    }
}

impl Operators {
    /// Connects to the node at `address`.
    pub async fn connect<A>(address: A) -> Result<Self, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        Ok(Self(address.connect(CONNECT).await?))
    }

    fn answer<T>(&self, reply: Result<Response<T>, tonic::Status>) -> Result<T, Error> {
        reply.map(Response::into_inner).map_err(|status| self.0.said_no(&status))
    }

    /// Who takes part, who votes.
    pub async fn members(&mut self) -> Result<v1::MembersReply, Error> {
        let reply = self.0.operators.members(v1::MembersRequest {}).await;
        self.answer(reply)
    }

    /// A node may take part: its number, and the token that it starts with.
    pub async fn add(&mut self, name: &str, address: &str) -> Result<v1::AddMemberReply, Error> {
        let wish = v1::AddMemberRequest { name: name.to_owned(), address: address.to_owned() };
        let reply = self.0.operators.add_member(wish).await;
        self.answer(reply)
    }

    /// A node takes part no more; if it does now, it is evicted first, which takes as long as a
    /// lease.
    pub async fn remove(&mut self, node: &str) -> Result<v1::OperationReply, Error> {
        let reply = self.0.operators.remove_member(v1::NodeRequest { node: node.to_owned() }).await;
        self.answer(reply)
    }

    /// A node gets a vote.
    pub async fn promote(&mut self, node: &str) -> Result<v1::OperationReply, Error> {
        let reply = self.0.operators.promote(v1::NodeRequest { node: node.to_owned() }).await;
        self.answer(reply)
    }

    /// A node loses its vote.
    pub async fn demote(&mut self, node: &str) -> Result<v1::OperationReply, Error> {
        let reply = self.0.operators.demote(v1::NodeRequest { node: node.to_owned() }).await;
        self.answer(reply)
    }

    /// What an eviction of a node would do.
    pub async fn before_evict(&mut self, node: &str) -> Result<v1::OperationReply, Error> {
        let wish = v1::EvictRequest { node: node.to_owned(), dry_run: true };
        let reply = self.0.operators.evict(wish).await;
        self.answer(reply)
    }

    /// Evicts the present incarnation of a node: what it holds is free when its lease is surely
    /// over, and not before.
    pub async fn evict(&mut self, node: &str) -> Result<v1::OperationReply, Error> {
        let wish = v1::EvictRequest { node: node.to_owned(), dry_run: false };
        let reply = self.0.operators.evict(wish).await;
        self.answer(reply)
    }

    /// A permit that the log holds is held no more; or only what that would do.
    pub async fn evict_permit(
        &mut self,
        wish: v1::EvictPermitRequest,
    ) -> Result<v1::OperationReply, Error> {
        let reply = self.0.operators.evict_permit(wish).await;
        self.answer(reply)
    }

    /// Another k for a gate.
    pub async fn set(&mut self, wish: v1::SetGateRequest) -> Result<v1::SetGateReply, Error> {
        let reply = self.0.operators.set_gate(wish).await;
        self.answer(reply)
    }

    /// The numbers of the leases, as a table.
    pub async fn timing(&mut self) -> Result<String, Error> {
        let reply = self.0.operators.timing(v1::TimingRequest {}).await;
        self.answer(reply).map(|reply| reply.text)
    }
}

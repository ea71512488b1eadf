//! The gRPC service `Operators`.

use kgate_api::v1;
use kgate_api::v1::operators_server::Operators;
use tonic::{Request, Response, Status};

use super::{Operator, holders, set};
use crate::serve::authorisation::Privilege;
use crate::serve::error::ApiError;
use crate::serve::grpc::{Api, caller};

type Replied<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Operators for Api {
    async fn members(&self, request: Request<v1::MembersRequest>) -> Replied<v1::MembersReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::SeeAll).await?;
        Ok(Response::new(operator.members().await?))
    }

    async fn add_member(
        &self,
        request: Request<v1::AddMemberRequest>,
    ) -> Replied<v1::AddMemberReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::OperateAll).await?;
        Ok(Response::new(operator.add(request.into_inner()).await?))
    }

    async fn remove_member(
        &self,
        request: Request<v1::NodeRequest>,
    ) -> Replied<v1::OperationReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::OperateAll).await?;
        Ok(Response::new(operator.remove(&request.into_inner().node).await?))
    }

    async fn promote(&self, request: Request<v1::NodeRequest>) -> Replied<v1::OperationReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::OperateAll).await?;
        Ok(Response::new(operator.promote(&request.into_inner().node).await?))
    }

    async fn demote(&self, request: Request<v1::NodeRequest>) -> Replied<v1::OperationReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::OperateAll).await?;
        Ok(Response::new(operator.demote(&request.into_inner().node).await?))
    }

    async fn evict(&self, request: Request<v1::EvictRequest>) -> Replied<v1::OperationReply> {
        let operator = Operator::admit(&self.0, &caller(&request), Privilege::OperateAll).await?;
        let v1::EvictRequest { node, dry_run } = request.into_inner();
        Ok(Response::new(operator.evict(&node, dry_run).await?))
    }

    async fn evict_permit(
        &self,
        request: Request<v1::EvictPermitRequest>,
    ) -> Replied<v1::OperationReply> {
        let who = caller(&request);
        Ok(Response::new(holders::evict_permit(&self.0, &who, request.into_inner()).await?))
    }

    async fn set_gate(&self, request: Request<v1::SetGateRequest>) -> Replied<v1::SetGateReply> {
        let who = caller(&request);
        Ok(Response::new(set::set(&self.0, &who, request.into_inner()).await?))
    }

    async fn timing(&self, request: Request<v1::TimingRequest>) -> Replied<v1::TimingReply> {
        self.0.access.authorise(&caller(&request), Privilege::SeeAll)?;
        let text =
            match self.0.timing {
                Some(timing) => timing.to_string(),
                None => return Err(ApiError::bad_request(
                    "this node has no leases: it assumes crash-stop failures, or binds permits to \
                processes",
                )
                .into()),
            };
        Ok(Response::new(v1::TimingReply { text }))
    }
}

//! gRPC: sessions, status, watch.

use axum::http::{HeaderMap, header};
use kgate_api::v1;
use kgate_api::v1::gates_server::Gates;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::CoreHandle;
use super::authorisation::{Identity, Privilege};
use super::error::ApiError;
use super::reentry;
use super::session::SessionStream;
use crate::holder_tree::Peer;

/// The implementation of both services.
#[derive(Debug)]
pub(crate) struct Api(pub(super) CoreHandle);

type Boxed<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Whether a request is gRPC, so that its error must be too.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The identity of the client, which `access::identify` has added.
pub(super) fn caller<T>(request: &Request<T>) -> Identity {
    request.extensions().get::<Identity>().cloned().expect("`identify` adds it to each request")
}

/// The process at the other end of a Unix socket, by the kernel's word.
fn peer<T>(request: &Request<T>) -> Option<Peer> {
    request.extensions().get::<Peer>().copied()
}

/// Checks that the client may see a gate. The status of all gates is restricted to those that the
/// client may see; a client that may see none is refused.
fn may_see(core: &CoreHandle, who: &Identity, gate: Option<&str>) -> Result<(), Status> {
    Ok(core.access.authorise(who, gate.map_or(Privilege::SeeSome, Privilege::See))?)
}

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<v1::ServerMessage>;
    type WatchStream = Boxed<v1::StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<v1::ClientMessage>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (who, peer) = (caller(&request), peer(&request));
        let (session, replies) = SessionStream::open(&self.0, &who, peer).await?;
        tokio::spawn(receive(session, request.into_inner()));
        Ok(Response::new(Box::pin(replies.map(Ok))))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let who = caller(&request);
        let gate = request.into_inner().gate;
        may_see(&self.0, &who, gate.as_deref())?;
        Ok(Response::new(self.0.status(&who, gate).await?))
    }

    async fn reenter(
        &self,
        request: Request<v1::ReenterRequest>,
    ) -> Result<Response<v1::ReenterReply>, Status> {
        let (who, peer) = (caller(&request), peer(&request));
        Ok(Response::new(reentry::reenter(&self.0, &who, peer, request.into_inner()).await?))
    }

    async fn watch(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (replies, stream) = mpsc::channel(1);
        let who = caller(&request);
        let (core, gate) = (self.0.clone(), request.into_inner().gate);
        may_see(&core, &who, gate.as_deref())?;
        tokio::spawn(async move {
            core.watch(&who, gate, |reply| {
                let replies = replies.clone();
                async move { replies.send(Ok(reply)).await.is_ok() }
            })
            .await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Passes the messages of a client to its session until the stream ends.
async fn receive(session: SessionStream, mut stream: Streaming<v1::ClientMessage>) {
    loop {
        match stream.message().await {
            Ok(Some(message)) => {
                if !session.receive(message).await {
                    break;
                }
            }
            Ok(None) => break,
            Err(status) => {
                if status.code() == tonic::Code::OutOfRange {
                    session.refuse_too_long().await;
                } else if let Some(code) = v1::ErrorCode::of_grpc_status(&status) {
                    session.refuse(ApiError::new(code, status.message())).await;
                }
                break;
            }
        }
    }
    session.close().await;
}

//! gRPC: sessions, status, watch.

use kgate_api::v1;
use kgate_api::v1::ask::Ask as Said;
use kgate_api::v1::gates_server::Gates;
use kgate_api::v1::tell::Tell as Say;
use kgate_control::timing::Timing;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::{Desk, report};
use crate::core::{Ask, ClientId, Process, SessionId, Tell, Why};
use crate::shell::Command;

/// The service.
#[derive(Debug)]
pub(crate) struct Api(pub(super) Desk);

type Boxed<T> = std::pin::Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn stopped() -> Status {
    Status::unavailable("this node has stopped")
}

#[tonic::async_trait]
impl Gates for Api {
    type SessionStream = Boxed<v1::Tell>;
    type WatchStream = Boxed<v1::StatusReply>;

    async fn session(
        &self,
        request: Request<Streaming<v1::Ask>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let desk = self.0.clone();
        let (client, told) = desk.open().await.ok_or_else(stopped)?;
        tokio::spawn(listen(desk.clone(), client, request.into_inner()));
        let (node, timing) = (desk.node, desk.timing);
        let tells = ReceiverStream::new(told);
        let tells = tells.map(move |tell| Ok(v1::Tell { tell: Some(say(tell, node, timing)) }));
        Ok(Response::new(Box::pin(tells)))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusReply>, Status> {
        let seen = self.0.look(request.into_inner().gate).await.ok_or_else(stopped)?;
        Ok(Response::new(report::of(seen, &self.0)))
    }

    async fn watch(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (replies, stream) = mpsc::channel(1);
        let (desk, gate) = (self.0.clone(), request.into_inner().gate);
        tokio::spawn(async move {
            desk.watch(gate, |reply| {
                let replies = replies.clone();
                async move { replies.send(Ok(reply)).await.is_ok() }
            })
            .await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Hands on what a client says, until it says nothing more.
async fn listen(desk: Desk, client: ClientId, mut stream: Streaming<v1::Ask>) {
    while let Ok(Some(v1::Ask { ask })) = stream.message().await {
        let Some(said) = ask else { continue };
        if !desk.send(Command::Ask(client, heard(said))).await {
            return;
        }
    }
    desk.send(Command::Gone(client)).await;
}

fn heard(said: Said) -> Ask {
    match said {
        Said::Hello(v1::Hello { process, session, secret }) => {
            let secret = <[u8; 16]>::try_from(secret.as_slice()).map_or(0, u128::from_be_bytes);
            let resume = session.map(|session| (SessionId(session), secret));
            Ask::Hello { process: process_of(process), resume, secret: new_secret() }
        }
        Said::Acquire(v1::Acquire { number, gate, permits, k, no_wait, process }) => Ask::Acquire {
            number,
            gate,
            weight: permits.max(1),
            permits: k,
            waits: !no_wait,
            process: process.map(|process| process_of(Some(process))),
        },
        Said::Withdraw(v1::Withdraw { number }) => Ask::Withdraw { number },
        Said::Release(v1::Release { number }) => Ask::Release { number },
        Said::Renew(v1::Renew { sequence }) => Ask::Renew { sequence },
        Said::Bye(v1::Bye {}) => Ask::Bye,
    }
}

/// A secret that nobody can guess.
pub(super) fn new_secret() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    u128::from_be_bytes(bytes)
}

fn process_of(process: Option<v1::Process>) -> Process {
    let v1::Process { pid, host, user, command } = process.unwrap_or_default();
    Process { pid, host, user, command }
}

fn say(tell: Tell, node: u32, timing: Option<Timing>) -> Say {
    match tell {
        Tell::Welcome { session, secret, valid_for, holds } => Say::Welcome(v1::Welcome {
            session: session.0,
            secret: secret.to_be_bytes().to_vec(),
            node,
            valid_for_ns: valid_for.map(|span| span.0),
            holds,
            lease_ns: timing.map(|timing| timing.lease.0),
            renew_every_ns: timing.map(|timing| timing.session_ping.0),
            stop_max_ns: timing.map(|timing| (timing.grace_max() + timing.kill).0),
        }),
        Tell::Granted { number, slots, fence, permits } => {
            let fence = fence.map(|fence| fence.0.to_be_bytes().to_vec());
            Say::Granted(v1::Granted { number, slots, fence, k: permits })
        }
        Tell::Refused { number, why, text } => {
            Say::Refused(v1::Refused { number, why: kind(why).into(), text })
        }
        Tell::Lost { number, text } => Say::Lost(v1::Lost { number, text }),
        Tell::Withdrawn { number } => Say::Withdrawn(v1::Withdrawn { number }),
        Tell::Released { number } => Say::Released(v1::Released { number }),
        Tell::Renewed { sequence, valid_for } => {
            Say::Renewed(v1::Renewed { sequence, valid_for_ns: valid_for.map(|span| span.0) })
        }
        Tell::Closed { why, text } => Say::Closed(v1::Closed { why: kind(why).into(), text }),
    }
}

pub(super) fn kind(why: Why) -> v1::Why {
    match why {
        Why::BadRequest => v1::Why::BadRequest,
        Why::Busy => v1::Why::Busy,
        Why::Conflict => v1::Why::Conflict,
        Why::TooLarge => v1::Why::TooLarge,
        Why::Full => v1::Why::Full,
        Why::NoGate => v1::Why::NoGate,
        Why::NoNode => v1::Why::NoNode,
        Why::NoSession => v1::Why::NoSession,
    }
}

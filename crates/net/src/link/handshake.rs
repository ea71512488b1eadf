//! Both sides of the handshake.
//!
//! ```text
//! dialling node                            accepting node
//!   Hello: from, to, received m   -->      checks it, closes an older connection
//!   checks it                     <--      Hello: from, to, received n      (or Refuse)
//!   Ack                           -->      the link is up                   (or Refuse)
//! ```
//!
//! The third step ensures that neither side reports a link as up that the other refuses. The whole
//! handshake has one time limit.

use std::io;

use kgate_core::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::{Peer, Refusal, Shared, describe_node};
use crate::tls::Socket;
use crate::wire::{self, Decoder, Frame, FrameError, HANDSHAKE_MAX, Hello, RefuseCode};

/// A connection on which the peer has sent its `Hello`, and this side has not answered.
pub(crate) struct Incoming {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) decoder: Decoder,
    pub(crate) hello: Hello,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.hello.fmt(f)
    }
}

/// A connection on which the handshake is complete.
pub(super) struct Established {
    pub(super) socket: Box<dyn Socket>,
    pub(super) decoder: Decoder,
    pub(super) hello: Hello,
}

/// Why a handshake was not completed.
pub(super) enum HandshakeError {
    /// One side has refused.
    Refused(Refusal),
    /// The channel cannot continue.
    ChannelFailed,
    /// Connection refused, lost, or too slow.
    Unreachable,
}

/// Dials the peer once, after the backoff delay.
pub(super) async fn dial(
    shared: &Shared,
    peer: &Peer,
    backoff: &mut Backoff,
) -> Result<Established, HandshakeError> {
    tokio::time::sleep(backoff.draw()).await;
    in_time(shared, dial_now(shared, peer)).await
}

async fn dial_now(shared: &Shared, peer: &Peer) -> Result<Established, HandshakeError> {
    let config = &shared.config;
    let stream = TcpStream::connect(peer.address()).await?;
    stream.set_nodelay(true)?;
    let mut socket = shared.tls.dial(stream, peer.id, &config.cluster).await.map_err(|error| {
        let here = describe_node(config.me, &config.cluster);
        let message = format!("{here} has no link to {}: {error}", peer.id);
        HandshakeError::Refused(Refusal::local(RefuseCode::Certificate, message))
    })?;
    let mut decoder = Decoder::new(HANDSHAKE_MAX);
    write(&mut socket, |out| wire::write_hello(&own_hello(shared, peer, None), out)).await?;
    let hello = match read_frame(&mut socket, &mut decoder).await {
        Ok(Frame::Hello(hello)) => hello,
        Ok(Frame::Refuse { code, message }) => return Err(refused_by(peer, code, &message)),
        Ok(Frame::Data { .. } | Frame::Ack(_)) => {
            return Err(not_a_node(peer, "it sends no handshake"));
        }
        Err(ReadError::Malformed(error)) => return Err(not_a_node(peer, &error.to_string())),
        Err(ReadError::Closed(error)) => {
            let rejected = error.and_then(|error| shared.tls.rejection(&error));
            return Err(rejected.map_or(HandshakeError::Unreachable, |error| {
                refused_by(peer, RefuseCode::Certificate, &error.to_string())
            }));
        }
    };
    if let Err(refusal) =
        check(shared, &hello, Some(peer.id)).and_then(|()| peer.check(&hello, config))
    {
        refuse(&mut socket, &refusal).await;
        return Err(HandshakeError::Refused(refusal));
    }
    check_channel(&mut socket, peer, &hello).await?;
    decoder.set_limit(config.limits.frame_max);
    Ok(Established { socket, decoder, hello })
}

/// Answers a `Hello`. The number of messages received on an older connection is final by now.
pub(super) async fn answer(
    shared: &Shared,
    peer: &Peer,
    incoming: Incoming,
) -> Result<Established, HandshakeError> {
    in_time(shared, answer_now(shared, peer, incoming)).await
}

async fn answer_now(
    shared: &Shared,
    peer: &Peer,
    incoming: Incoming,
) -> Result<Established, HandshakeError> {
    let Incoming { mut socket, mut decoder, hello } = incoming;
    if let Err(refusal) = peer.check(&hello, &shared.config) {
        refuse(&mut socket, &refusal).await;
        return Err(HandshakeError::Refused(refusal));
    }
    check_channel(&mut socket, peer, &hello).await?;
    write(&mut socket, |out| wire::write_hello(&own_hello(shared, peer, Some(&hello)), out))
        .await?;
    match read_frame(&mut socket, &mut decoder).await {
        Ok(Frame::Ack(_)) => {}
        Ok(Frame::Refuse { code, message }) => return Err(refused_by(peer, code, &message)),
        Ok(Frame::Hello(_) | Frame::Data { .. }) => {
            return Err(not_a_node(peer, "it sends its handshake twice"));
        }
        Err(ReadError::Malformed(error)) => return Err(not_a_node(peer, &error.to_string())),
        Err(ReadError::Closed(_)) => return Err(HandshakeError::Unreachable),
    }
    decoder.set_limit(shared.config.limits.frame_max);
    Ok(Established { socket, decoder, hello })
}

/// Checks what is the same at each attempt: whether this `Hello` is addressed to this node, and
/// comes from a known node of the same cluster. `dialled` is the node that this side has dialled.
pub(crate) fn check(
    shared: &Shared,
    hello: &Hello,
    dialled: Option<NodeId>,
) -> Result<(), Refusal> {
    let config = &shared.config;
    let (me, from) = (config.me, hello.from);
    let here = describe_node(me, &config.cluster);
    let refuse = |code, message| Err(Refusal::local(code, message));
    if hello.cluster != config.cluster {
        let there = describe_node(from, &hello.cluster);
        let message = format!(
            "{there} and {here} belong to different clusters: correct the address or the name of \
             the cluster"
        );
        return refuse(RefuseCode::Cluster, message);
    }
    if hello.to != me {
        let message =
            format!("{from} dialled {} and reached {here}: correct the addresses", hello.to);
        return refuse(RefuseCode::WrongNode, message);
    }
    match dialled {
        Some(dialled) if dialled != from => {
            let message =
                format!("{here} dialled {dialled} and reached {from}: correct the addresses");
            return refuse(RefuseCode::WrongNode, message);
        }
        Some(_) => {}
        None if shared.peers.find(from).is_none() => {
            return Err(shared.peers.refusal_of_unknown(config, from));
        }
        None if from > me => {
            let message = format!(
                "{from} has dialled {here}: of two nodes the one with the smaller id dials"
            );
            return refuse(RefuseCode::WrongDialer, message);
        }
        None => {}
    }
    let message = match (hello.nodes, config.nodes()) {
        (theirs, ours) if theirs == ours => return Ok(()),
        (0, _) => format!(
            "{from} can add and remove members, and {here} has fixed nodes: configure the same \
             `faults` at both"
        ),
        (_, 0) => format!(
            "{from} has fixed nodes, and {here} can add and remove members: configure the same \
             `faults` at both"
        ),
        (theirs, ours) => format!(
            "{from} has a cluster of {theirs} nodes and {here} one of {ours}: configure the same \
             list of nodes at both"
        ),
    };
    refuse(RefuseCode::Membership, message)
}

/// This node's `Hello` to a peer, or its answer to one.
fn own_hello(shared: &Shared, peer: &Peer, answers: Option<&Hello>) -> Hello {
    let config = &shared.config;
    let handshake = peer.handshake(answers.map(|hello| hello.incarnation));
    Hello {
        cluster: config.cluster.clone(),
        from: config.me,
        to: peer.id,
        nodes: config.nodes(),
        incarnation: handshake.incarnation,
        known: handshake.known,
        received: handshake.received,
    }
}

/// Sends the refusal and closes the connection. The other side may be gone already.
pub(crate) async fn refuse(socket: &mut Box<dyn Socket>, refusal: &Refusal) {
    let _ = write(socket, |out| wire::write_refuse(refusal.code, &refusal.message, out)).await;
    let _ = socket.shutdown().await;
}

async fn check_channel(
    socket: &mut Box<dyn Socket>,
    peer: &Peer,
    hello: &Hello,
) -> Result<(), HandshakeError> {
    let Err(error) = peer.check_channel(hello) else { return Ok(()) };
    refuse(socket, &Refusal::local(RefuseCode::StateMismatch, error.to_string())).await;
    Err(HandshakeError::ChannelFailed)
}

async fn write(socket: &mut Box<dyn Socket>, frame: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame(&mut bytes);
    socket.write_all(&bytes).await?;
    socket.flush().await
}

/// Why no frame could be read.
pub(crate) enum ReadError {
    /// The connection has ended, with an error or without.
    Closed(Option<io::Error>),
    /// The bytes are no frame.
    Malformed(FrameError),
}

/// Reads the next frame of a connection.
pub(crate) async fn read_frame(
    socket: &mut Box<dyn Socket>,
    decoder: &mut Decoder,
) -> Result<Frame, ReadError> {
    loop {
        if let Some(frame) = decoder.next().map_err(ReadError::Malformed)? {
            return Ok(frame);
        }
        match socket.read_buf(decoder.room()).await {
            Ok(0) => return Err(ReadError::Closed(None)),
            Ok(_) => {}
            Err(error) => return Err(ReadError::Closed(Some(error))),
        }
    }
}

async fn in_time(
    shared: &Shared,
    handshake: impl Future<Output = Result<Established, HandshakeError>>,
) -> Result<Established, HandshakeError> {
    let limit = shared.config.limits.handshake;
    timeout(limit, handshake).await.unwrap_or(Err(HandshakeError::Unreachable))
}

fn refused_by(peer: &Peer, code: RefuseCode, message: &str) -> HandshakeError {
    let message = format!("{} at {} refuses: {message}", peer.id, peer.address());
    HandshakeError::Refused(Refusal::by_peer(code, message))
}

fn not_a_node(peer: &Peer, reason: &str) -> HandshakeError {
    let (id, address) = (peer.id, peer.address());
    let message =
        format!("the process at {address}, the address of {id}, is no kgate node: {reason}");
    HandshakeError::Refused(Refusal::local(RefuseCode::Protocol, message))
}

impl From<io::Error> for HandshakeError {
    fn from(_: io::Error) -> Self {
        HandshakeError::Unreachable
    }
}

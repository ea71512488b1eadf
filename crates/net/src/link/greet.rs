//! Both sides of the handshake: dial, call, answer, and refuse with a text that names both.
//!
//! ```text
//! dialler                                called
//!   Hello: who, to whom, had m    -->      checks it, closes an older connection
//!   checks it                     <--      Hello: who, to whom, had n        (or Refuse: why)
//!   Ack                           -->      the link is up                    (or Refuse: why)
//! ```
//!
//! The third step is there so that neither side calls a link up which the other refuses. All of it
//! has to be over within the time of a handshake.

use std::io;

use kgate_core::NodeId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::pause::Pause;
use super::{Peer, Shared, named};
use crate::tls::Socket;
use crate::wire::{self, Decoder, Frame, GREETING_MAX, Hello, Junk};

/// A connection on which the peer has greeted, and nobody has answered.
pub(crate) struct Call {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) decoder: Decoder,
    pub(crate) hello: Hello,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.hello.fmt(f)
    }
}

/// A connection on which both have greeted.
pub(super) struct Met {
    pub(super) socket: Box<dyn Socket>,
    pub(super) decoder: Decoder,
    pub(super) hello: Hello,
}

/// Why there is none.
pub(super) enum Failure {
    /// One side has refused, and this is why.
    Refused(String),
    /// The channel cannot go on.
    Broken,
    /// Nobody there, or lost on the way.
    Unreachable,
}

/// One attempt to reach the peer, after a pause.
pub(super) async fn dial(shared: &Shared, peer: &Peer, pause: &mut Pause) -> Result<Met, Failure> {
    tokio::time::sleep(pause.draw()).await;
    in_time(shared, call(shared, peer)).await
}

async fn call(shared: &Shared, peer: &Peer) -> Result<Met, Failure> {
    let config = &shared.config;
    let stream = TcpStream::connect(peer.address()).await?;
    stream.set_nodelay(true)?;
    let here = named(config.me, &config.cluster);
    let socket = shared.keys.dial(stream, peer.id, &config.cluster).await;
    let socket = socket.map_err(|why| Failure::Refused(format!("{here} has {why}")))?;
    let (mut socket, mut decoder) = (socket, Decoder::new(GREETING_MAX));
    write(&mut socket, |out| wire::write_hello(&hello(shared, peer, None), out)).await?;
    let hello = match read_frame(&mut socket, &mut decoder).await {
        Ok(Frame::Hello(hello)) => hello,
        Ok(Frame::Refuse(why)) => return Err(refused_by(peer, &why)),
        Ok(Frame::Data { .. } | Frame::Ack(_)) => {
            return Err(not_a_node(peer, "it does not greet"));
        }
        Err(Unread::Junk(junk)) => return Err(not_a_node(peer, &junk.to_string())),
        Err(Unread::Lost(error)) => {
            let meaning = error.and_then(|error| shared.keys.meaning(&error));
            return Err(meaning.map_or(Failure::Unreachable, |why| refused_by(peer, &why)));
        }
    };
    let checked = check(shared, &hello, Some(peer.id)).and_then(|()| peer.check(&hello, config));
    if let Err(why) = checked {
        refuse(&mut socket, &why).await;
        return Err(Failure::Refused(why));
    }
    if let Err(why) = peer.fits(&hello) {
        refuse(&mut socket, &why.to_string()).await;
        return Err(Failure::Broken);
    }
    decoder.set_limit(config.limits.frame_max);
    Ok(Met { socket, decoder, hello })
}

/// The other side of it. Whatever was received on an older connection is final by now.
pub(super) async fn answer(shared: &Shared, peer: &Peer, call: Call) -> Result<Met, Failure> {
    in_time(shared, answer_now(shared, peer, call)).await
}

async fn answer_now(shared: &Shared, peer: &Peer, call: Call) -> Result<Met, Failure> {
    let Call { mut socket, mut decoder, hello } = call;
    if let Err(why) = peer.check(&hello, &shared.config) {
        refuse(&mut socket, &why).await;
        return Err(Failure::Refused(why));
    }
    if let Err(why) = peer.fits(&hello) {
        refuse(&mut socket, &why.to_string()).await;
        return Err(Failure::Broken);
    }
    write(&mut socket, |out| wire::write_hello(&self::hello(shared, peer, Some(&hello)), out))
        .await?;
    match read_frame(&mut socket, &mut decoder).await {
        Ok(Frame::Ack(_)) => {}
        Ok(Frame::Refuse(why)) => return Err(refused_by(peer, &why)),
        Ok(Frame::Hello(_) | Frame::Data { .. }) => {
            return Err(not_a_node(peer, "it greets twice"));
        }
        Err(Unread::Junk(junk)) => return Err(not_a_node(peer, &junk.to_string())),
        Err(Unread::Lost(_)) => return Err(Failure::Unreachable),
    }
    decoder.set_limit(shared.config.limits.frame_max);
    Ok(Met { socket, decoder, hello })
}

/// What cannot change from one attempt to the next: whether this greeting is meant for this node,
/// by a node that it knows.
pub(crate) fn check(shared: &Shared, hello: &Hello, called: Option<NodeId>) -> Result<(), String> {
    let config = &shared.config;
    let (me, cluster, from) = (config.me, &config.cluster, hello.from);
    let here = named(me, cluster);
    if hello.cluster != *cluster {
        let there = named(from, &hello.cluster);
        return Err(format!(
            "{there} and {here} are not of one cluster: correct the address or the cluster's name"
        ));
    }
    if hello.to != me {
        return Err(format!(
            "{from} wanted {} and has reached {here}: correct the addresses",
            hello.to
        ));
    }
    match called {
        Some(called) if called != from => {
            return Err(format!(
                "{here} called {called} and was answered by {from}: correct the addresses"
            ));
        }
        Some(_) => {}
        None if shared.roster.find(from).is_none() => {
            return Err(shared.roster.why_unknown(config, from));
        }
        None if from > me => {
            return Err(format!(
                "{from} has called {here}: of two nodes the smaller id calls the greater"
            ));
        }
        None => {}
    }
    match (hello.nodes, config.nodes()) {
        (theirs, ours) if theirs == ours => Ok(()),
        (0, _) => Err(format!(
            "{from} lets members come and go, and the nodes of {here} are fixed: give both the same `faults`"
        )),
        (_, 0) => Err(format!(
            "the nodes of {from} are fixed, and {here} lets members come and go: give both the same `faults`"
        )),
        (theirs, ours) => Err(format!(
            "{from} has a cluster of {theirs} nodes and {here} one of {ours}: give both the same list of nodes"
        )),
    }
}

/// This node's greeting to a peer, or its answer to one.
fn hello(shared: &Shared, peer: &Peer, answers: Option<&Hello>) -> Hello {
    let config = &shared.config;
    let greeting = peer.greeting(answers.map(|hello| hello.incarnation));
    Hello {
        cluster: config.cluster.clone(),
        from: config.me,
        to: peer.id,
        nodes: config.nodes(),
        incarnation: greeting.incarnation,
        of: greeting.of,
        received: greeting.received,
    }
}

/// Tells the other side why not. It may not be there to hear it.
pub(crate) async fn refuse(socket: &mut Box<dyn Socket>, why: &str) {
    let _ = write(socket, |out| wire::write_refuse(why, out)).await;
    let _ = socket.shutdown().await;
}

async fn write(socket: &mut Box<dyn Socket>, what: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut bytes = Vec::new();
    what(&mut bytes);
    socket.write_all(&bytes).await?;
    socket.flush().await
}

/// Why there is no frame.
pub(crate) enum Unread {
    /// The connection has ended, with an error or without.
    Lost(Option<io::Error>),
    /// What came is none.
    Junk(Junk),
}

/// The next frame of a connection.
pub(crate) async fn read_frame(
    socket: &mut Box<dyn Socket>,
    decoder: &mut Decoder,
) -> Result<Frame, Unread> {
    loop {
        if let Some(frame) = decoder.next().map_err(Unread::Junk)? {
            return Ok(frame);
        }
        match socket.read_buf(decoder.room()).await {
            Ok(0) => return Err(Unread::Lost(None)),
            Ok(_) => {}
            Err(error) => return Err(Unread::Lost(Some(error))),
        }
    }
}

async fn in_time(
    shared: &Shared,
    met: impl Future<Output = Result<Met, Failure>>,
) -> Result<Met, Failure> {
    timeout(shared.config.limits.handshake, met).await.unwrap_or(Err(Failure::Unreachable))
}

fn refused_by(peer: &Peer, why: &str) -> Failure {
    Failure::Refused(format!("{} at {} refuses: {why}", peer.id, peer.address()))
}

fn not_a_node(peer: &Peer, what: &str) -> Failure {
    Failure::Refused(format!(
        "whoever answers for {} at {} is no node of kgate: {what}",
        peer.id,
        peer.address()
    ))
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Failure::Unreachable
    }
}

//! The rules of sessions (LEASES S1 to S5) from the client's side, against a node that says what
//! the test says: by gRPC and in frames.
#![allow(missing_docs, unreachable_pub, reason = "a test's first stream says its point")]

mod script;

use std::time::Duration;

use kgate_api::v1::client_message::Message as FromClient;
use kgate_api::v1::server_message::Message as FromServer;
use kgate_api::v1::{Closed, ErrorCode, Lost, Refused, Release, Released};
use kgate_client::{Client, Error, ErrorKind, LeaseInstant, LostReason, Permit};
use script::{ClientStream, DEADLINE, Node, by_each, in_time, welcome};
use tokio::task::JoinHandle;

const GRACE: Duration = Duration::from_millis(300);

type Asked = JoinHandle<Result<Permit, Error>>;

/// A client that has been welcomed with so much time and has asked for a permit.
async fn asks(node: &mut Node, valid_for_ms: u64) -> (Client, ClientStream, Asked, u64) {
    let address = node.address.clone();
    let connecting = tokio::spawn(async move { Client::connect(&address).await });
    let (stream, _) = node.stream().await;
    stream.send(welcome(valid_for_ms, vec![])).await;
    let client = in_time("the client", connecting).await.unwrap().unwrap();
    let asking = client.clone();
    let asked = tokio::spawn(async move { asking.gate("g").min_remaining(GRACE).acquire().await });
    let mut stream = stream;
    let FromClient::Acquire(acquire) = stream.next_request(valid_for_ms).await else {
        panic!("no request")
    };
    let number = acquire.request_id;
    (client, stream, asked, number)
}

async fn permit(asked: Asked) -> Permit {
    in_time("the permit", asked).await.unwrap().unwrap()
}

/// What the welcome says is what counts: how long, how often, how much for stopping.
#[test]
fn the_welcome_says_how_long() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (client, ..) = asks(&mut node, 900).await;
        let lease = client.lease();
        assert_eq!(lease.length, Some(Duration::from_secs(1)));
        assert_eq!(
            (lease.renew_every, lease.stop_max),
            (Duration::from_millis(20), Some(Duration::from_millis(600)))
        );
    });
}

/// S2: a grant makes no time. It is held back until a renewal is answered with enough of it, and
/// then handed over.
#[test]
fn a_grant_without_time_is_held_back() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, mut stream, asked, number) = asks(&mut node, 0).await;
        stream.grant(number).await;
        for _ in 0..5 {
            // Answers with too little: less than the grace.
            let FromClient::Renew(renew) = stream.next().await else { panic!("a renewal") };
            stream.renewed(renew.sequence, 200).await;
        }
        assert!(!asked.is_finished(), "handed over without time");
        let FromClient::Renew(renew) = stream.next().await else { panic!("a renewal") };
        stream.renewed(renew.sequence, 1000).await;
        assert!(permit(asked).await.remaining() > GRACE);
    });
}

/// S2: if no renewal is answered in time, the client releases the grant and the request fails with
/// "no quorum".
#[test]
fn a_grant_that_stays_without_time_goes_back() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, mut stream, asked, number) = asks(&mut node, 0).await;
        stream.grant(number).await;
        let FromClient::Release(Release { request_id: released }) = stream.next_request(0).await
        else {
            panic!("given back")
        };
        assert_eq!(released, number);
        let refused = in_time("the answer", asked).await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoQuorum, "{refused:?}");
    });
}

/// S4: a permit that the node calls lost is given back when its holder is done with it, not before
/// and not never.
#[test]
fn a_lost_permit_is_released_when_its_holder_is_done() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, mut stream, asked, number) = asks(&mut node, 1000).await;
        stream.grant(number).await;
        let permit = permit(asked).await;
        stream
            .send(FromServer::Lost(Lost {
                request_id: number,
                message: "the lease of the node is over".into(),
            }))
            .await;
        let revoked = LostReason::Revoked("the lease of the node is over".into());
        assert_eq!(in_time("the loss", permit.lost()).await, revoked);
        for _ in 0..3 {
            let said = stream.next().await;
            assert!(matches!(said, FromClient::Renew(_)), "{said:?} while its holder stops");
        }
        let done = tokio::spawn(permit.release());
        let said = stream.next_request(1000).await;
        assert_eq!(said, FromClient::Release(Release { request_id: number }));
        stream.send(FromServer::Released(Released { request_id: number, was_gone: false })).await;
        in_time("the release", done).await.unwrap().unwrap();
    });
}

/// S1: a lease begins when the client sent its message, however late the answer arrives: to the
/// first handshake, to a renewal, and to the handshake that resumes a session.
#[test]
fn time_counts_from_the_sending() {
    by_each(async |framing| {
        const LATE: Duration = Duration::from_millis(100);
        const MUCH: u64 = 10_000;
        let much = Duration::from_millis(MUCH);
        let mut node = Node::start(framing).await;
        let address = node.address.clone();
        let connecting = tokio::spawn(async move { Client::connect(&address).await });
        let (mut stream, _) = node.stream().await;
        // Whatever the client has sent, it has sent before this.
        let heard = LeaseInstant::now();
        tokio::time::sleep(LATE).await;
        stream.send(welcome(MUCH, vec![])).await;
        let client = in_time("the client", connecting).await.unwrap().unwrap();
        assert!(*client.valid_until().borrow() <= heard + much, "of the handshake");

        let FromClient::Renew(renew) = stream.next().await else { panic!("a renewal") };
        let heard = LeaseInstant::now();
        tokio::time::sleep(LATE).await;
        stream.renewed(renew.sequence, 2 * MUCH).await;
        let mut until = client.valid_until();
        let renewed = in_time("the renewal", until.wait_for(|until| *until > heard + much)).await;
        assert!(*renewed.unwrap() <= heard + 2 * much, "of a renewal");

        let asking = client.clone();
        let asked = tokio::spawn(async move { asking.gate("g").acquire().await });
        let FromClient::Acquire(acquire) = stream.next_request(0).await else {
            panic!("no request")
        };
        let number = acquire.request_id;
        stream.grant(number).await;
        let _permit = permit(asked).await;
        drop(stream);
        let (stream, _) = node.stream().await;
        let heard = LeaseInstant::now();
        tokio::time::sleep(LATE).await;
        stream.send(welcome(3 * MUCH, vec![number])).await;
        let resumed =
            in_time("the session", until.wait_for(|until| *until > heard + 2 * much)).await;
        assert!(*resumed.unwrap() <= heard + 3 * much, "of the handshake that resumes");
    });
}

/// S1, S3: without answers the permit is lost at its time, though the stream is there and the node
/// says nothing of it.
#[test]
fn silence_ends_a_permit() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, mut stream, asked, number) = asks(&mut node, 1000).await;
        stream.grant(number).await;
        let permit = permit(asked).await;
        assert_eq!(in_time("the loss", permit.lost()).await, LostReason::Expired);
        assert!(permit.is_lost() && permit.remaining().is_zero());
        // The client goes on renewing all the while; nobody answers.
        assert!(matches!(stream.next().await, FromClient::Renew(_)));
    });
}

/// S5: after a cut the session goes on by its secret, and what it holds is not lost.
#[test]
fn a_session_goes_on_by_its_secret() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (client, stream, asked, number) = asks(&mut node, 1000).await;
        stream.grant(number).await;
        let permit = permit(asked).await;
        drop(stream);
        let (mut stream, hello) = node.stream().await;
        assert_eq!((hello.session_id, hello.secret), (Some(7), vec![9; 16]));
        stream.send(welcome(1000, vec![number])).await;
        let FromClient::Renew(renew) = stream.next().await else { panic!("a renewal") };
        stream.renewed(renew.sequence, 5000).await;
        let mut more = client.valid_until();
        in_time("more time", more.wait_for(|_| permit.remaining() > Duration::from_secs(2)))
            .await
            .unwrap();
        assert!(!permit.is_lost());
    });
}

/// S5: a node that knows the session and not the permit has lost it: so has the holder.
#[test]
fn what_the_node_does_not_know_is_lost() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, stream, asked, number) = asks(&mut node, 1000).await;
        stream.grant(number).await;
        let permit = permit(asked).await;
        drop(stream);
        let (stream, _) = node.stream().await;
        stream.send(welcome(1000, vec![])).await;
        let reason = in_time("the loss", permit.lost()).await;
        assert!(matches!(reason, LostReason::SessionLost(_)), "{reason:?}");
    });
}

/// What another session was promised says nothing about a new one.
#[test]
fn a_new_session_has_no_old_time() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (client, mut stream, asked, number) = asks(&mut node, 1000).await;
        stream.grant(number).await;
        let permit = permit(asked).await;
        let FromClient::Renew(renew) = stream.next().await else { panic!("a renewal") };
        stream.renewed(renew.sequence, 60_000).await;
        let mut much = client.valid_until();
        in_time("much time", much.wait_for(|_| permit.remaining() > Duration::from_secs(30)))
            .await
            .unwrap();
        stream
            .send(FromServer::Closed(Closed {
                code: ErrorCode::SessionNotFound.into(),
                message: "a new incarnation of the node".into(),
            }))
            .await;
        let (stream, hello) = node.stream().await;
        assert_eq!(hello.session_id, None, "nothing is left to go on with");
        stream.send(welcome(500, vec![])).await;
        let mut until = client.valid_until();
        let soon = || LeaseInstant::now() + Duration::from_secs(2);
        in_time("the time of the new session", until.wait_for(|until| *until < soon()))
            .await
            .unwrap();
        assert!(permit.is_lost());
    });
}

/// A waiter whose node goes away finds it when it is back, and asks once more.
#[test]
fn a_waiter_finds_its_node_again() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, stream, asked, number) = asks(&mut node, 1000).await;
        let address = node.address.clone();
        drop((stream, node));
        // Longer than the first attempts take together.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(!asked.is_finished(), "it has given up");
        let mut node = Node::at(&address).await;
        let (mut stream, _) = node.stream().await;
        stream.send(welcome(1000, vec![])).await;
        let FromClient::Acquire(acquire) = stream.next_request(1000).await else {
            panic!("asks again")
        };
        let again = acquire.request_id;
        assert_eq!(again, number);
        stream.grant(number).await;
        permit(asked).await;
    });
}

/// A waiter whose node stays away gives up after ten seconds, and says that there is no node. Takes
/// as long: only where `KGATE_TEST_SLOW` is set.
#[test]
fn a_waiter_gives_up_at_last() {
    if std::env::var_os("KGATE_TEST_SLOW").is_none() {
        return;
    }
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, stream, asked, _) = asks(&mut node, 1000).await;
        drop((stream, node));
        let begun = LeaseInstant::now();
        let error = tokio::time::timeout(DEADLINE, asked).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
        assert!(LeaseInstant::now().after(begun) > Duration::from_secs(9));
    });
}

/// A refusal for want of a quorum is told as such.
#[test]
fn no_quorum_is_told() {
    by_each(async |framing| {
        let mut node = Node::start(framing).await;
        let (_client, stream, asked, number) = asks(&mut node, 0).await;
        let text = "no quorum: p1 and p2 do not answer";
        stream
            .send(FromServer::Refused(Refused {
                request_id: number,
                code: ErrorCode::NoQuorum.into(),
                message: text.into(),
            }))
            .await;
        let refused = in_time("the answer", asked).await.unwrap().unwrap_err();
        assert_eq!((refused.kind(), refused.to_string().as_str()), (ErrorKind::NoQuorum, text));
    });
}

/// A node that does not speak frames is told from one that does not answer.
#[tokio::test]
async fn a_node_without_frames_is_an_error_of_its_own() {
    let file = format!("kgate-client-{}-http.sock", std::process::id());
    let socket = std::env::temp_dir().join(file);
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let answering = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        stream
    };
    let address = format!("unix:{}", socket.display());
    let (_stream, refused) = tokio::join!(answering, Client::connect(&address));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Protocol);
    drop(listener);
    let refused = Client::connect(&address).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unreachable);
    std::fs::remove_file(&socket).unwrap();
}

//! Very many waiting requests at one node.

use kgate_client::Client;

use crate::book::Book;
use crate::cluster::Cluster;
use crate::fixture::{Home, block_on, looks_so};

const WAITERS: usize = 10_000;
const SESSIONS: usize = 4;

/// Ten thousand requests of four sessions wait at one node, and its status shows all. A third of
/// them is cancelled and the others are served within a bound; none is left.
#[test]
fn ten_thousand() {
    let home = Home::new("waiters");
    let book = Book::new(&home, "gpu");
    let cluster = Cluster::start(&home, 1, "");
    let api = &cluster.api[0];
    block_on(async {
        let holder =
            Client::connect(api).await.unwrap().gate("gpu").k(3).weight(3).acquire().await.unwrap();
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(Client::connect(api).await.unwrap());
        }
        let mut waiting = Vec::new();
        for number in 0..WAITERS {
            let (gate, book) = (sessions[number % SESSIONS].gate("gpu"), book.clone());
            waiting.push(tokio::spawn(async move {
                let permit = gate.acquire().await.unwrap();
                drop(book.enter(&permit, &number.to_string()));
                permit.release().await.unwrap();
            }));
        }
        looks_so(api, "gpu", |gate| gate.waiting().len() == WAITERS).await;
        let (gone, served): (Vec<_>, Vec<_>) =
            (0..).zip(waiting).partition(|(number, _)| number % 3 == 0);
        let (gone, served) = (gone.into_iter(), Vec::from_iter(served));
        // Dropping a request cancels it.
        gone.for_each(|(_, waits)| waits.abort());
        looks_so(api, "gpu", |gate| gate.waiting().len() == served.len()).await;
        assert_eq!(book.entries().len(), 0);
        let count = served.len();
        holder.release().await.unwrap();
        for (_, waits) in served {
            waits.await.unwrap();
        }
        assert_eq!(book.check(3).len(), count);
        looks_so(api, "gpu", |gate| gate.waiting().len() == 0 && gate.holders().len() == 0).await;
    });
}

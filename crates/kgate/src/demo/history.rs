//! What the clients did, in the order of one clock: the trace by which a run is checked.
//!
//! Everything is written under one lock, with the time read inside it, so that the order of the
//! lines is the order of time and no two ways of reading a tie exist. A client writes that it is in
//! after its permit has come, and that it is out before it gives the permit back. So two are inside
//! at once in the trace only if they were. When a node is to be killed all its clients crash in the
//! trace first, and none of them can write after that: they are on the machine that dies.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use kgate_core::{NodeId, Time};
use kgate_spec::history::{self, TraceError, Verdict};
use kgate_spec::trace::{Event, Writer};

/// A client's incarnation at one node: a process of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

/// Where a client stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    Outside,
    Waits,
    Inside(Vec<u32>),
}

/// One client at its node.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) stand: Stand,
    /// Its node was killed.
    gone: bool,
}

#[derive(Debug)]
enum What {
    Asks,
    In { slots: Vec<u32>, fence: Option<u128> },
    Out,
    Crashes,
    Unsettled,
    Settled,
}

#[derive(Debug, Default)]
struct Book {
    lines: Vec<(u64, Process, What)>,
    seats: Vec<Seat>,
    /// Grants at each node.
    grants: Vec<u64>,
}

/// One stay inside, from the question to the end; times since the start, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    pub(crate) client: usize,
    pub(crate) asked: u64,
    pub(crate) granted: u64,
    /// None if it never came out.
    pub(crate) released: Option<u64>,
    /// The first of its slots, where the protocol numbers them.
    pub(crate) slot: Option<u32>,
}

/// The history of a run; clones write into the same one.
#[derive(Clone, Debug)]
pub(crate) struct History {
    began: Instant,
    book: Arc<Mutex<Book>>,
}

impl History {
    pub(crate) fn new(nodes: usize) -> Self {
        let book = Book { grants: vec![0; nodes], ..Book::default() };
        #[allow(clippy::disallowed_methods)] // Real processes are driven here.
        let began = Instant::now();
        Self { began, book: Arc::new(Mutex::new(book)) }
    }

    /// Another history by the same clock, of another gate.
    pub(crate) fn beside(&self) -> Self {
        let book = Book { grants: vec![0; self.book().grants.len()], ..Book::default() };
        Self { began: self.began, book: Arc::new(Mutex::new(book)) }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nobody panics while writing")
    }

    /// A client begins at a node.
    pub(crate) fn enrol(&self, client: usize, node: usize) -> Process {
        let mut book = self.book();
        let process = Process(u32::try_from(book.seats.len()).expect("few begin"));
        book.seats.push(Seat { client, node, stand: Stand::Outside, gone: false });
        process
    }

    pub(crate) fn asks(&self, process: Process) -> bool {
        self.write(process, What::Asks)
    }

    /// Its permit has come. False if its node was killed before: then it is not in.
    pub(crate) fn is_in(&self, process: Process, slots: &[u32], fence: Option<u128>) -> bool {
        self.write(process, What::In { slots: slots.to_vec(), fence })
    }

    /// It is about to give its permit back.
    pub(crate) fn is_out(&self, process: Process) -> bool {
        self.write(process, What::Out)
    }

    /// From here on nothing is checked, until it has settled.
    pub(crate) fn unsettled(&self) {
        self.write(Process(0), What::Unsettled);
    }

    pub(crate) fn settled(&self) {
        self.write(Process(0), What::Settled);
    }

    /// A node is about to be killed: its clients are gone. Who they are.
    pub(crate) fn crash(&self, node: usize) -> Vec<usize> {
        let mut book = self.book();
        let here = |seat: &Seat| seat.node == node && !seat.gone;
        let gone: Vec<usize> = (0..book.seats.len()).filter(|&at| here(&book.seats[at])).collect();
        for &at in &gone {
            let process = Process(u32::try_from(at).expect("few begin"));
            self.write_in(&mut book, process, What::Crashes);
            book.seats[at].gone = true;
        }
        gone.into_iter().map(|at| book.seats[at].client).collect()
    }

    /// Whether the node of that process was killed.
    pub(crate) fn is_gone(&self, process: Process) -> bool {
        self.book().seats[process.0 as usize].gone
    }

    fn write(&self, process: Process, what: What) -> bool {
        self.write_in(&mut self.book(), process, what)
    }

    fn write_in(&self, book: &mut Book, process: Process, what: What) -> bool {
        let about_all = matches!(what, What::Unsettled | What::Settled);
        if let Some(seat) = book.seats.get_mut(process.0 as usize).filter(|_| !about_all) {
            if seat.gone {
                return false;
            }
            match &what {
                What::Asks => seat.stand = Stand::Waits,
                What::In { slots, .. } => {
                    book.grants[seat.node] += 1;
                    seat.stand = Stand::Inside(slots.clone());
                }
                What::Out | What::Crashes => seat.stand = Stand::Outside,
                What::Unsettled | What::Settled => {}
            }
        }
        let at = u64::try_from(self.began.elapsed().as_nanos()).expect("centuries");
        book.lines.push((at, process, what));
        true
    }

    /// The clients that live, and how much was granted at each node: what people are shown.
    pub(crate) fn look(&self) -> (Vec<Seat>, Vec<u64>) {
        let book = self.book();
        (book.seats.iter().filter(|seat| !seat.gone).cloned().collect(), book.grants.clone())
    }

    /// Every stay inside, in the order of grants.
    pub(crate) fn stays(&self) -> Vec<Stay> {
        let book = self.book();
        let mut asked = vec![0; book.seats.len()];
        let mut inside: Vec<Option<usize>> = vec![None; book.seats.len()];
        let mut stays: Vec<Stay> = Vec::new();
        for (at, Process(process), what) in &book.lines {
            let process = *process as usize;
            match what {
                What::Asks => asked[process] = *at,
                What::In { slots, .. } => {
                    inside[process] = Some(stays.len());
                    let client = book.seats[process].client;
                    let slot = slots.first().copied();
                    stays.push(Stay {
                        client,
                        asked: asked[process],
                        granted: *at,
                        released: None,
                        slot,
                    });
                }
                What::Out => {
                    if let Some(stay) = inside[process].take() {
                        stays[stay].released = Some(*at);
                    }
                }
                What::Crashes | What::Unsettled | What::Settled => {}
            }
        }
        stays
    }

    /// Since the start, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("centuries")
    }

    /// Writes all of it down as a trace.
    pub(crate) fn trace(
        &self,
        protocol: &str,
        permits: u32,
        to: &mut impl Write,
    ) -> std::io::Result<()> {
        let book = self.book();
        let run = serde_json::json!({ "protocol": protocol, "n": book.seats.len().max(1), "k": permits, "by": "kgate demo" });
        let mut writer = Writer::new(Box::new(to), &run);
        for (at, Process(process), what) in &book.lines {
            let event = match what {
                What::Asks => Event::Acquire { weight: 1 },
                What::In { slots, fence } => {
                    let fence = fence.map(|fence| format!("{fence:#034x}"));
                    Event::Granted { slots, fence, stamp: None, grant: None }
                }
                What::Out => Event::Release { grant: None },
                What::Crashes => Event::Crash,
                What::Unsettled => Event::Fault,
                What::Settled => Event::Recovered,
            };
            writer.write(Time(*at), NodeId(*process), &event);
        }
        writer.finish()
    }

    /// What the oracle, which knows nothing but the trace, says of it.
    pub(crate) fn check(&self, protocol: &str, permits: u32) -> Result<Verdict, TraceError> {
        let mut text = Vec::new();
        self.trace(protocol, permits, &mut text)?;
        history::check(text.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_spec::{AtMostK, SlotFences};

    fn properties(history: &History, permits: u32) -> Vec<&'static str> {
        let verdict = history.check("x", permits).expect("a trace");
        verdict.violations.iter().map(|violation| violation.property).collect()
    }

    /// The planted bug: a second one is let in before the first is out, and the verdict says so;
    /// one after the other is right.
    #[test]
    fn two_inside_are_seen() {
        let history = History::new(2);
        let (one, other) = (history.enrol(0, 0), history.enrol(1, 1));
        assert!(history.asks(one) && history.asks(other) && history.is_in(one, &[], None));
        assert!(history.is_out(one) && history.is_in(other, &[], None));
        assert_eq!(properties(&history, 1), [""; 0]);
        assert_eq!(
            history.stays().iter().map(|stay| stay.released.is_some()).collect::<Vec<_>>(),
            [true, false]
        );
        assert!(history.asks(one) && history.is_in(one, &[], None));
        assert_eq!(properties(&history, 1), [AtMostK::NAME]);
        assert_eq!(properties(&history, 2), [""; 0]);
    }

    /// The planted bugs of slots: one slot for two, and a fence that does not grow.
    #[test]
    fn slots_and_fences_are_checked() {
        let history = History::new(2);
        let (one, other) = (history.enrol(0, 0), history.enrol(1, 1));
        assert!(history.asks(one) && history.asks(other));
        assert!(history.is_in(one, &[0], Some(5)) && history.is_in(other, &[0], Some(6)));
        assert_eq!(properties(&history, 2), [SlotFences::NAME]);
        assert!(history.is_out(one) && history.is_out(other) && history.asks(one));
        assert!(history.is_in(one, &[0], Some(4)));
        assert_eq!(properties(&history, 2), [SlotFences::NAME; 2]);
    }

    /// Clients of a node that is killed are gone before it is: their place inside is free, and they
    /// write no more.
    #[test]
    fn clients_die_with_their_node() {
        let history = History::new(2);
        let (one, other, third) = (history.enrol(0, 0), history.enrol(1, 1), history.enrol(2, 0));
        for process in [one, other, third] {
            assert!(history.asks(process));
        }
        assert!(history.is_in(one, &[0], Some(1)));
        assert_eq!(history.crash(0), [0, 2]);
        assert!(
            !history.is_out(one) && !history.is_in(third, &[0], Some(2)) && history.is_gone(third)
        );
        assert!(history.is_in(other, &[0], Some(3)));
        assert_eq!(properties(&history, 1), [""; 0]);
        assert_eq!((history.look().0.len(), history.look().1), (1, vec![1, 1]));
    }

    /// Before it has settled nothing is checked; after it, all.
    #[test]
    fn checked_when_settled() {
        let history = History::new(1);
        let both = [history.enrol(0, 0), history.enrol(1, 0)];
        history.unsettled();
        for process in both {
            assert!(history.asks(process) && history.is_in(process, &[], None));
        }
        assert!(history.is_out(both[0]));
        history.settled();
        assert_eq!(properties(&history, 1), [""; 0]);
        assert!(history.asks(both[0]) && history.is_in(both[0], &[], None));
        assert_eq!(properties(&history, 1), [AtMostK::NAME]);
    }
}

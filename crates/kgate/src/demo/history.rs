//! The history of all clients by one clock: the trace by which a run is checked.
//!
//! Each event is recorded under one lock, with the time read inside it, so that the order of events
//! is the order of time and ties are not ambiguous. A client records a grant after it got its
//! permit, and a release before it releases. Two clients hold at once in the history only if they
//! did. Before a node is killed, the history records the crash of all its clients, which record
//! nothing after that: they are on the machine that dies.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use kgate_core::{NodeId, Time};
use kgate_spec::history::{self, TraceError, Verdict};
use kgate_spec::trace::{Event, Writer};

/// A client at one node: a process of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

/// The phase of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Waiting,
    Holding(Vec<u32>),
}

/// A client at its node.
#[derive(Clone, Debug)]
pub(crate) struct ClientState {
    pub(crate) client: usize,
    pub(crate) node: usize,
    pub(crate) phase: Phase,
    /// Its node was killed.
    killed: bool,
}

#[derive(Debug)]
enum Recorded {
    Request,
    Granted { slots: Vec<u32>, fence: Option<u128> },
    Released,
    Crash,
    Unsettled,
    Settled,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<(u64, Process, Recorded)>,
    clients: Vec<ClientState>,
    /// Grants at each node.
    grants: Vec<u64>,
}

/// One use of a permit, from request to release; times since the start, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    pub(crate) requested: u64,
    pub(crate) granted: u64,
    /// None if it was never released.
    pub(crate) released: Option<u64>,
    /// The first of its slots, where the protocol numbers them.
    pub(crate) slot: Option<u32>,
}

/// The history of a run. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    began: Instant,
    log: Arc<Mutex<Log>>,
}

impl History {
    pub(crate) fn new(nodes: usize) -> Self {
        let log = Log { grants: vec![0; nodes], ..Log::default() };
        #[allow(clippy::disallowed_methods)] // Real processes are driven here.
        let began = Instant::now();
        Self { began, log: Arc::new(Mutex::new(log)) }
    }

    /// Another history by the same clock, of another gate.
    pub(crate) fn beside(&self) -> Self {
        let log = Log { grants: vec![0; self.lock().grants.len()], ..Log::default() };
        Self { began: self.began, log: Arc::new(Mutex::new(log)) }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no thread panics while recording")
    }

    /// Registers a client at a node.
    pub(crate) fn register(&self, client: usize, node: usize) -> Process {
        let mut log = self.lock();
        let process = Process(u32::try_from(log.clients.len()).expect("fewer than 2^32 clients"));
        log.clients.push(ClientState { client, node, phase: Phase::Idle, killed: false });
        process
    }

    pub(crate) fn request(&self, process: Process) -> bool {
        self.record(process, Recorded::Request)
    }

    /// Records a grant. False if the client's node was killed before: then it does not hold.
    pub(crate) fn granted(&self, process: Process, slots: &[u32], fence: Option<u128>) -> bool {
        self.record(process, Recorded::Granted { slots: slots.to_vec(), fence })
    }

    /// Records that the client is about to release.
    pub(crate) fn released(&self, process: Process) -> bool {
        self.record(process, Recorded::Released)
    }

    /// From here on nothing is checked, until [`settled`](Self::settled).
    pub(crate) fn unsettled(&self) {
        self.record(Process(0), Recorded::Unsettled);
    }

    pub(crate) fn settled(&self) {
        self.record(Process(0), Recorded::Settled);
    }

    /// Records the crash of all clients of a node that is about to be killed, and returns them.
    pub(crate) fn crash(&self, node: usize) -> Vec<usize> {
        let mut log = self.lock();
        let here = |client: &ClientState| client.node == node && !client.killed;
        let killed: Vec<usize> =
            (0..log.clients.len()).filter(|&at| here(&log.clients[at])).collect();
        for &at in &killed {
            let process = Process(u32::try_from(at).expect("fewer than 2^32 clients"));
            self.record_in(&mut log, process, Recorded::Crash);
            log.clients[at].killed = true;
        }
        killed.into_iter().map(|at| log.clients[at].client).collect()
    }

    /// Whether the node of that process was killed.
    pub(crate) fn is_killed(&self, process: Process) -> bool {
        self.lock().clients[process.0 as usize].killed
    }

    fn record(&self, process: Process, event: Recorded) -> bool {
        self.record_in(&mut self.lock(), process, event)
    }

    fn record_in(&self, log: &mut Log, process: Process, event: Recorded) -> bool {
        let about_all = matches!(event, Recorded::Unsettled | Recorded::Settled);
        if let Some(client) = log.clients.get_mut(process.0 as usize).filter(|_| !about_all) {
            if client.killed {
                return false;
            }
            match &event {
                Recorded::Request => client.phase = Phase::Waiting,
                Recorded::Granted { slots, .. } => {
                    log.grants[client.node] += 1;
                    client.phase = Phase::Holding(slots.clone());
                }
                Recorded::Released | Recorded::Crash => client.phase = Phase::Idle,
                Recorded::Unsettled | Recorded::Settled => {}
            }
        }
        let at = u64::try_from(self.began.elapsed().as_nanos()).expect("fewer than 584 years");
        log.events.push((at, process, event));
        true
    }

    /// The clients that are alive, and the number of grants at each node, for display.
    pub(crate) fn snapshot(&self) -> (Vec<ClientState>, Vec<u64>) {
        let log = self.lock();
        (log.clients.iter().filter(|client| !client.killed).cloned().collect(), log.grants.clone())
    }

    /// Every use of a permit, in the order of grants.
    pub(crate) fn holds(&self) -> Vec<Hold> {
        let log = self.lock();
        let mut requested = vec![0; log.clients.len()];
        let mut current: Vec<Option<usize>> = vec![None; log.clients.len()];
        let mut holds: Vec<Hold> = Vec::new();
        for (at, Process(process), event) in &log.events {
            let process = *process as usize;
            match event {
                Recorded::Request => requested[process] = *at,
                Recorded::Granted { slots, .. } => {
                    current[process] = Some(holds.len());
                    let client = log.clients[process].client;
                    let slot = slots.first().copied();
                    holds.push(Hold {
                        client,
                        requested: requested[process],
                        granted: *at,
                        released: None,
                        slot,
                    });
                }
                Recorded::Released => {
                    if let Some(hold) = current[process].take() {
                        holds[hold].released = Some(*at);
                    }
                }
                Recorded::Crash | Recorded::Unsettled | Recorded::Settled => {}
            }
        }
        holds
    }

    /// Time since the start, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).expect("fewer than 584 years")
    }

    /// Writes the history as a trace.
    pub(crate) fn trace(&self, protocol: &str, k: u32, to: &mut impl Write) -> std::io::Result<()> {
        let log = self.lock();
        let n = log.clients.len().max(1);
        let run = serde_json::json!({ "protocol": protocol, "n": n, "k": k, "by": "kgate demo" });
        let mut writer = Writer::new(Box::new(to), &run);
        for (at, Process(process), event) in &log.events {
            let event = match event {
                Recorded::Request => Event::Acquire { weight: 1 },
                Recorded::Granted { slots, fence } => {
                    let fence = fence.map(|fence| format!("{fence:#034x}"));
                    Event::Granted { slots: slots.into(), fence, stamp: None, grant: None }
                }
                Recorded::Released => Event::Release { grant: None },
                Recorded::Crash => Event::Crash,
                Recorded::Unsettled => Event::Fault,
                Recorded::Settled => Event::Recovered,
            };
            writer.write(Time(*at), NodeId(*process), &event);
        }
        writer.finish()
    }

    /// The verdict of the checker, which knows only the trace.
    pub(crate) fn check(&self, protocol: &str, k: u32) -> Result<Verdict, TraceError> {
        let mut text = Vec::new();
        self.trace(protocol, k, &mut text)?;
        history::check(text.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kgate_spec::{AtMostK, SlotFences};

    fn properties(history: &History, k: u32) -> Vec<&'static str> {
        let verdict = history.check("x", k).expect("a trace");
        verdict.violations.iter().map(|violation| violation.property).collect()
    }

    /// Planted bug: a second grant before the first release is a violation; one after the other is
    /// correct.
    #[test]
    fn two_holders_are_a_violation() {
        let history = History::new(2);
        let (one, other) = (history.register(0, 0), history.register(1, 1));
        assert!(history.request(one) && history.request(other) && history.granted(one, &[], None));
        assert!(history.released(one) && history.granted(other, &[], None));
        assert_eq!(properties(&history, 1), [""; 0]);
        assert_eq!(
            history.holds().iter().map(|hold| hold.released.is_some()).collect::<Vec<_>>(),
            [true, false]
        );
        assert!(history.request(one) && history.granted(one, &[], None));
        assert_eq!(properties(&history, 1), [AtMostK::NAME]);
        assert_eq!(properties(&history, 2), [""; 0]);
    }

    /// Planted bugs of slots: one slot for two holders, and a fence that does not increase.
    #[test]
    fn slots_and_fences_are_checked() {
        let history = History::new(2);
        let (one, other) = (history.register(0, 0), history.register(1, 1));
        assert!(history.request(one) && history.request(other));
        assert!(history.granted(one, &[0], Some(5)) && history.granted(other, &[0], Some(6)));
        assert_eq!(properties(&history, 2), [SlotFences::NAME]);
        assert!(history.released(one) && history.released(other) && history.request(one));
        assert!(history.granted(one, &[0], Some(4)));
        assert_eq!(properties(&history, 2), [SlotFences::NAME; 2]);
    }

    /// Clients of a killed node crash before it: they hold nothing any more and record nothing
    /// more.
    #[test]
    fn clients_die_with_their_node() {
        let history = History::new(2);
        let (one, other, third) =
            (history.register(0, 0), history.register(1, 1), history.register(2, 0));
        for process in [one, other, third] {
            assert!(history.request(process));
        }
        assert!(history.granted(one, &[0], Some(1)));
        assert_eq!(history.crash(0), [0, 2]);
        assert!(
            !history.released(one)
                && !history.granted(third, &[0], Some(2))
                && history.is_killed(third)
        );
        assert!(history.granted(other, &[0], Some(3)));
        assert_eq!(properties(&history, 1), [""; 0]);
        assert_eq!((history.snapshot().0.len(), history.snapshot().1), (1, vec![1, 1]));
    }

    /// Nothing is checked before the run has settled, and everything after that.
    #[test]
    fn checked_when_settled() {
        let history = History::new(1);
        let both = [history.register(0, 0), history.register(1, 0)];
        history.unsettled();
        for process in both {
            assert!(history.request(process) && history.granted(process, &[], None));
        }
        assert!(history.released(both[0]));
        history.settled();
        assert_eq!(properties(&history, 1), [""; 0]);
        assert!(history.request(both[0]) && history.granted(both[0], &[], None));
        assert_eq!(properties(&history, 1), [AtMostK::NAME]);
    }
}

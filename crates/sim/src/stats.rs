//! The counters of a run: the one place where metrics come from.

use kgate_core::{Protocol, Span, Time};

use crate::config::Config;
use crate::gauge::Gauge;

/// Message counts by kind.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    names: Vec<&'static str>,
    sent: Vec<u64>,
}

impl Counts {
    pub(crate) fn new<M: kgate_core::Message>() -> Self {
        Self { names: (0..M::KINDS).map(M::kind_name).collect(), sent: vec![0; M::KINDS] }
    }

    #[inline]
    pub(crate) fn add(&mut self, kind: usize, copies: u64) {
        self.sent[kind] += copies;
    }

    pub(crate) fn total(&self) -> u64 {
        self.sent.iter().sum()
    }

    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.names.iter().copied().zip(self.sent.iter().copied())
    }
}

/// The messages of the mutex protocol that one process sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProcessTraffic {
    pub(crate) sent: u32,
    pub(crate) received: u32,
}

/// The counters of a run at one time.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    /// Inputs handled: deliveries, timers, requests, releases, notifications.
    pub(crate) events: u64,
    /// Messages of the mutex protocol that reached a live process.
    pub(crate) delivered: u64,
    pub(crate) requests: u64,
    pub(crate) grants: u64,
    /// Requests withdrawn by their clients.
    pub(crate) withdrawals: u64,
    /// Requests that ended because k became smaller than their weight.
    pub(crate) refused: u64,
    /// Requests of clients to go on at another process, and those that did.
    pub(crate) adoption_requests: u64,
    pub(crate) adoptions: u64,
    /// Obtaining times, from the request.
    pub(crate) obtaining: Vec<Span>,
    /// Obtaining times, from the start of the request's broadcast.
    pub(crate) obtaining_from_broadcast: Vec<Span>,
    pub(crate) mutex_messages: Counts,
    pub(crate) detector_messages: Counts,
    /// For each process: messages of the mutex protocol sent and received.
    pub(crate) traffic: Vec<ProcessTraffic>,
    pub(crate) suspicions: u64,
    pub(crate) false_suspicions: u64,
    /// Slots in use and waiting requests, over time.
    pub(crate) inside: Gauge,
    pub(crate) waiting: Gauge,
}

impl Stats {
    /// All counters at 0, for a run of `M` beside `D`.
    pub(crate) fn new<M: Protocol, D: Protocol>(config: &Config) -> Self {
        let (begin, end) = (Time::ZERO + config.warmup, Time::ZERO + config.duration);
        Self {
            events: 0,
            delivered: 0,
            requests: 0,
            grants: 0,
            withdrawals: 0,
            refused: 0,
            adoption_requests: 0,
            adoptions: 0,
            obtaining: Vec::new(),
            obtaining_from_broadcast: Vec::new(),
            mutex_messages: Counts::new::<M::Message>(),
            detector_messages: Counts::new::<D::Message>(),
            traffic: vec![ProcessTraffic::default(); config.nodes as usize],
            suspicions: 0,
            false_suspicions: 0,
            inside: Gauge::new(begin, end),
            waiting: Gauge::new(begin, end),
        }
    }

    /// Ends the warm-up: what clients have asked for and obtained so far is not measured. Messages
    /// and gauges know their begin themselves; suspicions belong to the faults, whenever those
    /// happen.
    pub(crate) fn begin(&mut self) {
        (self.delivered, self.requests, self.grants, self.withdrawals, self.refused) =
            (0, 0, 0, 0, 0);
        (self.adoption_requests, self.adoptions) = (0, 0);
        self.obtaining.clear();
        self.obtaining_from_broadcast.clear();
        self.traffic.iter_mut().for_each(|process| process.received = 0);
    }
}

/// The records of one requester.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Requester {
    pub(crate) asked_for: Time,
    pub(crate) broadcast: Time,
    pub(crate) requests: u32,
}

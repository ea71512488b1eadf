//! The rival in kgate's speed comparison: Raymond's permission-based
//! k-mutual-exclusion algorithm (1989) on the simulator `dscale`.
//!
//! Every process asks at time 0, enters after n - k REPLYs, stays inside for
//! `hold`, then answers those it deferred; `think` later it asks again, until
//! it has entered `entries` times. The program runs until no event is left and
//! prints one JSON line with the messages delivered and the wall time.

mod args;

use std::cell::Cell;
use std::mem;
use std::sync::OnceLock;
use std::time::Instant;

use args::Args;
use dscale::{
    BandwidthConfig, CompleteStatus, Jiffies, Message, MessagePtr, Pid, Process, SimulationBuilder,
    SimulationRunner, TimerId, schedule_timer_after, send, send_many, send_other,
};

/// dscale makes its processes with `Default`, so they read the settings here.
static ARGS: OnceLock<Args> = OnceLock::new();

// dscale gives no access to the processes after a run, so what they count lies
// outside of them. Cells of the one thread the sequential scheduler runs on:
// cheaper than atomics and than dscale's own key-value store.
thread_local! {
    static DELIVERED: Cell<u64> = const { Cell::new(0) };
    static GRANTS: Cell<u64> = const { Cell::new(0) };
    static INSIDE: Cell<usize> = const { Cell::new(0) };
    static MAX_INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// One type for both messages, so a handler downcasts once. The number is the
/// clock of the request made or answered. `virtual_size` stays 0: no bandwidth.
#[derive(Debug)]
enum Wire {
    Request(u32),
    Reply(u32),
}

impl Message for Wire {}

#[derive(PartialEq)]
enum Phase {
    Idle,
    Waiting,
    Inside,
}

struct Node {
    args: &'static Args,
    id: Pid,
    phase: Phase,
    clock: u32,
    /// Clock of the current request; with `id` it is the request's stamp.
    asked: u32,
    /// REPLYs still missing for the current request.
    missing: usize,
    entries_left: usize,
    /// Newest deferred clock per process, 0 = none (clocks start at 1).
    deferred: Box<[u32]>,
}

impl Default for Node {
    fn default() -> Self {
        let args = ARGS.get().expect("settings come before processes");
        Node {
            args,
            id: dscale::pid(),
            phase: Phase::Idle,
            clock: 0,
            asked: 0,
            missing: 0,
            entries_left: args.entries,
            deferred: vec![0; args.nodes].into(),
        }
    }
}

impl Node {
    fn ask(&mut self) {
        self.clock += 1;
        self.asked = self.clock;
        self.missing = self.args.nodes.saturating_sub(self.args.k);
        self.phase = Phase::Waiting;
        // One allocation shared by all receivers.
        send_other(Wire::Request(self.asked));
        if self.missing == 0 {
            self.enter();
        }
    }

    fn enter(&mut self) {
        self.phase = Phase::Inside;
        self.entries_left -= 1;
        let inside = INSIDE.get() + 1;
        assert!(inside <= self.args.k, "{inside} processes inside, {} k", self.args.k);
        INSIDE.set(inside);
        MAX_INSIDE.set(MAX_INSIDE.get().max(inside));
        GRANTS.set(GRANTS.get() + 1);
        schedule_timer_after(self.args.hold);
    }

    fn release(&mut self) {
        self.phase = Phase::Idle;
        INSIDE.set(INSIDE.get() - 1);
        let mut due: Vec<(u32, Pid)> = Vec::new();
        for (j, clock) in self.deferred.iter_mut().enumerate() {
            if *clock != 0 {
                due.push((mem::take(clock), j));
            }
        }
        // Equal replies go out together: dscale then allocates the payload once.
        due.sort_unstable();
        for equal in due.chunk_by(|a, b| a.0 == b.0) {
            match *equal {
                [(clock, j)] => send(j, Wire::Reply(clock)),
                _ => {
                    let to: Vec<Pid> = equal.iter().map(|&(_, j)| j).collect();
                    send_many(&to, Wire::Reply(equal[0].0));
                }
            }
        }
        if self.entries_left > 0 {
            schedule_timer_after(self.args.think);
        }
    }

    fn on_request(&mut self, j: Pid, clock: u32) {
        self.clock = self.clock.max(clock);
        let defer = match self.phase {
            Phase::Inside => true,
            Phase::Waiting => (self.asked, self.id) < (clock, j),
            Phase::Idle => false,
        };
        if defer {
            // Latencies may reorder two requests of j; only the newest counts.
            self.deferred[j] = self.deferred[j].max(clock);
        } else {
            send(j, Wire::Reply(clock));
        }
    }

    fn on_reply(&mut self, clock: u32) {
        // Each other process answers a request once, so counting is enough.
        if self.phase == Phase::Waiting && clock == self.asked {
            self.missing -= 1;
            if self.missing == 0 {
                self.enter();
            }
        }
    }
}

impl Process for Node {
    fn on_start(&mut self) {
        if self.entries_left > 0 {
            self.ask();
        }
    }

    fn on_message(&mut self, from: Pid, message: MessagePtr) {
        DELIVERED.set(DELIVERED.get() + 1);
        match *message.as_type::<Wire>() {
            Wire::Request(clock) => self.on_request(from, clock),
            Wire::Reply(clock) => self.on_reply(clock),
        }
    }

    /// A process has at most one timer: `hold` while inside, else `think`.
    fn on_timer(&mut self, _: TimerId) {
        match self.phase {
            Phase::Inside => self.release(),
            _ => self.ask(),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn main() {
    let args = match args::parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(why) => {
            eprintln!("kgate-dscale-rival: {why}\n{}", args::USAGE);
            std::process::exit(2);
        }
    };
    let args = ARGS.get_or_init(|| args);

    let mut simulation = SimulationBuilder::new()
        .add_pool::<Node>("nodes", args.nodes)
        .default_latency(args.latency)
        .default_bandwidth(BandwidthConfig::Unbounded)
        .time_budget(Jiffies(usize::MAX)) // default 0 would stop at once
        .seed(args.seed)
        .seq_sched()
        .build();

    // Zero steps: dscale makes the processes and queues their start events but
    // runs none. So the time below excludes building the processes, and
    // includes all handlers from the first request on and all growth of
    // dscale's event heap (it cannot be reserved). Freeing is excluded. (Only
    // the sequential scheduler allows this; the parallel one would hang.)
    simulation.run_steps(0);
    let start = Instant::now();
    let status = simulation.run_full_budget();
    let seconds = start.elapsed().as_secs_f64();

    assert!(matches!(status, CompleteStatus::NoMoreEvents { .. }), "stopped early: {status:?}");
    println!(
        "{{\"delivered\":{},\"grants\":{},\"max_in_use\":{},\"seconds\":{seconds:.6}}}",
        DELIVERED.get(),
        GRANTS.get(),
        MAX_INSIDE.get(),
    );
}

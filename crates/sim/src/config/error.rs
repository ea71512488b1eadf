//! Why a configuration is refused.

use kgate_core::{NodeId, Span};

use super::TIME_MAX;
use crate::link_cut::LinkCut;

/// Why a run cannot start. Each message says what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// k is 0.
    #[error("k is 0: no request could ever be granted; give at least 1")]
    ZeroSlots,
    /// Fewer than two processes.
    #[error("n is {0}: at least 2 processes are needed")]
    TooFewNodes(u32),
    /// k is at least n, and each process holds at most one slot.
    #[error(
        "k = {k} with n = {nodes}: each process holds one slot, so nothing is excluded; choose k \
         below n"
    )]
    NothingExcluded {
        /// The number of slots.
        k: u32,
        /// The number of processes.
        nodes: u32,
    },
    /// The number of requesting processes is 0 or exceeds n.
    #[error("{requesters} requesters with n = {nodes}: choose at most n, at least 1")]
    Requesters {
        /// The number asked for.
        requesters: u32,
        /// The number of processes.
        nodes: u32,
    },
    /// A requester does not exist.
    #[error("{node} asks: with n = {nodes} the processes are p0 .. p{}", nodes - 1)]
    UnknownRequester {
        /// The process named.
        node: NodeId,
        /// The number of processes.
        nodes: u32,
    },
    /// The warm-up takes the whole run.
    #[error(
        "a warm-up of {warmup} in a run of {duration}: nothing would be measured; give a longer \
         --duration or a shorter --warmup"
    )]
    WarmupTooLong {
        /// The length of the warm-up.
        warmup: Span,
        /// The end of the run.
        duration: Span,
    },
    /// A crashing process does not exist.
    #[error("crash of {node}: with n = {nodes} the processes are p0 .. p{}", nodes - 1)]
    UnknownCrashNode {
        /// The process named.
        node: NodeId,
        /// The number of processes.
        nodes: u32,
    },
    /// A crash after the end of the run.
    #[error(
        "crash of {node} at {at}: the run ends at {duration}; crash it before, or give a longer \
         --duration"
    )]
    CrashAfterEnd {
        /// The process.
        node: NodeId,
        /// The time of the crash.
        at: Span,
        /// The end of the run.
        duration: Span,
    },
    /// Two crashes of one process overlap.
    #[error(
        "{node} would crash while it is down: let it restart before (P@T1..T2), or name one crash \
         only"
    )]
    OverlappingCrashes {
        /// The process.
        node: NodeId,
    },
    /// A restart before the crash.
    #[error("crash of {node} at {at}, restart at {back}: write P@T1..T2 with T1 before T2")]
    RestartBeforeCrash {
        /// The process.
        node: NodeId,
        /// The time of the crash.
        at: Span,
        /// The time of the restart.
        back: Span,
    },
    /// A transient fault of an unknown process, or after the end of the run.
    #[error("corruption of {node} at {at}: with n = {nodes} the processes are p0 .. p{}, and the \
             run ends at {duration}", nodes - 1)]
    InvalidCorruption {
        /// The process.
        node: NodeId,
        /// The time of the fault.
        at: Span,
        /// The number of processes.
        nodes: u32,
        /// The end of the run.
        duration: Span,
    },
    /// Every process crashes permanently.
    #[error("every process crashes permanently: nobody would be left; spare one")]
    NoSurvivor,
    /// The random recoveries do not fit into the run.
    #[error(
        "{asked} random recoveries, and only {fit} fit: give a shorter --down-for, a longer \
         --duration or fewer of them"
    )]
    TooManyRecoveries {
        /// The number asked for.
        asked: u32,
        /// The number that fits.
        fit: u32,
    },
    /// A restart, and the protocol does not support restarts.
    #[error(
        "processes of this protocol do not come back from a crash: crash them permanently (P@T), \
         or choose tree-token or slots"
    )]
    RestartUnsupported,
    /// Messages are to be kept for a process that restarts without state.
    #[error(
        "processes of this protocol restart without state, in a new incarnation: leave out --down \
         kept"
    )]
    KeptUnsupported,
    /// Every process goes down at some time, and a joining process learns from one that stayed up.
    #[error(
        "with --membership join some process must never crash: only processes that stay up know \
         what was granted; spare one"
    )]
    NobodyStaysUp,
    /// An option for protocols with numbered slots.
    #[error(
        "this protocol grants one slot at a time to the one client of a process, with a fixed k: \
         leave out {0}, or choose slots"
    )]
    NeedsSlots(&'static str),
    /// No client, or requests of weight 0.
    #[error("0 clients, or a weight of 0: give at least 1")]
    ZeroLoad,
    /// A request could exceed what can be granted at once.
    #[error(
        "--weight-max {weight}: a request is granted at most {most} slots at once; choose at most \
         {most}"
    )]
    WeightTooLarge {
        /// The largest weight of a request.
        weight: u32,
        /// The largest weight that can be granted.
        most: u32,
    },
    /// A resize to 0, or after the end of the run.
    #[error("a resize to {k} at {at}: give a k of at least 1, before the run's end at {duration}")]
    InvalidResize {
        /// The new k.
        k: u32,
        /// The time of the resize.
        at: Span,
        /// The end of the run.
        duration: Span,
    },
    /// Transient faults, and the protocol is not self-stabilising.
    #[error(
        "this protocol does not recover from corrupted memory: leave out --start random and \
         --corrupt, or choose stabilizing"
    )]
    TransientFaultsUnsupported,
    /// A client asks while inside, and the protocol takes one request at a time.
    #[error(
        "this protocol takes one request at a time: leave out --ask-inside, or choose tree-token"
    )]
    AskInsideUnsupported,
    /// Unbounded delays, and the protocol suspects slow processes.
    #[error(
        "this protocol declares a process that answers late dead: leave out --pause and \
         --partition, or choose another protocol"
    )]
    DelayUnsupported,
    /// Unbounded delays with a detector that relies on timeouts.
    #[error(
        "the failure detector would suspect a process that is paused or partitioned: give \
         --detector oracle=T, or leave out \
         --pause and --partition"
    )]
    DetectorWouldSuspect,
    /// Message loss, and the protocol needs reliable channels.
    #[error(
        "this protocol needs channels that lose nothing: leave out --loss, or choose stabilizing"
    )]
    LossUnsupported,
    /// Duplicated messages, and the protocol needs exactly-once channels.
    #[error(
        "this protocol needs channels that deliver each message once: leave out --duplicates, or \
         choose another protocol"
    )]
    DuplicatesUnsupported,
    /// A pause or partition of an unknown process, or of an invalid time.
    #[error(
        "{node} is paused or partitioned from {from} to {until}: write T1..T2 with T1 before T2 \
         and before the run's end at \
         {duration}, of processes p0 .. p{}", nodes - 1
    )]
    InvalidDisturbance {
        /// The process.
        node: NodeId,
        /// The begin.
        from: Span,
        /// The end.
        until: Span,
        /// The number of processes.
        nodes: u32,
        /// The end of the run.
        duration: Span,
    },
    /// Two pauses of one process overlap.
    #[error("{node} would pause while it is stopped: name one pause only, or end the first before")]
    OverlappingPauses {
        /// The process.
        node: NodeId,
    },
    /// Cut links, and the protocol does not relay.
    #[error(
        "this protocol waits for ever for a process that it does not reach: leave out --cut, or \
         choose home with --ask-again"
    )]
    CutUnsupported,
    /// A cut link of an unknown process, from a process to itself, or after the end.
    #[error(
        "the link {cut} cannot be cut: write P-Q@T with two processes of p0 .. p{} and T before \
         the run's end at {duration}", nodes - 1
    )]
    InvalidCut {
        /// The cut link.
        cut: LinkCut,
        /// The number of processes.
        nodes: u32,
        /// The end of the run.
        duration: Span,
    },
    /// Cut links without a process that could relay.
    #[error(
        "the cut links leave no process that {one} and {other} both reach in both directions: \
         cut fewer links, or take more processes"
    )]
    CutApart {
        /// A process.
        one: NodeId,
        /// Another process.
        other: NodeId,
    },
    /// A partition with an empty side.
    #[error(
        "a partition of none or of all {nodes} processes cuts nothing: leave some on either side"
    )]
    EmptyPartitionSide {
        /// The number of processes.
        nodes: u32,
    },
    /// As many tolerated crashes as slots.
    #[error(
        "--tolerate {tolerate} with k = {k}: that many crashed processes could hold every slot \
         forever; choose at most {}",
        k.saturating_sub(1)
    )]
    TolerateTooLarge {
        /// The number of tolerated crashes, f.
        tolerate: u32,
        /// The number of slots.
        k: u32,
    },
    /// The latency grid has another number of processes.
    #[error("a grid of {clusters} x {size} processes with n = {nodes}: give -n {}",
             u64::from(*clusters) * u64::from(*size))]
    GridSize {
        /// The number of clusters.
        clusters: u32,
        /// The number of processes in each.
        size: u32,
        /// The number of processes.
        nodes: u32,
    },
    /// The graph has another number of processes.
    #[error("a graph of {graph} processes with n = {nodes}: give -n {graph}")]
    GraphSize {
        /// The number of processes in the graph.
        graph: u32,
        /// The number of processes.
        nodes: u32,
    },
    /// More random crashes than processes that may crash.
    #[error(
        "{asked} random crashes: at most {most} processes can crash here (one must live, and \
         unless all ask, \
         requesters do not crash)"
    )]
    TooManyCrashes {
        /// The number asked for.
        asked: u32,
        /// The number of processes that may crash.
        most: u32,
    },
    /// The detector's timeout is shorter than a round trip.
    #[error(
        "a detection timeout of {timeout} is below twice the longest delay ({longest}): the \
         detector would suspect live \
         processes; give at least {}, or --detector oracle=T", longest.times(2)
    )]
    TimeoutTooShort {
        /// The timeout asked for.
        timeout: Span,
        /// The longest delay of a message.
        longest: Span,
    },
    /// The latency has no bound, so no timeout is long enough.
    #[error(
        "an unbounded latency: with any timeout the detector would suspect live processes; choose \
         a bounded latency, or \
         --detector oracle=T"
    )]
    UnboundedLatency,
    /// The detector would probe without pause.
    #[error("a detection interval of 0: give a positive one")]
    ZeroInterval,
    /// An oracle, and the protocol uses no failure detector.
    #[error("this protocol has no failure detector to replace: leave out --detector")]
    NoDetector,
    /// Decisions of an agreed log, and the protocol follows none.
    #[error(
        "{0}: only a protocol that follows the agreed log has that; leave it out, or choose home"
    )]
    NeedsLog(&'static str),
    /// Several gates, and what identifies permits by one gate's fences or clients by their order.
    #[error("--gates excludes --clients, --adopt and --durable: give one gate, or leave them out")]
    OneGateOnly,
    /// A process would be evicted before it is suspected.
    #[error(
        "suspected after {suspect} and evicted after {evict}: the log suspects a process first; \
         give a shorter --suspect-after or a longer --evict-after"
    )]
    EvictedBeforeSuspected {
        /// When it is suspected.
        suspect: Span,
        /// When it is evicted.
        evict: Span,
    },
    /// A process would be evicted while clients believe by it (`home`, H18).
    #[error(
        "sessions of {session} and an eviction after {evict}: clients would believe by an evicted \
         process; give a shorter --session or a longer --evict-after"
    )]
    EvictedWhileBelieved {
        /// How long a client believes.
        session: Span,
        /// When its process is evicted.
        evict: Span,
    },
    /// Two evictions of one process overlap.
    #[error("{node} would be evicted while it is no member: let --evict add it again before")]
    OverlappingEvictions {
        /// The process.
        node: NodeId,
    },
    /// A client's loop takes no time.
    #[error(
        "hold and think are both 0: time would stand still for a process that needs no \
         permission; give one of them a length"
    )]
    ZeroLoop,
    /// A time beyond what sums of integer times can hold.
    #[error("a time of {0}: give at most {most} time units", most = TIME_MAX)]
    TooLong(Span),
    /// More memory than is free.
    #[error(
        "n = {nodes} with {requesters} requesters needs about {} MiB, and {} MiB are free: choose \
         a smaller n or fewer \
         requesters", needed >> 20, free >> 20
    )]
    NotEnoughMemory {
        /// The number of processes.
        nodes: u32,
        /// The number of requesting processes.
        requesters: u32,
        /// The estimated bytes.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
}

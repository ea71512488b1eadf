//! Refuses runs that do not fit into the memory of this machine.

use kgate_core::{Protocol, TransientFaults};

use crate::config::{Config, ConfigError, Detector};
use crate::latency::Latency;

/// The free bytes of memory, where the system reports them: the smaller of the machine's and of the
/// container's limit.
fn free_bytes() -> Option<u64> {
    let machine = line_of("/proc/meminfo", "MemAvailable:");
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    [machine, limit.map(|limit| limit.saturating_sub(used))].into_iter().flatten().min()
}

/// The peak memory of this process in bytes, where the system reports it.
pub(crate) fn peak_bytes() -> Option<u64> {
    line_of("/proc/self/status", "VmHWM:")
}

/// The value of a line `name   123 kB` in a file of the proc file system, in bytes.
fn line_of(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// A rough upper bound of the bytes of a run: the processes; per requester its permissions (n
/// bits), a REQUEST and a deferred REPLY in flight to and from every process, and the order of its
/// channels where that is kept; and what the detector keeps and sends.
fn estimate<M: TransientFaults, D: Protocol>(config: &Config) -> u128 {
    let (nodes, requesters) = (u128::from(config.nodes), u128::from(config.load.requesters));
    let constant = matches!(config.cost.latency, Latency::Constant(_));
    let process = (size_of::<M>() + size_of::<D>() + 64) as u128;
    let message = (size_of::<M::Message>() + 16 + 32) as u128;
    let order = if config.cost.fifo { 2 * 48 } else { 0 };
    let asking = match &config.graph {
        // Neighbours exchange messages about at most one token each.
        Some(graph) => 2 * graph.edges() as u128 * u128::from(config.k) * (message + order),
        None => requesters * nodes * (message + order) + requesters * nodes / 8,
    };
    let detector = match config.own_detector() {
        None => 0,
        Some(Detector::Sparse | Detector::Log) => nodes * 128,
        // With a constant latency, a heartbeat to all is one record.
        Some(Detector::AllToAll) if constant => nodes * nodes / 4,
        Some(Detector::AllToAll) => {
            nodes * nodes / 4 + nodes * nodes * (size_of::<D::Message>() + 32) as u128
        }
    };
    nodes * process + asking + detector
}

/// Refuses a run whose estimate exceeds the free memory.
pub(crate) fn check<M: TransientFaults, D: Protocol>(config: &Config) -> Result<(), ConfigError> {
    let needed = estimate::<M, D>(config);
    match free_bytes() {
        Some(free) if needed > u128::from(free) => {
            let requesters = config.load.requesters;
            let needed = u64::try_from(needed).unwrap_or(u64::MAX);
            Err(ConfigError::NotEnoughMemory { nodes: config.nodes, requesters, needed, free })
        }
        _ => Ok(()),
    }
}

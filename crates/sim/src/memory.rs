//! Whether a run fits into this machine.

use kgate_core::Protocol;

use crate::config::{Config, ConfigError};

/// What is left of the memory, if the system tells.
pub fn free_bytes() -> Option<u64> {
    line_of("/proc/meminfo", "MemAvailable:")
}

/// The most memory that this process has had, if the system tells.
pub fn peak_bytes() -> Option<u64> {
    line_of("/proc/self/status", "VmHWM:")
}

/// A line `name   123 kB` of a file of the proc file system.
fn line_of(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// A rough upper bound of what a run needs: the processes, the permissions of each requester (n bits), and a REQUEST and a
/// deferred REPLY on their way from each requester to everybody.
pub fn estimate<M: Protocol, D: Protocol>(config: &Config) -> u64 {
    let (nodes, requesters) = (u64::from(config.nodes), u64::from(config.load.requesters));
    let process = (size_of::<M>() + size_of::<D>() + 64) as u64;
    let table = requesters.saturating_mul(nodes) / 8;
    let message = (size_of::<M::Message>() + 16 + 32) as u64;
    let in_flight = requesters.saturating_mul(nodes).saturating_mul(message);
    let heard = if size_of::<D>() > 0 { nodes.saturating_mul(64) } else { 0 };
    nodes.saturating_mul(process).saturating_add(table).saturating_add(in_flight).saturating_add(heard)
}

/// Refuses a run that would not fit.
pub(crate) fn check<M: Protocol, D: Protocol>(config: &Config) -> Result<(), ConfigError> {
    let needed = estimate::<M, D>(config);
    match free_bytes() {
        Some(free) if needed > free => {
            let requesters = config.load.requesters;
            Err(ConfigError::Memory { nodes: config.nodes, requesters, needed, free })
        }
        _ => Ok(()),
    }
}

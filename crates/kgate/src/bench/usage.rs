//! Resource usage of processes: CPU time and memory from `/proc`, messages from the nodes' metrics.

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The CPU time of a process so far, in seconds.
pub(super) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = ticks(&text).with_context(|| format!("{path} has not the format of proc(5)"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    #[allow(clippy::cast_precision_loss)] // Far below 2^53.
    Ok(ticks as f64 / per_second as f64)
}

/// Fields 14 and 15; the name before them, in parentheses, may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

/// The peak memory of a process, in bytes.
pub(super) fn peak_memory(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kibibytes.with_context(|| format!("{path} has not the format of proc(5)"))? * 1024)
}

/// The number of messages that a node has sent to other nodes for its gates.
pub(super) async fn messages(api: &str) -> anyhow::Result<u64> {
    let address = api.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("reading the metrics of {api}"))?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(sum(&answer, "kgate_messages_total{"))
}

fn sum(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter(|line| line.starts_with(name));
    values.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a program may hold anything, even `) 1 2`.
    #[test]
    fn fields_after_any_name() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 70 5 0 0 20";
        assert_eq!(ticks(&format!("7 (kgate) {rest}")), Some(75));
        assert_eq!(ticks(&format!("7 (a) b 1) {rest}")), Some(75));
        assert_eq!(ticks("7 (kgate) S 1"), None);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
        assert!(peak_memory(std::process::id()).unwrap() > 100_000);
    }

    /// The messages of all kinds are added.
    #[test]
    fn messages_of_all_kinds() {
        let text = "# TYPE kgate_messages_total \
         counter\nkgate_messages_total{gate=\"g\",kind=\"a\"} 3\nkgate_held{gate=\"g\"} 9\n\
                    kgate_messages_total{gate=\"g\",kind=\"b\"} 4\n";
        assert_eq!(sum(text, "kgate_messages_total{"), 7);
    }
}

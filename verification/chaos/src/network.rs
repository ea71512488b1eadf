//! The network of a run: a namespace for each node, and one with the switch between them.
//!
//! ```text
//! namespace kgate-chaos-PID-0: link "line" 10.77.0.1 --.
//! namespace kgate-chaos-PID-1: link "line" 10.77.0.2 --+-- bridge "switch", ports n0, n1, ..,
//!                                                          in kgate-chaos-PID-net
//! ```
//!
//! Cuts and packet loss are one table of the packet filter in the namespace of the switch. It is
//! replaced as a whole, so that a partition begins for all nodes at the same instant. Nothing
//! outside of these namespaces is changed; deleting them removes everything. Clients run in the
//! namespace of their node and reach it during every cut.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy;
use crate::schedule::Way;

/// The port on which nodes accept links.
pub(crate) const PORT: u16 = 7_401;

/// Prefix of all namespaces; the id of the creating process follows.
const PREFIX: &str = "kgate-chaos-";

/// The required programs and their packages.
const TOOLS: [(&str, &str); 3] = [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")];

/// The namespaces of a run. Dropping it deletes them and kills the processes in them.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    nodes: u32,
}

impl Network {
    /// Creates the namespaces, and removes those that an earlier run left behind.
    pub(crate) fn new(nodes: u32) -> Result<Self> {
        usable()?;
        sweep()?;
        let network = Self { name: format!("{PREFIX}{}-", std::process::id()), nodes };
        let switch = network.switch();
        run("ip", &["netns", "add", &switch])?;
        run("ip", &["-n", &switch, "link", "add", "name", "switch", "type", "bridge"])?;
        run("ip", &["-n", &switch, "link", "set", "switch", "up"])?;
        for node in 0..nodes {
            let (space, port) = (network.space(node), port(node));
            run("ip", &["netns", "add", &space])?;
            run("ip", &["-n", &space, "link", "set", "lo", "up"])?;
            let peer = ["type", "veth", "peer", "name", &port, "netns", &switch];
            run("ip", &[&["link", "add", "name", "line", "netns", &space], &peer[..]].concat())?;
            let address = format!("{}/24", address(node));
            run("ip", &["-n", &space, "addr", "add", &address, "dev", "line"])?;
            run("ip", &["-n", &space, "link", "set", "line", "up"])?;
            run("ip", &["-n", &switch, "link", "set", &port, "master", "switch", "up"])?;
        }
        Ok(network)
    }

    fn switch(&self) -> String {
        format!("{}net", self.name)
    }

    fn space(&self, node: u32) -> String {
        format!("{}{node}", self.name)
    }

    /// A program that runs in the namespace of a node.
    pub(crate) fn command(&self, node: u32, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.space(node)]).arg(program).stdin(Stdio::null());
        command
    }

    /// Cuts these directions and drops packets of these nodes; replaces all earlier cuts.
    pub(crate) fn shape(&self, cut: &[Way], lossy: &[(u32, u32)]) -> Result<()> {
        filter(&self.switch(), &table(cut, lossy))
    }

    /// Diverts links through the proxy of the node that dials.
    pub(crate) fn divert(&self) -> Result<()> {
        (0..self.nodes).try_for_each(|node| filter(&self.space(node), &detour(node, self.nodes)))
    }

    /// Limits a node's bandwidth in both directions; `None` removes the limit.
    pub(crate) fn narrow(&self, node: u32, kbit: Option<u32>) -> Result<()> {
        for (space, device) in [(self.space(node), "line".to_owned()), (self.switch(), port(node))]
        {
            let on = ["-n", &space, "qdisc"];
            let Some(kbit) = kbit else {
                run("tc", &[&on[..], &["del", "dev", &device, "root"]].concat())?;
                continue;
            };
            let rate = format!("{kbit}kbit");
            // A bucket smaller than a packet would let nothing through; packets that wait longer
            // than the latency are dropped.
            let bucket = ["root", "tbf", "rate", &rate, "burst", "3000", "latency", "400ms"];
            run("tc", &[&on[..], &["replace", "dev", &device], &bucket[..]].concat())?;
        }
        Ok(())
    }

    /// The processes in the namespace of a node, each with its command line.
    pub(crate) fn processes(&self, node: u32) -> Result<Vec<(u32, Vec<String>)>> {
        let words = |pid: u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect()
        };
        Ok(pids(&self.space(node))?.into_iter().map(|pid| (pid, words(pid))).collect())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let spaces = (0..self.nodes).map(|node| self.space(node)).chain([self.switch()]);
        for space in spaces {
            if let Err(error) = delete(&space) {
                eprintln!(
                    "kgate-chaos: {space} is left behind: {error:#}; the next run removes it"
                );
            }
        }
    }
}

/// The name of a process; empty if it is gone.
pub(crate) fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// The address of a node's links.
pub(crate) fn address(node: u32) -> String {
    format!("10.77.0.{}", node + 1)
}

fn port(node: u32) -> String {
    format!("n{node}")
}

/// Loads a table into the packet filter of a namespace.
fn filter(space: &str, table: &str) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space, "nft", "-f", "-"]);
    let mut filter = command.stdin(Stdio::piped()).spawn().context("cannot start nft")?;
    let mut input = filter.stdin.take().context("nft has no input")?;
    std::io::Write::write_all(&mut input, table.as_bytes()).context("cannot write to nft")?;
    drop(input);
    let ended = filter.wait().context("cannot wait for nft")?;
    ensure!(ended.success(), "nft refused the table for {space}: {ended}");
    Ok(())
}

/// The rules that lead through the proxies: from a node to its own proxy, and from another node's
/// proxy to the node.
fn detour(node: u32, nodes: u32) -> String {
    let out: String = (0..nodes)
        .filter(|peer| *peer != node)
        .map(|peer| {
            format!(
                "ip daddr {} tcp dport {PORT} redirect to :{}\n",
                address(peer),
                proxy::port_for(peer)
            )
        })
        .collect();
    format!(
        "table ip kgate {{\nchain out {{\ntype nat hook output priority -100;\n{out}}}\n\
         chain in {{\ntype nat hook prerouting priority -100;\n\
         tcp dport {} redirect to :{PORT}\n}}\n}}\n",
        proxy::BEHIND
    )
}

/// The table of the packet filter. A direction is a pair of ports of the switch: where a packet
/// enters and where it would leave.
fn table(cut: &[Way], lossy: &[(u32, u32)]) -> String {
    let mut rules = String::new();
    for (from, to) in cut {
        rules += &format!("iifname \"n{from}\" oifname \"n{to}\" drop\n");
    }
    for (node, of_thousand) in lossy {
        for side in ["iifname", "oifname"] {
            rules += &format!("{side} \"n{node}\" numgen random mod 1000 < {of_thousand} drop\n");
        }
    }
    // `delete` fails without the table, so it is created first; deleting removes all old rules.
    format!(
        "table bridge kgate\ndelete table bridge kgate\ntable bridge kgate {{\nchain forward {{\n\
         type filter hook forward priority 0; policy accept;\n{rules}}}\n}}\n"
    )
}

/// Removes the namespaces of runs whose process is gone: after kill -9 a run cannot clean up.
fn sweep() -> Result<()> {
    let Ok(spaces) = fs::read_dir("/run/netns") else { return Ok(()) };
    for space in spaces {
        let name = space?.file_name().to_string_lossy().into_owned();
        let Some(maker) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
            continue;
        };
        if !Path::new("/proc").join(maker).exists() {
            println!("removing {name}, left by an earlier run");
            delete(&name)?;
        }
    }
    Ok(())
}

fn delete(space: &str) -> Result<()> {
    // A process may have started another one since the list was read.
    for _ in 0..50 {
        let running = pids(space)?;
        if running.is_empty() {
            break;
        }
        for pid in running {
            signal(pid, Signal::KILL);
        }
        super::clock::pause(std::time::Duration::from_millis(10));
    }
    run("ip", &["netns", "del", space])
}

fn pids(space: &str) -> Result<Vec<u32>> {
    let output =
        Command::new("ip").args(["netns", "pids", space]).output().context("cannot start ip")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Sends a signal. The process may have ended; that is not an error.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Checks the requirements. Missing programs are installed where apt-get exists.
fn usable() -> Result<()> {
    ensure!(
        cfg!(target_os = "linux"),
        "chaos needs Linux: each node gets a network namespace of its own"
    );
    ensure!(
        rustix::process::geteuid().is_root(),
        "chaos needs root: each node gets a network namespace of its own"
    );
    let there = |tool: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
    };
    for (tool, package) in TOOLS.into_iter().filter(|(tool, _)| !there(tool)) {
        println!("`{tool}` is missing, of the package {package}");
        if !there("apt-get") {
            bail!("install the package {package}, which has `{tool}`, and start again");
        }
        run("apt-get", &["install", "-y", "--no-install-recommends", package])?;
    }
    Ok(())
}

fn run(program: &str, words: &[&str]) -> Result<()> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", words.join(" "), why.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table replaces the previous one, and has one rule per cut and one per direction of a
    /// loss.
    #[test]
    fn the_table_lists_the_cut_links() {
        let text = table(&[(0, 2)], &[(1, 50)]);
        assert!(text.starts_with("table bridge kgate\ndelete table bridge kgate\n"), "{text}");
        assert!(text.contains("iifname \"n0\" oifname \"n2\" drop\n"), "{text}");
        assert!(!text.contains("iifname \"n2\""), "{text}");
        assert!(text.contains("oifname \"n1\" numgen random mod 1000 < 50 drop"), "{text}");
        assert!(!table(&[], &[]).contains("drop"));
    }

    /// Each peer has its own port at the proxy, and no node is diverted to itself.
    #[test]
    fn the_detour_leads_to_each_peer() {
        let text = detour(1, 3);
        assert!(text.contains("ip daddr 10.77.0.1 tcp dport 7401 redirect to :7500\n"), "{text}");
        assert!(text.contains("ip daddr 10.77.0.3 tcp dport 7401 redirect to :7502\n"), "{text}");
        assert!(!text.contains("10.77.0.2 "), "{text}");
        assert!(text.contains("tcp dport 7411 redirect to :7401\n"), "{text}");
    }
}

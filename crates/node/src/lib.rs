//! The node of kgate: a daemon as a library.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use kgate_node::{Config, Node};
//!
//! let node = Node::start(Config::read("node.toml".as_ref())?).await?;
//! println!("clients connect to {:?}", node.api());
//! node.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`core`]: a node without I/O; `driver.rs`: any protocol behind one interface;
//! - `shell.rs`: sockets, clock and disk around the core; `store.rs`: the state that survives a
//!   restart; `slot_files.rs`, `lending.rs`: slots bound to processes; `holder_tree.rs`: the
//!   processes of a holder, ended at its deadline; `process_tree.rs`: the descendants of a process;
//!   `control_group.rs`: a control group for them; `idle_stop.rs`: the stop of a node that nobody
//!   uses; `k_expression.rs`: k from the machine;
//! - `agreement.rs`: the agreed log beside the shell; `begin.rs`: the start of a node with leases;
//!   `wall_clock.rs`: detection of clock jumps;
//! - `serve/`: the API over gRPC and HTTP; `metrics.rs`: the metrics;
//! - [`Config`]: the configuration.
#![forbid(unsafe_code)]

mod agreement;
mod begin;
mod config;
pub mod control_group;
pub mod core;
mod driver;
mod folders;
mod holder_tree;
mod idle_stop;
pub mod k_expression;
mod lending;
mod metrics;
pub mod process_tree;
pub mod serve;
mod shell;
mod slot_files;
mod store;
mod token;
mod user_database;
mod wall_clock;

pub use config::{
    BadConfig, Config, Faults, GateConfig, JoinFrom, KConfig, OneOrMore, Preset, SocketMode,
    TimingConfig, Tls, VotersConfig,
};
pub use shell::Stopped;
pub use slot_files::{LockedSlot, is_any_slot_locked, locked_slots};
pub use store::StoreError;
pub use token::{BadToken, JoinToken};
pub use user_database::{NoGroup, known_group};

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use kgate_api::LeaseInstant;
use kgate_control::state::ClusterId;
use kgate_core::{Incarnation, NodeId};
use kgate_net::{LinkConfig, LinkLimits, Links, WhenFull};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::core::{Action, CannotStart, Core, GateSetting, Input, RestoredGate};
use idle_stop::IdleStop;
use lending::Lending;
use serve::{AccessControl, CoreHandle, Listener};
use shell::{End, Shell};
use slot_files::{FoundGate, Prober, SlotFiles};
use store::{Mark, Store};
use wall_clock::WallClock;

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// Its configuration.
    #[error(transparent)]
    Config(#[from] BadConfig),
    /// Its store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its log.
    #[error(transparent)]
    Log(#[from] kgate_control::log::LogError),
    /// Its gates.
    #[error(transparent)]
    Core(#[from] CannotStart),
    /// Its links.
    #[error(transparent)]
    Links(#[from] kgate_net::StartError),
    /// The files of its slots.
    #[error(transparent)]
    SlotFiles(#[from] slot_files::NoSlotFiles),
    /// A socket that it was started with.
    #[error(
        "the service manager passed a socket whose path is not in api: ListenStream and api must \
         be the same"
    )]
    SocketNotInApi,
    /// A thread.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// An address.
    #[error("cannot listen at {0}: {1}")]
    Listen(String, std::io::Error),
}

/// Capacity of the core's input queues. A sender waits while its queue is full.
const QUEUE: usize = 4096;

/// A running node. Dropping it stops it at once, as by a crash; [`Node::stop`] stops it cleanly.
#[derive(Debug)]
pub struct Node {
    api: Vec<String>,
    peer: Option<SocketAddr>,
    end: watch::Sender<End>,
    shell: JoinHandle<Result<(), Stopped>>,
}

impl Node {
    /// Starts a node.
    pub async fn start(config: Config) -> Result<Self, NotStarted> {
        let address = config.own_address().cloned();
        let talks =
            config.nodes.len() > 1 || config.join.is_some() || config.faults()? == Faults::Lease;
        let listener = match address.filter(|_| talks) {
            Some(address) => {
                let bound = TcpListener::bind(&address).await;
                Some(bound.map_err(|error| NotStarted::Listen(address, error))?)
            }
            None => None,
        };
        Self::start_on(config, listener).await
    }

    /// Starts a node on an existing Unix socket for its clients, one of those in `api`.
    pub async fn start_on_socket(config: Config, socket: UnixListener) -> Result<Self, NotStarted> {
        Self::start_with(config, None, Some(socket)).await
    }

    /// Starts a node on an existing listener for its peers.
    pub async fn start_on(
        config: Config,
        listener: Option<TcpListener>,
    ) -> Result<Self, NotStarted> {
        Self::start_with(config, listener, None).await
    }

    async fn start_with(
        config: Config,
        listener: Option<TcpListener>,
        mut socket: Option<UnixListener>,
    ) -> Result<Self, NotStarted> {
        let peer = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        // Fallible steps come first: a start that fails must leave the state of a clean stop to the
        // next start.
        let Checked { config, token, access, mut link_config } = check(config, peer)?;
        let leases = config.faults()? == Faults::Lease;
        let mut slot_files = config.slot_files.clone().map(SlotFiles::open).transpose()?;
        let (mut listeners, mut api, mut locks) = (Vec::new(), Vec::new(), Vec::new());
        for address in config.api.all() {
            let listen = |error| NotStarted::Listen(address.clone(), error);
            let opened = Listener::open(&address, &config, &access, &mut socket).await;
            let mut listener = opened.map_err(listen)?;
            locks.extend(listener.take_lock());
            api.push(listener.address().map_err(listen)?);
            listeners.push(listener);
        }
        if socket.is_some() {
            return Err(NotStarted::SocketNotInApi);
        }
        let mark = if leases { Mark::GoesOn } else { Mark::IsErased };
        // Fences of a machine must not go back when its state is lost, or when a node with another
        // state takes over. The clock makes that unlikely; the store makes it certain for one node.
        let by_clock = slot_files.is_some().then(store::incarnation_by_clock);
        let least = by_clock.unwrap_or(Incarnation(0));
        let (store, incarnation, stored) = Store::open(config.data.as_deref(), mark, least)?;
        let (agreement, settings) = match config.data.as_deref().filter(|_| leases) {
            Some(folder) => {
                let (agreement, settings) = begin::begin(&config, folder, &store, incarnation)?;
                (Some(agreement), settings)
            }
            None => (None, config.settings(incarnation, random_seed())?),
        };
        if !leases && config.data.is_some() && incarnation > Incarnation(1) {
            outlive_former_clients(settings.terms).await;
        }
        let (link_events, received_events) = mpsc::channel(QUEUE);
        link_config.incarnation = settings.incarnation;
        let links = match listener {
            Some(listener) => Some(Links::start(link_config, listener, link_events).await?),
            None => None,
        };
        let nodes = settings.nodes;
        let mut actions = Vec::new();
        let mut core = Core::start(shell::now(), settings, &stored, &mut actions)?;
        // An address in the configuration is newer than the log's state at this start.
        let is_configured = |node: NodeId| node.index() < config.nodes.len();
        actions
            .retain(|action| !matches!(action, Action::Connect(node, _) if is_configured(*node)));
        for gate in restored_gates(slot_files.as_mut(), &store)? {
            core.handle(shell::now(), Input::RestoreGate(gate), &mut actions);
        }
        let (commands, received) = mpsc::channel(QUEUE);
        let (changes, changed) = watch::channel(0);
        let (end, ending) = watch::channel(End::NotYet);
        let timing = match config.faults()? {
            Faults::Lease => Some(config.timing()?),
            Faults::CrashStop => None,
        };
        let handle =
            CoreHandle::new(commands.clone(), changed, config.id, nodes, access.clone(), timing);
        let mut serving = JoinSet::new();
        for listener in listeners {
            serving.spawn(listener.serve(handle.clone(), ending.clone()));
        }
        drop(handle);
        let prober = slot_files.as_ref().map(|_| Prober::start(commands.downgrade()));
        let prober = prober.transpose().map_err(NotStarted::Thread)?;
        let mut shell = Shell {
            core,
            links,
            agreement,
            wall: WallClock::new(),
            store,
            link_events: received_events,
            commands: received,
            streams: BTreeMap::new(),
            status_queries: BTreeMap::new(),
            calls: BTreeMap::new(),
            last_query: 0,
            watchers: 0,
            trees: BTreeMap::new(),
            lending: slot_files.zip(prober).map(|(files, prober)| Lending::new(files, prober)),
            back: commands.downgrade(),
            changes,
            idle: config.idle_stop().map(|span| IdleStop::new(span, config.slot_files.as_deref())),
            serving,
            expected: token.map(|token| ClusterId(token.cluster_id)),
            _locks: locks,
        };
        // A node that joins waits for the log of the members.
        if let Some(agreement) = shell.agreement.as_mut().filter(|_| config.join.is_none()) {
            agreement.found(begin::founding(&config)?);
        }
        let shell = tokio::spawn(shell.run(actions, ending));
        Ok(Self { api, peer, end, shell })
    }

    /// Checks a configuration as far as that is possible without listening or opening the store:
    /// its fields, the gates, the rights, and the certificates of the links.
    pub fn check(config: Config) -> Result<(), NotStarted> {
        let address = config.own_address().and_then(|address| address.parse().ok());
        let links = config.nodes.len() > 1 || config.join.is_some();
        check(config, address.filter(|_| links)).map(drop)
    }

    /// The addresses for clients.
    pub fn api(&self) -> &[String] {
        &self.api
    }

    /// The address for peers.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Waits until the node stops without being asked to, and returns why.
    pub async fn stopped(&mut self) -> Result<(), Stopped> {
        let ended = (&mut self.shell).await;
        self.end.send_replace(End::Clean);
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// Stops the node cleanly. With leases the next start resumes this incarnation, and its clients
    /// keep their permits if it is soon enough. With crash-stop its clients lose their permits, and
    /// its peers are told.
    pub async fn stop(mut self) -> Result<(), Stopped> {
        self.end.send_replace(End::Clean);
        self.stopped().await
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end.send_replace(End::AtOnce);
        self.shell.abort();
    }
}

/// A configuration that can be used, and what follows from it.
struct Checked {
    config: Config,
    token: Option<JoinToken>,
    access: Arc<AccessControl>,
    link_config: LinkConfig,
}

/// Checks a configuration, and the certificates of the links that listen at `peer`.
fn check(config: Config, peer: Option<SocketAddr>) -> Result<Checked, NotStarted> {
    let (config, token) = config.with_token()?;
    config.settings(Incarnation(0), 0)?;
    if let Some(group) = &config.socket_group {
        let missing = |missing| BadConfig::Invalid(format!("socket_group: {missing}"));
        user_database::known_group(group).map_err(missing)?;
    }
    let access = Arc::new(AccessControl::new(&config)?);
    let link_config = link_config(&config, token.as_ref(), config.faults()? == Faults::Lease);
    if let Some(address) = peer {
        Links::check(&link_config, address)?;
    }
    Ok(Checked { config, token, access, link_config })
}

/// The gates of earlier incarnations: those with slots in use, and those that an operator set.
fn restored_gates(
    files: Option<&mut SlotFiles>,
    store: &Store,
) -> Result<Vec<RestoredGate>, StoreError> {
    let found = files.map(SlotFiles::gates).unwrap_or_default();
    let unset = |FoundGate { name, slots, in_use, holders }| RestoredGate {
        name,
        slots,
        in_use,
        holders,
        set_by: None,
    };
    let mut gates: Vec<RestoredGate> = found.into_iter().map(unset).collect();
    for GateSetting { name, slots, author } in store.gate_settings()? {
        match gates.iter_mut().find(|gate| gate.name == name) {
            Some(gate) => (gate.slots, gate.set_by) = (slots, Some(author)),
            None => {
                let (in_use, holders, set_by) = (Vec::new(), BTreeMap::new(), Some(author));
                gates.push(RestoredGate { name, slots, in_use, holders, set_by });
            }
        }
    }
    Ok(gates)
}

/// The configuration of the links; the incarnation is not known yet.
fn link_config(config: &Config, token: Option<&JoinToken>, leases: bool) -> LinkConfig {
    let listed = config.nodes.iter().zip(0..).map(|(address, id)| (NodeId(id), address.clone()));
    let told = token.into_iter().flat_map(|token| &token.members);
    let peers = listed.chain(told.map(|(id, address)| (NodeId(*id), address.clone())));
    LinkConfig {
        cluster: config.cluster.clone(),
        me: config.me(),
        incarnation: Incarnation(0),
        peers: peers.filter(|(id, _)| *id != config.me()).collect(),
        security: config.security(),
        limits: LinkLimits { seed: random_seed(), ..LinkLimits::default() },
        accepts_restarts: config.accepts_restarts(),
        when_full: if leases { WhenFull::Drop } else { WhenFull::Break },
    }
}

/// With crash-stop, clients of an earlier incarnation may continue until their validity ends.
/// Waits until they have certainly stopped.
async fn outlive_former_clients(terms: core::SessionTerms) {
    let over = LeaseInstant::now() + Duration::from_nanos(terms.over_after().0);
    let left = || Some(over.after(LeaseInstant::now())).filter(|left| !left.is_zero());
    if let Some(left) = left() {
        tracing::info!(
            ?left,
            "an earlier incarnation of this node may have clients: waiting until their time is over"
        );
    }
    while let Some(left) = left() {
        tokio::time::sleep(left).await;
    }
}

fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// An empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("kgate-node-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Starts a single node with leases in that folder.
    async fn start(folder: &Path, api: &str, more: &str) -> Result<Node, NotStarted> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let path = folder.join("node.toml");
        let text =
            format!("id = 0\nnodes = [{address:?}]\napi = {api:?}\ndata = {folder:?}\n{more}");
        std::fs::write(&path, text).unwrap();
        Node::start_on(Config::read(&path).unwrap(), Some(listener)).await
    }

    /// Ends the node, once it can grant.
    async fn end(mut node: Node, end: End) {
        let client = kgate_client::Client::connect(&node.api()[0]).await.unwrap();
        let takes_part = async {
            while client.gate("gpu").acquire().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), takes_part).await.expect("in time");
        node.end.send_replace(end);
        (&mut node.shell).await.unwrap().unwrap();
    }

    /// Whether the next start would resume this incarnation.
    fn goes_on(folder: &Path) -> bool {
        let (store, ..) = Store::open(Some(folder), Mark::GoesOn, Incarnation(0)).unwrap();
        store.take_suspended().unwrap().is_some()
    }

    /// R1, R2: only after a clean stop does the next start resume the incarnation; after a drop it
    /// does not, even if the shell sees the drop before it is cut off.
    #[tokio::test]
    async fn only_a_clean_stop_goes_on() {
        for (how, expected) in [(End::Clean, true), (End::AtOnce, false)] {
            let folder = folder("ends");
            end(start(&folder, "127.0.0.1:0", "").await.unwrap(), how).await;
            assert_eq!(goes_on(&folder), expected, "{how:?}");
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }

    /// R1: a start that fails (a port in use, no certificate) leaves the stored state to the next
    /// start.
    #[tokio::test]
    async fn a_start_that_fails_takes_nothing() {
        let folder = folder("fails");
        end(start(&folder, "127.0.0.1:0", "").await.unwrap(), End::Clean).await;
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let in_use = taken.local_addr().unwrap().to_string();
        let tls = "[tls]\ncertificate = \"no.pem\"\nkey = \"no.key\"\nauthority = \"no-ca.pem\"\n";
        for (api, more) in [(in_use.as_str(), ""), ("127.0.0.1:0", tls)] {
            let failed = start(&folder, api, more).await;
            assert!(
                matches!(failed, Err(NotStarted::Listen(..) | NotStarted::Links(_))),
                "it cannot start: {failed:?}"
            );
        }
        assert!(goes_on(&folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

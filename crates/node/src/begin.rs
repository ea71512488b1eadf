//! What a node with leases begins with: its log, and the life that begins or goes on.

use std::collections::BTreeMap;
use std::path::Path;

use kgate_control::log::{Founding, LogTiming};
use kgate_control::state::{ClusterId, Listed};
use kgate_control::timing::Timing;
use kgate_core::{Incarnation, NodeId, Span};

use crate::agreement::Agreement;
use crate::config::{BadConfig, Config};
use crate::core::{ControlSettings, Detection, Parked, Settings, Terms};
use crate::store::Store;
use crate::{NotStarted, random_seed};

/// Leases that are shorter than this want a log that is quick too: an election has to end within one.
const SHORT: Span = Span(2_000_000_000);

/// Opens the log, and says which life begins or goes on (rules R1, R2). Nothing was sent yet when this returns.
pub(crate) fn begin(
    config: &Config,
    folder: &Path,
    store: &Store,
    life: Incarnation,
) -> Result<(Agreement, Settings), NotStarted> {
    let timing = config.timing()?;
    let log_timing = if timing.lease < SHORT { LogTiming::FAST } else { LogTiming::DEFAULT };
    let (agreement, store_id, picture) = Agreement::open(folder, config.me(), log_timing)?;
    let taken = store.take_parked()?;
    let was_parked = taken.is_some();
    // Times of another boot of the machine mean nothing: then it is as after a crash.
    let parked = taken.filter(|parked| parked.same_boot).and_then(|parked| Parked::read(&parked.bytes));
    let life = if was_parked && parked.is_none() { store.next_life()? } else { life };
    tracing::info!(life = life.0, goes_on = parked.is_some(), "a life of this node begins or goes on");
    let control = ControlSettings {
        timing,
        store: store_id,
        address: config.own_address().cloned().unwrap_or_default(),
        start: random_seed(),
        picture,
        appended: agreement.voters_appended(),
        parked,
        joins: config.join.is_some(),
    };
    let mut settings = config.settings(life, random_seed())?;
    // The voters find who is silent; a request that was lost is repeated soon.
    settings.detection = Detection::Off;
    settings.terms = terms(timing);
    settings.slots.ask_again = Some(timing.node_ping.times(2));
    settings.control = Some(control);
    Ok((agreement, settings))
}

/// What the first nodes of a cluster found it with: the same at all of them.
pub(crate) fn founding(config: &Config) -> Result<Founding, BadConfig> {
    let listed = |(id, address): (u32, &String)| {
        let name = format!("node-{id}");
        (NodeId(id), Listed { name, address: address.clone(), ..Listed::default() })
    };
    let nodes: BTreeMap<NodeId, Listed> = (0..).zip(&config.nodes).map(listed).collect();
    Ok(Founding {
        cluster: ClusterId(random_seed()),
        name: config.cluster.clone(),
        nodes,
        voters: config.voters()?.into_iter().collect(),
        terms: config.timing()?.terms(),
    })
}

/// A session's word counts for what is left of the lease, and never longer than a whole one (rule S1).
fn terms(timing: Timing) -> Terms {
    Terms { valid_for: Some(timing.lease), clock_error: timing.clock_error.div_ceil(1000) }
}

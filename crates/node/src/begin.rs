//! The start of a node with leases: its log, and the incarnation that begins or resumes.

use std::collections::BTreeMap;
use std::path::Path;

use kgate_control::log::{Bootstrap, LogTiming};
use kgate_control::state::{ClusterId, DirectoryEntry};
use kgate_control::timing::Timing;
use kgate_core::{Incarnation, NodeId, Span};

use crate::agreement::Agreement;
use crate::config::{BadConfig, Config};
use crate::core::{ControlSettings, Detection, SessionTerms, Settings, Suspended};
use crate::store::Store;
use crate::{NotStarted, random_seed};

/// Below this lease the log must be fast too: an election has to end within one lease.
const SHORT: Span = Span(2_000_000_000);

/// Opens the log, and determines the incarnation that begins or resumes (rules R1, R2). Nothing has
/// been sent when this returns.
pub(crate) fn begin(
    config: &Config,
    folder: &Path,
    store: &Store,
    incarnation: Incarnation,
) -> Result<(Agreement, Settings), NotStarted> {
    let timing = config.timing()?;
    let log_timing = if timing.lease < SHORT { LogTiming::FAST } else { LogTiming::DEFAULT };
    let (agreement, store_id, cluster_state) = Agreement::open(folder, config.me(), log_timing)?;
    let taken = store.take_suspended()?;
    let was_suspended = taken.is_some();
    // Times of another boot mean nothing: then the start is as after a crash.
    let suspended = taken
        .filter(|suspended| suspended.same_boot)
        .and_then(|suspended| Suspended::read(&suspended.bytes));
    let incarnation =
        if was_suspended && suspended.is_none() { store.next_incarnation()? } else { incarnation };
    tracing::info!(
        incarnation = incarnation.0,
        goes_on = suspended.is_some(),
        "an incarnation of this node begins or goes on"
    );
    let control = ControlSettings {
        timing,
        store: store_id,
        address: config.own_address().cloned().unwrap_or_default(),
        start: random_seed(),
        cluster_state,
        appended: agreement.voters_appended(),
        suspended,
        joins: config.join.is_some(),
    };
    let mut settings = config.settings(incarnation, random_seed())?;
    // The voters find silent nodes. A lost request is repeated soon.
    settings.detection = Detection::Off;
    settings.terms = terms(timing);
    settings.slots.ask_again = Some(timing.node_ping.times(2));
    settings.control = Some(control);
    Ok((agreement, settings))
}

/// The bootstrap of a cluster: the same at all its first nodes.
pub(crate) fn founding(config: &Config) -> Result<Bootstrap, BadConfig> {
    let listed = |(id, address): (u32, &String)| {
        let name = format!("node-{id}");
        (NodeId(id), DirectoryEntry { name, address: address.clone(), ..DirectoryEntry::default() })
    };
    let nodes: BTreeMap<NodeId, DirectoryEntry> = (0..).zip(&config.nodes).map(listed).collect();
    Ok(Bootstrap {
        cluster: ClusterId(random_seed()),
        name: config.cluster.clone(),
        nodes,
        voters: config.voters()?.into_iter().collect(),
        terms: config.timing()?.terms(),
    })
}

/// A session is valid for what is left of the lease, and never longer than a whole lease (rule S1).
fn terms(timing: Timing) -> SessionTerms {
    SessionTerms {
        valid_for: Some(timing.lease),
        clock_error: timing.clock_error.div_ceil(1000),
        kill: timing.kill,
    }
}

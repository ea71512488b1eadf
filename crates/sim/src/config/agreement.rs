//! What the agreed log decides about processes, and when, for a protocol that follows it
//! ([`Claims::follows_log`](crate::Claims)).
//!
//! The log suspects a silent process, evicts it later, and adds it again when it is back. It may
//! suspect or drain a live process, and clear it again or not, and evict a live one, whose lease
//! ends before. Every process applies each entry at a time of its own, in order, within the bound
//! for notifications.

use kgate_core::{NodeId, Span};

use super::{Config, ConfigError};
use crate::disturbance::{Chance, Pause};

/// The decisions of the agreed log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The time from the crash of a process to the entry that suspects it, which moves home roles.
    pub suspect_after: Span,
    /// The time from the crash of a process to the entry that evicts it, which frees its slots. No
    /// client believes by a process any more when it is evicted (`home`, H18).
    pub evict_after: Span,
    /// The live processes that the log declares unfit to be home, because it suspects or drains
    /// them, and when it clears them; never, if that is not before the end of the run.
    pub unfit: Vec<Pause>,
    /// The live processes that the log evicts, and when it adds them again.
    pub evictions: Vec<Pause>,
    /// The live processes that have no lease for a while, so that no client believes by them, and
    /// are members all the time.
    pub leaseless: Vec<Pause>,
    /// How long a client believes in its permit after its last renewal: until then it may ask other
    /// processes to adopt it, once its own is silent.
    pub session: Span,
    /// How likely a client inside asks another process to adopt its permit, although its own runs.
    /// Unless it is 0, clients of a crashed process ask, too.
    pub adopt: Chance,
    /// How likely a client dies inside.
    pub dying_clients: Chance,
    /// How likely a client makes its permit durable: the log holds its slots.
    pub durable: Chance,
}

impl Default for Agreement {
    fn default() -> Self {
        let (unfit, evictions, leaseless) = Default::default();
        Self {
            suspect_after: Span::UNIT.times(5),
            evict_after: Span::UNIT.times(15),
            unfit,
            evictions,
            leaseless,
            session: Span::UNIT.times(4),
            adopt: Chance::NEVER,
            dying_clients: Chance::NEVER,
            durable: Chance::NEVER,
        }
    }
}

impl Agreement {
    /// Whether anything differs from a log that decides crashes and returns alone.
    pub(crate) fn any(&self) -> bool {
        let chances = [self.adopt, self.dying_clients, self.durable];
        self.changes_members() || chances.iter().any(|chance| *chance > Chance::NEVER)
    }

    /// Whether it changes what live processes are.
    pub(crate) fn changes_members(&self) -> bool {
        self.periods().next().is_some()
    }

    /// Whether permits leave the process that was granted them.
    pub(crate) fn clients_move(&self) -> bool {
        self.adopt > Chance::NEVER || self.durable > Chance::NEVER
    }

    /// Every time that it names.
    pub(crate) fn times(&self) -> impl Iterator<Item = Span> {
        let periods = self.periods();
        let named = [self.suspect_after, self.evict_after, self.session];
        named.into_iter().chain(periods.flat_map(|period| [period.from, period.until]))
    }

    /// Checks that the protocol follows a log, and that the decisions make sense.
    pub(crate) fn check(&self, config: &Config) -> Result<(), ConfigError> {
        if self.any() && !config.claims.follows_log {
            return Err(ConfigError::NeedsLog(
                "--unfit, --evict, --no-lease, --adopt, --dying-clients and --durable",
            ));
        }
        if config.claims.follows_log && self.session > self.evict_after {
            let (session, evict) = (self.session, self.evict_after);
            return Err(ConfigError::EvictedWhileBelieved { session, evict });
        }
        if self.suspect_after > self.evict_after {
            let (suspect, evict) = (self.suspect_after, self.evict_after);
            return Err(ConfigError::EvictedBeforeSuspected { suspect, evict });
        }
        let (nodes, duration) = (config.nodes, config.duration);
        for period in self.periods() {
            let Pause { node, from, until } = *period;
            if node.0 >= nodes || from >= until || from >= duration {
                return Err(ConfigError::InvalidDisturbance { node, from, until, nodes, duration });
            }
        }
        for (index, period) in self.evictions.iter().enumerate() {
            let apart = |other: &Pause| other.until < period.from || period.until < other.from;
            let same = |other: &&Pause| other.node == period.node;
            if !self.evictions[..index].iter().filter(same).all(apart) {
                return Err(ConfigError::OverlappingEvictions { node: period.node });
            }
        }
        Ok(())
    }

    fn periods(&self) -> impl Iterator<Item = &Pause> {
        self.unfit.iter().chain(&self.evictions).chain(&self.leaseless)
    }

    /// All its periods.
    pub fn periods_mut(&mut self) -> impl Iterator<Item = &mut Pause> {
        self.unfit.iter_mut().chain(&mut self.evictions).chain(&mut self.leaseless)
    }

    /// The names of its processes, for a smaller run.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut NodeId> {
        self.periods_mut().map(|period| &mut period.node)
    }
}

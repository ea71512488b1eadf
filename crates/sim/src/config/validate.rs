//! What makes a configuration valid, apart from the protocol's types and the machine's memory.

use kgate_core::Span;

use super::{Config, ConfigError, TIME_MAX};
use crate::faults::Down;
use crate::latency::Latency;

impl Config {
    /// Checks everything that does not depend on the protocol's types or on the machine.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.check_size()?;
        self.check_load()?;
        // A self-stabilising protocol repeats its messages at this interval by default.
        if self.claims.heals && self.refresh.unwrap_or(self.detection.interval) == Span::ZERO {
            return Err(ConfigError::ZeroInterval);
        }
        if let Some(longest) = self.times().max().filter(|&longest| longest > TIME_MAX) {
            return Err(ConfigError::TooLong(longest));
        }
        self.check_claims()?;
        self.disturbance.check(self)?;
        self.agreement.check(self)?;
        self.check_shape()?;
        self.check_detector()
    }

    fn check_size(&self) -> Result<(), ConfigError> {
        if self.nodes < 2 {
            return Err(ConfigError::TooFewNodes(self.nodes));
        }
        if self.k == 0 {
            return Err(ConfigError::ZeroSlots);
        }
        if self.k >= self.nodes && !self.claims.slots {
            return Err(ConfigError::NothingExcluded { k: self.k, nodes: self.nodes });
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), ConfigError> {
        if let Some(&node) = self.only.iter().find(|node| node.0 >= self.nodes) {
            return Err(ConfigError::UnknownRequester { node, nodes: self.nodes });
        }
        let requesters = self.load.requesters;
        if requesters == 0 || requesters > self.nodes {
            return Err(ConfigError::Requesters { requesters, nodes: self.nodes });
        }
        if self.warmup > Span::ZERO && self.warmup >= self.duration {
            return Err(ConfigError::WarmupTooLong {
                warmup: self.warmup,
                duration: self.duration,
            });
        }
        let pause = if self.load.ask_inside {
            Span(self.load.hold.0 / 2)
        } else {
            self.load.think.typical()
        };
        if self.load.hold + pause == Span::ZERO || self.load.ask_inside && pause == Span::ZERO {
            return Err(ConfigError::ZeroLoop);
        }
        Ok(())
    }

    /// Every time that the configuration names.
    fn times(&self) -> impl Iterator<Item = Span> {
        let (load, cost, detection) = (&self.load, &self.cost, &self.detection);
        let crashes =
            self.crashes.iter().flat_map(|crash| [crash.at, crash.back.unwrap_or_default()]);
        let strikes = self.transient.strikes.iter().map(|strike| strike.1);
        [
            load.hold,
            load.think.typical(),
            self.down_for,
            self.refresh.unwrap_or_default(),
            load.first_request,
            cost.send,
            cost.latency.typical(),
            cost.receive,
            self.duration,
        ]
        .into_iter()
        .chain([detection.interval, detection.timeout, detection.oracle.unwrap_or_default()])
        .chain(crashes)
        .chain(strikes)
        .chain(self.disturbance.times())
        .chain(self.agreement.times())
        .chain([load.patience, self.slots.ask_again.unwrap_or_default()])
        .chain(self.resizes.iter().map(|resize| resize.0))
    }

    /// Refuses what the protocol does not claim to support.
    fn check_claims(&self) -> Result<(), ConfigError> {
        let claims = &self.claims;
        if self.detection.oracle.is_some() && claims.detector.is_none() {
            return Err(ConfigError::NoDetector);
        }
        let restarts =
            self.random_recoveries > 0 || self.crashes.iter().any(|crash| crash.back.is_some());
        if restarts && !claims.recovers && !claims.returns {
            return Err(ConfigError::RestartUnsupported);
        }
        self.check_slots()?;
        if self.transient.any() && !claims.heals {
            return Err(ConfigError::TransientFaultsUnsupported);
        }
        if self.load.ask_inside && !claims.asks_inside {
            return Err(ConfigError::AskInsideUnsupported);
        }
        if self.tolerate >= self.k {
            return Err(ConfigError::TolerateTooLarge { tolerate: self.tolerate, k: self.k });
        }
        Ok(())
    }

    /// Weights, several clients and resizes need numbered slots and sensible numbers.
    fn check_slots(&self) -> Result<(), ConfigError> {
        let (claims, load) = (&self.claims, &self.load);
        if claims.returns && self.down == Down::Kept {
            return Err(ConfigError::KeptUnsupported);
        }
        if load.clients == 0 || load.weight_max == 0 {
            return Err(ConfigError::ZeroLoad);
        }
        if !claims.slots && load.needs_slots() {
            return Err(ConfigError::NeedsSlots("--clients, --weight-max and --withdraw"));
        }
        if !claims.slots && !self.resizes.is_empty() {
            return Err(ConfigError::NeedsSlots("--resize"));
        }
        if self.gates == 0 || self.gates > 1 && !claims.follows_log {
            return Err(ConfigError::NeedsLog("--gates"));
        }
        let several = self.gates > 1 && (load.clients > 1 || self.agreement.clients_move());
        if several {
            return Err(ConfigError::OneGateOnly);
        }
        let duration = self.duration;
        if let Some(&(at, k)) = self.resizes.iter().find(|(at, k)| *k == 0 || *at > duration) {
            return Err(ConfigError::InvalidResize { k, at, duration });
        }
        let k_max = self.resizes.iter().map(|resize| resize.1).fold(self.k, u32::max);
        let most = self.weight_limit(k_max);
        if load.weight_max > most {
            return Err(ConfigError::WeightTooLarge { weight: load.weight_max, most });
        }
        Ok(())
    }

    /// The latency grid and the graph have as many processes as the run.
    fn check_shape(&self) -> Result<(), ConfigError> {
        if let Latency::Grid(grid) = self.cost.latency
            && grid.nodes() != Some(self.nodes)
        {
            let (clusters, size) = (grid.clusters, grid.size);
            return Err(ConfigError::GridSize { clusters, size, nodes: self.nodes });
        }
        if let Some(graph) = self.graph.as_ref().filter(|graph| graph.nodes() != self.nodes) {
            return Err(ConfigError::GraphSize { graph: graph.nodes(), nodes: self.nodes });
        }
        Ok(())
    }

    /// A detector that runs waits at least one round trip and pauses between rounds.
    fn check_detector(&self) -> Result<(), ConfigError> {
        if self.own_detector().is_none() {
            return Ok(());
        }
        let longest = self.cost.longest_delay().ok_or(ConfigError::UnboundedLatency)?;
        let timeout = self.detection.timeout;
        if timeout < longest.times(2) {
            return Err(ConfigError::TimeoutTooShort { timeout, longest });
        }
        if self.detection.interval == Span::ZERO {
            return Err(ConfigError::ZeroInterval);
        }
        Ok(())
    }
}

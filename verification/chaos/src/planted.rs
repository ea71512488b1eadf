//! Planted bugs, at least one per checker: each checker must catch its own.
//!
//! The clients of the first node have the bug, by the job file. The last one is in the
//! configuration of the nodes: crash-stop nodes are partitioned.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::config::Mode;
use crate::oracle;
use crate::schedule::{Action, Fault, Kind, Plan};

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Planted {
    /// A holder continues after its deadline.
    Outlives,
    /// A client holds without a request.
    TwoHolders,
    /// A grant has an old fence.
    FenceBack,
    /// Fences contain a clock that counts only the decider's own decisions instead of the
    /// request's stamp.
    FenceOfDecision,
    /// A holder never releases, so that others get no answer.
    NeverAnswered,
    /// Crash-stop nodes are partitioned.
    MinorityGrants,
}

impl Planted {
    pub(crate) const ALL: [(Planted, &'static str); 6] = [
        (Planted::Outlives, "outlives"),
        (Planted::TwoHolders, "two-holders"),
        (Planted::FenceBack, "fence-back"),
        (Planted::FenceOfDecision, "fence-of-decision"),
        (Planted::NeverAnswered, "never-answered"),
        (Planted::MinorityGrants, "minority-grants"),
    ];

    pub(crate) fn parse(text: &str) -> Result<Self> {
        match Self::ALL.iter().find(|(_, name)| *name == text) {
            Some((planted, _)) => Ok(*planted),
            None => bail!(
                "no planted bug is called `{text}`: choose of {}, all",
                Self::ALL.map(|(_, name)| name).join(", ")
            ),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(planted, _)| *planted == self).map_or("", |(_, name)| name)
    }

    /// The checkers that must catch it, all of them.
    pub(crate) fn checkers(self) -> &'static [&'static str] {
        match self {
            Self::Outlives => &[oracle::DEADLINE, oracle::BELIEF, oracle::LOCK],
            Self::TwoHolders => &[oracle::BELIEF],
            Self::FenceBack | Self::FenceOfDecision => &[oracle::BELIEF, oracle::RESOURCE],
            Self::NeverAnswered => &[oracle::ANSWERS],
            Self::MinorityGrants => &[oracle::MINORITY, oracle::BELIEF],
        }
    }

    /// Whether some requests get no answer; then the run does not wait long for them.
    pub(crate) fn leaves_unanswered(self) -> bool {
        matches!(self, Self::Outlives | Self::NeverAnswered | Self::MinorityGrants)
    }

    /// The mode that shows it.
    pub(crate) fn mode(self, chosen: Mode) -> Mode {
        if self == Self::MinorityGrants { Mode::CrashStop } else { chosen }
    }

    /// The plan that shows it: one gate of one slot, and the one fault that it needs.
    pub(crate) fn plan(self, lease_ms: u64) -> Plan {
        let (nodes, begin_ms) = (5, 3_000);
        let fault =
            |kind, action| vec![Fault { kind, begin_ms, end_ms: begin_ms + 6 * lease_ms, action }];
        let faults = match self {
            Self::Outlives => fault(Kind::Pause, Action::PauseNodes(vec![0])),
            Self::MinorityGrants => {
                let ways = [0, 1]
                    .into_iter()
                    .flat_map(|a| [2, 3, 4].into_iter().flat_map(move |b| [(a, b), (b, a)]));
                fault(Kind::Partition, Action::Cut(ways.collect()))
            }
            Self::TwoHolders | Self::FenceBack | Self::FenceOfDecision | Self::NeverAnswered => {
                Vec::new()
            }
        };
        let (clock_ppm, sync_ms) = (vec![0; nodes as usize], vec![0; nodes as usize]);
        let kinds = faults.iter().map(|fault| fault.kind).collect();
        Plan {
            nodes,
            voters: 3,
            gates: vec![("gate-0".into(), 1)],
            kinds,
            faults,
            clock_ppm,
            sync_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has a name, a plan and a checker; every checker but that of the nodes' incarnations has
    /// one.
    #[test]
    fn every_checker_has_a_bug() {
        let mut checked = Vec::new();
        for (planted, name) in Planted::ALL {
            assert_eq!((Planted::parse(name).unwrap(), planted.name()), (planted, name));
            assert_eq!(planted.plan(700).gates.len(), 1);
            checked.extend(planted.checkers());
        }
        for checker in [
            oracle::BELIEF,
            oracle::DEADLINE,
            oracle::LOCK,
            oracle::RESOURCE,
            oracle::MINORITY,
            oracle::ANSWERS,
        ] {
            assert!(checked.contains(&checker), "{checker}");
        }
        assert!(Planted::parse("x").is_err());
    }
}

//! What only protocols with numbered slots can make something of: how they go about it, and what
//! may be asked of them.

use clap::{Args, ValueEnum};
use kgate_core::{Dissemination, MembershipSource, SlotOptions, Span};

/// How numbered slots go about it. What is not given is as by default.
#[derive(Debug, Args)]
pub(crate) struct SlotArgs {
    /// How requests reach everybody, where the protocol leaves the choice [default: as suits n]
    #[arg(long, value_enum, value_name = "HOW", env = "KGATE_OPT_DISSEMINATION")]
    pub(crate) dissemination: Option<DisseminationArg>,
    /// From whom processes learn who takes part (slots) [default: log]
    #[arg(long, value_enum, value_name = "WHO", env = "KGATE_OPT_MEMBERSHIP")]
    pub(crate) membership: Option<MembershipArg>,
    /// Who asked earlier answers once it is decided (slots, not on a tree) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF", env = "KGATE_OPT_DEFER")]
    pub(crate) defer: Option<Switch>,
    /// A decision of which nobody could make use is not announced (slots) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF", env = "KGATE_OPT_QUIET")]
    pub(crate) quiet: Option<Switch>,
    /// A slot that nobody asks for stays where it was used last (slots) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF", env = "KGATE_OPT_KEEP")]
    pub(crate) keep: Option<Switch>,
    /// How often a slot may go from client to client of one process while others wait (slots)
    /// [default: 4]
    #[arg(long, value_name = "B", env = "KGATE_OPT_COHORT")]
    pub(crate) cohort: Option<u16>,
    /// For how many units a process asks at once for several of its clients (slots) [default: 1,
    /// one client at a time]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..), env = "KGATE_OPT_BATCH")]
    pub(crate) batch: Option<u32>,
    /// Into how many independent queues the slots are split (slots) [default: 1]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..), env = "KGATE_OPT_LANES")]
    pub(crate) lanes: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DisseminationArg {
    /// straight to each
    Flat,
    /// down a tree, and the answers, put together, back up
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MembershipArg {
    /// from an agreed log
    Log,
    /// from whoever is back, and losses from a perfect detector; some process never crashes
    Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// so it is
    On,
    /// it is not
    Off,
}

impl SlotArgs {
    /// The names of all, as the parser knows them.
    pub(crate) const IDS: [&str; 8] =
        ["dissemination", "membership", "defer", "quiet", "keep", "cohort", "batch", "lanes"];

    /// The first flag that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.dissemination.is_some(), "--dissemination"),
            (self.membership.is_some(), "--membership"),
            (self.defer.is_some(), "--defer"),
            (self.quiet.is_some(), "--quiet"),
            (self.keep.is_some(), "--keep"),
            (self.cohort.is_some(), "--cohort"),
            (self.batch.is_some(), "--batch"),
            (self.lanes.is_some(), "--lanes"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// As a protocol is told.
    pub(crate) fn options(&self, ask_again: Option<Span>) -> SlotOptions {
        let usual = SlotOptions::default();
        let on =
            |switch: Option<Switch>, usual| switch.map_or(usual, |switch| switch == Switch::On);
        SlotOptions {
            dissemination: match self.dissemination {
                None => Dissemination::Auto,
                Some(DisseminationArg::Flat) => Dissemination::Flat,
                Some(DisseminationArg::Tree) => Dissemination::Tree,
            },
            membership: match self.membership {
                None | Some(MembershipArg::Log) => MembershipSource::Log,
                Some(MembershipArg::Join) => MembershipSource::Join,
            },
            defer: on(self.defer, usual.defer),
            quiet: on(self.quiet, usual.quiet),
            keep: on(self.keep, usual.keep),
            cohort: self.cohort.unwrap_or(usual.cohort),
            batch: self.batch.unwrap_or(usual.batch),
            lanes: self.lanes.unwrap_or(usual.lanes),
            ask_again,
        }
    }

    /// The flags that were given, as typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let name = |arg: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            arg().map(|value| value.get_name().to_owned()).unwrap_or_default()
        };
        let switch = |flag: &str, value: Option<Switch>| {
            value.map(|value| format!("--{flag} {}", name(&|| value.to_possible_value())))
        };
        let number =
            |flag: &str, value: Option<u32>| value.map(|value| format!("--{flag} {value}"));
        let how = self.dissemination.map(|how| name(&|| how.to_possible_value()));
        let who = self.membership.map(|who| name(&|| who.to_possible_value()));
        let words = [
            how.map(|how| format!("--dissemination {how}")),
            who.map(|who| format!("--membership {who}")),
            switch("defer", self.defer),
            switch("quiet", self.quiet),
            switch("keep", self.keep),
            number("cohort", self.cohort.map(u32::from)),
            number("batch", self.batch),
            number("lanes", self.lanes),
        ];
        words.into_iter().flatten().collect()
    }
}

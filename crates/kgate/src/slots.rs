//! Options that only protocols with numbered slots understand.

use clap::{Args, ValueEnum};
use kgate_core::{Dissemination, MembershipSource, SlotOptions, Span};

/// Options of numbered slots. An option that is not given keeps its default.
#[derive(Debug, Args)]
pub(crate) struct SlotArgs {
    /// How requests reach all processes (slots) [default: depends on n]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) dissemination: Option<DisseminationArg>,
    /// Source of the membership (slots) [default: log]
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) membership: Option<MembershipArg>,
    /// A process with an earlier request of its own defers its answer until that request is
    /// decided (slots, not on a tree) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub(crate) defer: Option<Switch>,
    /// A decision that no process can use is not announced (slots) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub(crate) quiet: Option<Switch>,
    /// A slot without a waiting request stays cached at its last holder (slots, home) [default: on]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub(crate) keep: Option<Switch>,
    /// How often a slot may pass between clients of one process while other processes wait (slots,
    /// home) [default: 4]
    #[arg(long, value_name = "B")]
    pub(crate) cohort: Option<u16>,
    /// Number of slots that a process requests at once for several of its clients (slots)
    /// [default: 1, one client at a time]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// Number of independent queues into which the slots are split (slots) [default: 1]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) lanes: Option<u32>,
    /// With k = 1 a holder passes the slot on to the next one itself: one delay instead of two
    /// (home) [default: off]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub(crate) pass: Option<Switch>,
    /// A second process knows the slots of the home's own clients, so that the free slots can go
    /// on when the home dies (home) [default: off]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub(crate) witness: Option<Switch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DisseminationArg {
    /// directly to each process
    Flat,
    /// down a tree, and the aggregated answers back up
    Tree,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MembershipArg {
    /// an agreed log
    Log,
    /// join messages of recovering processes, and a perfect detector for crashes; at least one
    /// process must never crash
    Join,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// this optimisation is enabled
    On,
    /// this optimisation is disabled
    Off,
}

impl SlotArgs {
    /// The argument ids of all these options, as clap knows them.
    pub(crate) const IDS: [&str; 10] = [
        "dissemination",
        "membership",
        "defer",
        "quiet",
        "keep",
        "cohort",
        "batch",
        "lanes",
        "pass",
        "witness",
    ];
    /// Those that only a protocol understands that follows an agreed log.
    pub(crate) const FOLLOWS_LOG: [&str; 2] = ["pass", "witness"];

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
            (self.pass.is_some(), "--pass"),
            (self.witness.is_some(), "--witness"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, flag)| flag)
    }

    /// The options in the form that protocols take.
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
            pass: on(self.pass, usual.pass),
            witness: on(self.witness, usual.witness),
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
            switch("pass", self.pass),
            switch("witness", self.witness),
        ];
        words.into_iter().flatten().collect()
    }
}

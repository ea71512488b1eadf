//! Options for the decisions of an agreed log.

use clap::Args;
use kgate_core::Span;
use kgate_sim::{Agreement, Chance, Pause};

use crate::parse;

/// What the agreed log decides, for a protocol that follows it (home).
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Number of gates, each with k slots; each request is for one of them (home)
    #[arg(long, value_name = "G", default_value_t = 1, value_parser = gates())]
    pub(crate) gates: u32,
    /// Time from the crash of a process to the entry of the log that suspects it (home)
    #[arg(long, value_name = "T", default_value = "5", value_parser = parse::span)]
    pub(crate) suspect_after: Span,
    /// Time from the crash of a process to the entry of the log that evicts it, which frees what it
    /// held (home)
    #[arg(long, value_name = "T", default_value = "15", value_parser = parse::span)]
    pub(crate) evict_after: Span,
    /// Live processes that the log declares unfit to be home of a gate, because it suspects or
    /// drains them, as process@time..time; an end after --duration: for good (home)
    #[arg(long, value_name = "P@T..T,..", value_delimiter = ',')]
    pub(crate) unfit: Vec<Pause>,
    /// Live processes that the log evicts, and adds again, as process@time..time; their leases end
    /// with the eviction (home)
    #[arg(long, value_name = "P@T..T,..", value_delimiter = ',')]
    pub(crate) evict: Vec<Pause>,
    /// Live processes that have no lease for a while, as process@time..time: no client believes by
    /// them, and they grant nothing (home)
    #[arg(long, value_name = "P@T..T,..", value_delimiter = ',')]
    pub(crate) no_lease: Vec<Pause>,
    /// How long a client believes in its permit after its last renewal, at most --evict-after:
    /// until then it can go on at another process, once its own is silent (home)
    #[arg(long, value_name = "T", default_value = "4", value_parser = parse::span)]
    pub(crate) session: Span,
    /// Probability that a client inside asks another process to adopt its permit, although its own
    /// is alive; above 0, clients of a crashed process ask, too (home)
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) adopt: Chance,
    /// Probability that a client dies inside; its process notices after --session (home)
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) dying_clients: Chance,
    /// Probability that a client makes its permit durable: the log holds its slots until the client
    /// is done (home)
    #[arg(long, value_name = "X", default_value = "0")]
    pub(crate) durable: Chance,
}

fn gates() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=1 << 20)
}

impl LogArgs {
    /// The argument ids of all these options, as clap knows them.
    pub(crate) const IDS: [&str; 10] = [
        "gates",
        "suspect_after",
        "evict_after",
        "unfit",
        "evict",
        "no_lease",
        "session",
        "adopt",
        "dying_clients",
        "durable",
    ];

    pub(crate) fn agreement(&self) -> Agreement {
        Agreement {
            suspect_after: self.suspect_after,
            evict_after: self.evict_after,
            unfit: self.unfit.clone(),
            evictions: self.evict.clone(),
            leaseless: self.no_lease.clone(),
            session: self.session,
            adopt: self.adopt,
            dying_clients: self.dying_clients,
            durable: self.durable,
        }
    }
}

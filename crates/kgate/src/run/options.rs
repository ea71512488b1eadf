//! The command line of `kgate run`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args};

use super::exit;
use super::keeper::{Wait, Wish};
use crate::credentials::CredentialArgs;

/// The most that a gate lets through.
const MOST: i64 = kgate_node::core::Definition::MOST as i64;

/// Shown below `kgate run --help`.
pub(crate) const RUN_HELP: &str = "\
CMD is run without a shell, in a process group of its own, with our standard input, output and error. Signals that reach kgate are handed \
on to it. When CMD ends, what it left running is stopped too, and only then is the permit given back. If the permit is lost, CMD and all its \
descendants get SIGTERM, and SIGKILL after the grace.

Environment of CMD: KGATE_GATE, KGATE_SLOT (the lowest), KGATE_SLOTS (`0,2`), KGATE_K, KGATE_FENCE (32 hexadecimal digits, grows \
with every holder of a slot), KGATE_NODE, KGATE_DEADLINE_FD.

Exit code: that of CMD, or 128 + the signal that ended it; 2 what was asked for cannot be, and nothing was run (-p beyond k, a closed gate, a \
--grace beyond the lease, a bad --node), 120 the wait was over or -n found no free slot (-E sets another), 121 the permit \
was lost and CMD stopped, 122 no quorum or no node, 123 the gate has another k, 125 kgate itself failed, 126 CMD cannot be run, 127 CMD \
cannot be found.

Examples:
  At most three builds at a time:
    kgate run builds -k 3 -- make
  Not at all rather than later:
    kgate run backup -k 1 -n -- backup.sh
  Two slots, waited for up to a minute:
    kgate run licences -p 2 -w 1m -- simulate model.json
  At a node elsewhere:
    kgate run builds -k 3 --node https://10.0.0.1:7400 --ca ca.pem --cert client-ci.pem --key client-ci.key -- make";

/// `kgate run NAME .. -- CMD ..`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    /// For `kgate acquire`, which does not wait for CMD
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// What to run, and its arguments
    #[arg(value_name = "CMD", required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

/// Shown below `kgate acquire --help`.
pub(crate) const ACQUIRE_HELP: &str = "\
For scripts that cannot put their work into one command. A process in the background holds the permit until `kgate release TOKEN`; the \
script itself is not stopped if the permit is lost, so prefer `kgate run`, or hand the fence to what you guard. Exit codes are those of \
`kgate run`; 121 of `kgate release` says that the permit was lost, or given back, before.

With --ttl or --policy hold no process holds it: the log of the cluster does, until `kgate release TOKEN` at any node, until the time to live (a second to a year) \
has passed without `kgate renew TOKEN`, or until an operator takes it back with `kgate evict --permit`. Node and network may fail meanwhile, and nothing stops the script. `kgate release` of such a permit ends with 0 also if \
it had expired or been evicted, since again is the same, and warns of it; `kgate renew` ends with 121 then, so a script that must know renews before it trusts its work.

Examples:
  token=$(kgate acquire deploy -k 1) || exit
  ./deploy.sh
  kgate release \"$token\"
  A permit that outlives this machine's reboot:
    kgate acquire reboots -k 1 --ttl 15m > /var/lib/reboot.token";

/// Shown below `kgate release --help`.
const RELEASE_HELP: &str = "\
A permit that a process in the background holds: 0 it is given back, 121 nobody holds it: it was lost, or given back before.

A permit that the cluster holds (the token begins with permit-): 0 it is held no more. Again is the same, so that a release whose answer was lost can simply be given \
again; whoever was too late, since it had expired, been evicted or been given back before, is warned. `kgate renew` ends with 121 then. 122 no quorum or no node: nobody knows yet.";

/// `kgate acquire NAME ..`.
#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) ask: AskArgs,
    /// The cluster holds the permit by itself, without a process here: until `kgate release TOKEN`
    /// at any node, or for so long without `kgate renew TOKEN`
    #[arg(long, value_name = "DUR", value_parser = duration, env = "KGATE_OPT_TTL")]
    pub(crate) ttl: Option<Duration>,
    /// With hold, the cluster holds the permit by itself until `kgate release TOKEN`; the gate must
    /// have that policy, and a new one gets it
    #[arg(long, value_enum, env = "KGATE_OPT_POLICY")]
    pub(crate) policy: Option<Policy>,
    /// Print one JSON object: token, gate, slots, k, fence, node
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
}

impl AcquireArgs {
    /// The gate's policy must be `hold`.
    pub(crate) fn is_hold(&self) -> bool {
        self.policy == Some(Policy::Hold)
    }

    /// The cluster holds the permit, and no process here.
    pub(crate) fn is_kept(&self) -> bool {
        self.ttl.is_some() || self.is_hold()
    }
}

/// What becomes of the slots of a holder that is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Policy {
    /// They return when its node is evicted
    Lease,
    /// They stay taken until it gives them back, or an operator does
    Hold,
}

impl From<Policy> for kgate_client::Policy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Lease => Self::Lease,
            Policy::Hold => Self::Hold,
        }
    }
}

/// `kgate release TOKEN`.
#[derive(Debug, Args)]
#[command(after_long_help = RELEASE_HELP)]
pub(crate) struct ReleaseArgs {
    /// What `kgate acquire` printed
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    /// For a permit that the cluster holds, any node: HOST:PORT, https://HOST:PORT or unix:PATH
    /// [default: the node of this machine or of this user]
    #[arg(long, value_name = "ADDR", env = "KGATE_OPT_NODE")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

/// What is asked for, by every command that asks for a permit.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The gate
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// How many slots the gate has: makes it, if there is none of that name; else it must be so
    #[arg(short = 'k', value_name = "K", value_parser = clap::value_parser!(u32).range(1..=MOST), env = "KGATE_OPT_K")]
    pub(crate) k: Option<u32>,
    /// How many slots to take, all at once
    #[arg(short = 'p', long, value_name = "PERMITS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MOST), env = "KGATE_OPT_PERMITS")]
    pub(crate) permits: u32,
    /// How long to wait: 30, 1.5s, 200ms, 5m, 1h [default: as long as it takes]
    #[arg(short = 'w', long, value_name = "DUR", value_parser = duration, env = "KGATE_OPT_WAIT")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait
    #[arg(short = 'n', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_NO_WAIT")]
    pub(crate) no_wait: bool,
    /// Exit code when the wait is over or -n finds no free slot
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = exit::OCCUPIED, env = "KGATE_OPT_CONFLICT_EXIT_CODE")]
    pub(crate) conflict_exit_code: u8,
    /// The node to ask: HOST:PORT, https://HOST:PORT or unix:PATH [default: the node of this
    /// machine, or one that is started for this user]
    #[arg(long, value_name = "ADDR", env = "KGATE_OPT_NODE")]
    pub(crate) node: Option<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// From SIGTERM to SIGKILL when the permit is lost [default: 1s, or as much of it as fits into
    /// the node's lease]
    #[arg(long, value_name = "DUR", value_parser = duration, env = "KGATE_OPT_GRACE")]
    pub(crate) grace: Option<Duration>,
    /// Tell on standard error what is waited for and what was got
    #[arg(short = 'v', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_VERBOSE")]
    pub(crate) verbose: bool,
}

impl AskArgs {
    /// What the command line means. `given` tells what stands on it from what the environment says,
    /// which gives way.
    pub(crate) fn wish(&self, given: &ArgMatches) -> Result<Wish, String> {
        let on_command_line = |name| given.value_source(name) == Some(ValueSource::CommandLine);
        let wait = match (self.wait, self.no_wait) {
            (Some(_), true) if on_command_line("wait") && on_command_line("no_wait") => {
                return Err("--wait and --no-wait say opposite things: give one of them".to_owned());
            }
            (Some(span), true) if on_command_line("wait") => Wait::AtMost(span),
            (_, true) => Wait::No,
            (Some(span), false) => Wait::AtMost(span),
            (None, false) => Wait::ForEver,
        };
        let wait = if wait == Wait::AtMost(Duration::ZERO) { Wait::No } else { wait };
        if self.name.is_empty() || self.name.contains('\0') {
            return Err("a gate has a name of at least one character, and no NUL in it".to_owned());
        }
        if self.k.is_some_and(|k| k < self.permits) {
            return Err(format!("-p {} never fits into -k {}", self.permits, self.k.unwrap_or(0)));
        }
        let (gate, node) = (self.name.clone(), self.node.clone());
        let credentials = self.credentials.absolute();
        Ok(Wish {
            gate,
            node,
            credentials,
            command: String::new(),
            k: self.k,
            permits: self.permits,
            wait,
            grace: self.grace,
        })
    }
}

/// A number of seconds, or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write 30, 1.5s, 200ms, 5m or 1h");
    let digits = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds, as flock has them, or any of the units; nothing else is guessed at.
    #[test]
    fn durations_are_read() {
        let table = [
            ("2", 2000),
            ("1.5s", 1500),
            ("200ms", 200),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("0", 0),
        ];
        for (text, milliseconds) in table {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1", "1x", "1 s", "1e999", "1..2", "nan", "99999999999999999999999d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}

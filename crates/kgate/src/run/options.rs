//! The command lines of `kgate run`, `kgate acquire` and `kgate release`.
//!
//! Options are named as in `flock`, where it has them. Options of `kgate run` end where CMD begins:
//! everything from CMD on belongs to CMD, whatever it looks like.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueHint};
use kgate_node::core::{BadDefinition, BadNote, Definition};

use super::exit;
use super::keeper::{AcquireRequest, Once, UseCgroup, Wait, Weight};
use super::wanted::{NoteArgs, SlotsArgs};
use crate::credentials::CredentialArgs;
use crate::node_arg::NodeArg;

/// The most bytes of a key of `--once`.
const ONCE_KEY: usize = kgate_control::state::bounds::TEXT;
/// The shortest and the longest time to live, as in a cluster.
pub(super) const SHORTEST_TTL: Duration = Duration::from_secs(1);
pub(super) const LONGEST_TTL: Duration = Duration::from_secs(366 * 86_400);
/// Maximum of the weight of a request.
const MOST: i64 = Definition::MOST as i64;

/// Shown below `kgate run --help`.
pub(crate) const RUN_HELP: &str = "\
Options end where CMD begins: everything from CMD on belongs to CMD. A `--` before CMD is \
optional.

After a second of waiting, kgate shows on a terminal in one line who holds the gate, the place in \
the queue, and an estimate if enough is known of past holds. The line is gone before CMD starts.

CMD runs without a shell, in its own process group, with the standard input, output and error of \
kgate. kgate forwards the signals that it gets. When CMD ends, kgate stops the processes that CMD \
left running, and then releases the permit. If the permit is lost, CMD and all its descendants \
get SIGTERM, and SIGKILL after the grace.

A request whose ancestor holds the same gate by kgate run would wait for itself: CMD runs under \
the ancestor's permit instead, if the node confirms that it is held and that this process descends \
from its holder. CMD then takes the place of kgate, and the ancestor's kgate run stops it when the \
permit ends. --nested wait takes another permit, --nested fail exits with 120.

With --once KEY CMD runs at most once per key. A request waits for the gate as any other, so one \
that comes while CMD runs sees its end first at a gate with one slot. Then the key is used, and \
kgate exits with 0. The key is used before CMD starts: if CMD fails, or the machine does, nothing \
runs CMD again before --once-ttl has passed.

Environment of CMD: KGATE_GATE, KGATE_SLOT (the lowest), KGATE_SLOTS (`0,2`), \
KGATE_SLOT_NAME and KGATE_SLOT_NAMES (with --names), KGATE_K, \
KGATE_FENCE (32 hexadecimal digits, increases with every holder of a slot), KGATE_NODE, \
KGATE_DEADLINE_FD, KGATE_PERMITS (for nested requests).

Exit codes: the exit code of CMD, or 128 + the signal that ended it; 2: usage error, CMD was not \
run (for example -p greater than k, a closed gate, a --grace longer than the lease allows, an \
invalid --node); 120: timed out, or no free slots with -n (-E sets another code); 121: the permit \
was lost and CMD was stopped; 122: no quorum or no node; 123: the gate has another k; 125: \
internal error; 126: CMD cannot be executed; 127: CMD not found.

Examples:
  At most three builds at a time:
    kgate run builds -k 3 make -j8
  Now or not at all:
    kgate run backup -k 1 -n backup.sh
  Two slots, waiting up to a minute:
    kgate run licences -p 2 -w 1m simulate model.json
  A line of shell:
    kgate run site -c 'git pull && make install'
  Up to eight readers, or one writer:
    kgate run db -k 8 --shared report.sh
    kgate run db -k 8 --exclusive migrate.sh
  A GPU by its name, and why it is wanted:
    kgate run gpu --names cuda:0,cuda:1 --reason 'nightly training' -c './train.sh $KGATE_SLOT_NAME'
  As many at a time as the node has processors:
    kgate run tests -k cores ./test.sh
  Once a night, whichever machine comes first:
    kgate run nightly -k 1 --once $(date +%F) nightly.sh
  A node on another machine:
    kgate run builds -k 3 --node https://10.0.0.1:7400 --ca ca.pem --cert client-ci.pem --key \
    client-ci.key make";

/// Arguments of `kgate run`.
#[derive(Debug, Args)]
#[command(override_usage = "\
    kgate run [OPTIONS] <NAME> [--] <CMD>...\n       \
    kgate run [OPTIONS] <NAME> -c <TEXT>")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) acquire: RequestArgs,
    /// If CMD would run inside of the gate already, because an ancestor of this process holds it:
    /// run it under the ancestor's permit, wait for another one, or fail
    #[arg(long, value_enum, default_value = "reuse", env = "KGATE_OPT_NESTED")]
    pub(crate) nested: Nested,
    /// Do not show on the terminal what kgate waits for
    #[arg(short = 'q', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_QUIET")]
    pub(crate) quiet: bool,
    /// Run CMD at most once for this key, in the whole cluster or on this machine. The key is used
    /// before CMD starts, whether it succeeds or not; then exit with 0 without running CMD
    #[arg(long, value_name = "KEY", conflicts_with = "detached")]
    pub(crate) once: Option<String>,
    /// How long the key of --once is used: 1s to 365d
    #[arg(
        long, value_name = "DUR", value_parser = duration, default_value = "7d", requires = "once"
    )]
    pub(crate) once_ttl: Duration,
    /// Start for `kgate acquire`, which does not wait for CMD
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
    /// Run this text by `/bin/sh -c` instead of CMD
    #[arg(
        short = 'c', long = "command", value_name = "TEXT", value_hint = ValueHint::CommandString
    )]
    pub(crate) shell_text: Option<OsString>,
    /// The command and its arguments
    #[arg(
        value_name = "CMD", required_unless_present = "shell_text", conflicts_with = "shell_text",
        trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The key that CMD uses.
    pub(crate) fn once(&self) -> Result<Option<Once>, UsageError> {
        let Some(key) = self.once.clone() else { return Ok(None) };
        if !(1..=ONCE_KEY).contains(&key.len()) || key.chars().any(char::is_control) {
            return Err(UsageError::OnceKey);
        }
        if self.once_ttl < SHORTEST_TTL || self.once_ttl > LONGEST_TTL {
            return Err(UsageError::Ttl);
        }
        Ok(Some(Once { key, ttl: self.once_ttl }))
    }

    /// The words to execute. The shell of `-c` is always `/bin/sh`, so that a line means the same
    /// in a terminal, a crontab and a CI job; `flock -c` uses `$SHELL`.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match &self.shell_text {
            Some(text) => vec!["/bin/sh".into(), "-c".into(), text.clone()],
            None => self.command.clone(),
        }
    }
}

/// What a request does whose ancestor holds the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Nested {
    /// Run CMD under the ancestor's permit
    Reuse,
    /// Wait for another permit
    Wait,
    /// Fail with the exit code of a busy gate
    Fail,
}

/// Shown below `kgate acquire --help`.
pub(crate) const ACQUIRE_HELP: &str = "\
For scripts whose work is not one command. A background process holds the permit until `kgate \
release TOKEN`, or until the calling process ends: a script that is killed leaves nothing behind. \
In `token=$(kgate acquire ..)` that is the script; in `( .. ) &` it is the subshell. --for-pid \
names another one. The script is not stopped if the permit is lost: prefer `kgate run`, or pass \
the fence to the resource that the permit protects. The exit codes are those of `kgate run`.

On one machine --ttl (1s to 365d) ends the permit when that time has passed without `kgate renew \
TOKEN`; it outlives the script, and not a reboot.

In a cluster a permit with --ttl or --policy hold is durable: the log of the cluster holds it, and \
no process. It ends by `kgate release TOKEN` at any node, when the time to live (1s to 365d) has \
passed without `kgate renew TOKEN`, or by `kgate evict --permit`. Failures of nodes and networks \
do not end it, and nothing stops the script. `kgate release` of a durable permit is idempotent: \
it exits 0 even if the permit had already expired or been evicted, with a warning. `kgate renew` \
exits 121 then: a script that must know renews before it commits its work.

Examples:
  token=$(kgate acquire deploy -k 1) || exit
  ./deploy.sh
  kgate release \"$token\"
  A permit that survives a reboot of this machine:
    kgate acquire reboots -k 1 --ttl 15m > /var/lib/reboot.token";

/// Shown below `kgate release --help`.
const RELEASE_HELP: &str = "\
Exit codes for a permit that a background process holds: 0: released; 121: the permit was lost, \
had expired, or was released before.

Exit codes for a durable permit (its token begins with permit-): 0: the permit is not held any \
more; 122: no quorum or no node, so the result is unknown. Release is idempotent: it exits 0 even \
if the permit had already expired, been evicted or been released, and prints a warning. Retry it \
if the answer was lost. `kgate renew` exits 121 in these cases.

Example:
  kgate release \"$token\"";

/// Arguments of `kgate acquire`.
#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) acquire: RequestArgs,
    /// Time to live of the permit, for example 10m; `kgate renew TOKEN` restarts the time. In a
    /// cluster the permit is durable
    #[arg(long, value_name = "DUR", value_parser = duration, env = "KGATE_OPT_TTL")]
    pub(crate) ttl: Option<Duration>,
    /// Release the permit when this process ends, for whatever reason; `none` binds it to no
    /// process [default: the process that calls kgate acquire, or none with --ttl]
    #[arg(long, value_name = "PID", env = "KGATE_OPT_FOR_PID")]
    pub(crate) for_pid: Option<ForPid>,
    /// With `hold`, acquire a durable permit that lasts until `kgate release TOKEN`; the gate must
    /// have this policy, and a new gate gets it
    #[arg(long, value_enum, env = "KGATE_OPT_POLICY")]
    pub(crate) policy: Option<Policy>,
    /// Print one JSON object: token, gate, slots, k, fence, node
    #[arg(long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_JSON")]
    pub(crate) json: bool,
}

impl AcquireArgs {
    /// Whether the gate's policy must be `hold`.
    pub(crate) fn is_hold(&self) -> bool {
        self.policy == Some(Policy::Hold)
    }

    /// Whether the log holds the permit, and no process, if there is a log.
    pub(crate) fn is_durable(&self) -> bool {
        self.ttl.is_some() || self.is_hold()
    }
}

/// The process that a permit is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForPid {
    /// None: the permit lasts until `kgate release`.
    None,
    /// The process with this id.
    Pid(i32),
}

impl std::str::FromStr for ForPid {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let pid = text.parse().ok().filter(|pid: &i32| *pid > 0);
        pid.map(Self::Pid).ok_or_else(|| format!("`{text}` is no process id: write 1234 or none"))
    }
}

/// What happens to the slots of an unreachable holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Policy {
    /// They are free when its node is evicted
    Lease,
    /// They stay in use until the holder or an operator releases them
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

/// Arguments of `kgate release`.
#[derive(Debug, Args)]
#[command(after_long_help = RELEASE_HELP)]
pub(crate) struct ReleaseArgs {
    /// The token that `kgate acquire` printed
    #[arg(value_name = "TOKEN")]
    pub(crate) token: String,
    #[command(flatten)]
    pub(crate) node: NodeArg,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

/// Arguments of every command that acquires a permit.
#[derive(Debug, Args)]
pub(crate) struct RequestArgs {
    /// The gate
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) slots: SlotsArgs,
    /// Weight of the request: the number of slots to take, all or none
    #[arg(
        short = 'p', long, value_name = "PERMITS", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=MOST), env = "KGATE_OPT_PERMITS"
    )]
    pub(crate) permits: u32,
    /// Take all slots of the gate, as a writer does
    #[arg(
        short = 'x', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_EXCLUSIVE"
    )]
    pub(crate) exclusive: bool,
    /// Take one slot, as one of k readers does; the same as `-p 1`
    #[arg(short = 's', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_SHARED")]
    pub(crate) shared: bool,
    /// Maximum time to wait: 30, 1.5s, 200ms, 5m, 1h [default: no limit]
    #[arg(
        short = 'w', long, visible_alias = "timeout", value_name = "DUR", value_parser = duration,
        env = "KGATE_OPT_WAIT"
    )]
    pub(crate) wait: Option<Duration>,
    /// Fail at once if there are not enough free slots
    #[arg(
        short = 'n', long, visible_alias = "nonblock", value_parser = BoolishValueParser::new(),
        env = "KGATE_OPT_NO_WAIT"
    )]
    pub(crate) no_wait: bool,
    /// Exit code for a timeout, or for no free slots with -n
    #[arg(
        short = 'E', long, value_name = "CODE", default_value_t = exit::BUSY,
        env = "KGATE_OPT_CONFLICT_EXIT_CODE"
    )]
    pub(crate) conflict_exit_code: u8,
    #[command(flatten)]
    pub(crate) note: NoteArgs,
    #[command(flatten)]
    pub(crate) node: NodeArg,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
    /// Time from SIGTERM to SIGKILL when the permit is lost [default: 1s, or less if the node's
    /// lease is short]
    #[arg(long, value_name = "DUR", value_parser = duration, env = "KGATE_OPT_GRACE")]
    pub(crate) grace: Option<Duration>,
    /// Put the command into a control group (cgroup v2) of its own, which no process of it can
    /// leave: `off`, `auto` (where this user may create one) or `require` (otherwise the command is
    /// not run). `off` is the default because the kernel takes milliseconds to move a process
    #[arg(
        long, value_name = "WHEN", value_enum, default_value_t = UseCgroup::Off,
        env = "KGATE_OPT_CGROUP", hide_possible_values = true
    )]
    pub(crate) cgroup: UseCgroup,
    /// Print the request, what it waits for and the grant on standard error
    #[arg(short = 'v', long, value_parser = BoolishValueParser::new(), env = "KGATE_OPT_VERBOSE")]
    pub(crate) verbose: bool,
}

impl RequestArgs {
    /// The request that the command line describes. `given` tells arguments of the command line
    /// from those of the environment; the former take precedence.
    pub(crate) fn request(&self, given: &ArgMatches) -> Result<AcquireRequest, UsageError> {
        let on_command_line =
            |name: &str| given.value_source(name) == Some(ValueSource::CommandLine);
        let wait = match (self.wait, self.no_wait) {
            (Some(_), true) if on_command_line("wait") && on_command_line("no_wait") => {
                return Err(UsageError::WaitConflict);
            }
            (Some(span), true) if on_command_line("wait") => Wait::AtMost(span),
            (_, true) => Wait::No,
            (Some(span), false) => Wait::AtMost(span),
            (None, false) => Wait::ForEver,
        };
        let wait = if wait == Wait::AtMost(Duration::ZERO) { Wait::No } else { wait };
        Definition::check_name(&self.name)?;
        let (weight, slots) = (self.weight(on_command_line)?, self.slots.wanted()?);
        if let (Weight::Slots(weight), Some(k)) = (weight, slots.k())
            && weight > k
        {
            return Err(UsageError::WeightExceedsK { weight, k });
        }
        let (gate, node) = (self.name.clone(), self.node.named().map(str::to_owned));
        let credentials = self.credentials.absolute();
        Ok(AcquireRequest {
            gate,
            node,
            credentials,
            command: String::new(),
            slots,
            once: None,
            note: self.note.note()?,
            weight,
            wait,
            cgroup: self.cgroup,
            control_group: None,
            grace: self.grace,
            reports_wait: false,
        })
    }

    /// How many slots to take. One of the three options may be given on the command line; without
    /// one, the environment may give one.
    fn weight(&self, on_command_line: impl Fn(&str) -> bool) -> Result<Weight, UsageError> {
        let options = [
            ("permits", self.permits != 1, Weight::Slots(self.permits)),
            ("exclusive", self.exclusive, Weight::All),
            ("shared", self.shared, Weight::Slots(1)),
        ];
        let typed: Vec<_> = options.iter().filter(|(name, ..)| on_command_line(name)).collect();
        let from_anywhere = options.iter().filter(|(_, is_given, _)| *is_given);
        let given = if typed.is_empty() { from_anywhere.collect() } else { typed.clone() };
        match given[..] {
            [] => Ok(Weight::Slots(1)),
            [(.., weight)] => Ok(*weight),
            ref several @ [_, _, ..] => {
                let names = several.iter().map(|(name, ..)| match typed.is_empty() {
                    true => format!("KGATE_OPT_{}", name.to_uppercase()),
                    false => format!("--{name}"),
                });
                Err(UsageError::WeightConflict(names.collect::<Vec<_>>().join(" and ")))
            }
        }
    }
}

/// A command line that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UsageError {
    #[error("--wait and --no-wait contradict each other: give one of them")]
    WaitConflict,
    #[error("{0} contradict each other: give one of them")]
    WeightConflict(String),
    #[error(
        "--exclusive needs a process that holds the permit: with --ttl or --policy hold, use -p K"
    )]
    ExclusiveDurable,
    #[error(transparent)]
    Gate(#[from] BadDefinition),
    #[error("-p {weight} is greater than -k {k}: the request could never be granted")]
    WeightExceedsK { weight: u32, k: u32 },
    #[error(
        "--names has {0} names, and -k is another number or an expression: leave out -k \
         (KGATE_OPT_K and KGATE_OPT_NAMES count too)"
    )]
    NamesAndK(usize),
    #[error("--meta {0} is given twice: give each key once")]
    MetaTwice(String),
    #[error(transparent)]
    Note(#[from] BadNote),
    #[error("the key of --once has 1 to {ONCE_KEY} bytes without control characters")]
    OnceKey,
    #[error("a time to live is between one second and one year")]
    Ttl,
    #[error("--for-pid {0}: there is no such process")]
    NoProcess(i32),
    #[error(
        "the calling process has ended, so the permit would be released at once: name a process \
         with --for-pid, or --for-pid none"
    )]
    NoCaller,
    #[error(
        "`{0}` is no token of kgate acquire: a token has 32 hexadecimal digits, or the form \
         permit-ID-DIGITS"
    )]
    Token(String),
}

/// A text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write 30, 1.5s, 200ms, 5m or 1h")]
pub(crate) struct DurationError(String);

/// Parses a number of seconds, or a number with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
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

    /// Seconds, as in flock, or a unit; anything else is an error.
    #[test]
    fn durations_are_parsed() {
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

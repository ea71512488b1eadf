//! k from the machine: `cores`, `cores/2`, `mem/8GiB`. The node that makes a gate resolves the
//! expression, so that all clients of the gate agree whatever machine they are on.

use std::fs;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::Path;
use std::str::FromStr;

use crate::core::Definition;

/// Where a machine says how much memory it has.
const MEMORY: &str = "/proc/meminfo";
/// Where the control groups (cgroup v2) of a machine are mounted.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// A k that depends on the machine of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KExpression {
    /// The processors that the node may use, divided by a number.
    Cores(NonZeroU32),
    /// The memory that the node may use, divided by a number of bytes.
    Memory(NonZeroU64),
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadExpression {
    /// Not an expression.
    #[error(
        "k = `{}` is neither a number nor an expression: write 3, cores, cores/2 or mem/8GiB",
        .0.chars().take(40).flat_map(char::escape_debug).collect::<String>()
    )]
    Syntax(String),
    /// The machine does not tell.
    #[error("k = `{0}` cannot be resolved: {1}; give a number")]
    Unresolved(String, String),
}

impl FromStr for KExpression {
    type Err = BadExpression;

    fn from_str(text: &str) -> Result<Self, BadExpression> {
        let (what, divisor) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let parsed = match (what, divisor) {
            ("cores", None) => Some(Self::Cores(NonZeroU32::MIN)),
            ("cores", Some(divisor)) => digits(divisor)
                .and_then(|divisor| u32::try_from(divisor.get()).ok())
                .and_then(NonZeroU32::new)
                .map(Self::Cores),
            ("mem", Some(bytes)) => self::bytes(bytes).map(Self::Memory),
            _ => None,
        };
        parsed.ok_or_else(|| BadExpression::Syntax(text.to_owned()))
    }
}

/// A positive number without sign.
fn digits(text: &str) -> Option<NonZeroU64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// A size with its unit: `8GiB`.
fn bytes(text: &str) -> Option<NonZeroU64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (number, shift) =
        units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))?;
    let unit = NonZeroU64::new(1 << shift)?;
    digits(number)?.checked_mul(unit)
}

impl KExpression {
    /// Its value on this machine: at least 1, and at most what a gate may have.
    pub fn resolve(text: &str) -> Result<u32, BadExpression> {
        let unresolved = |why: String| BadExpression::Unresolved(text.to_owned(), why);
        let value = match text.parse()? {
            Self::Cores(divisor) => {
                let cores = std::thread::available_parallelism();
                let cores = cores.map_err(|error| unresolved(error.to_string()))?.get();
                u64::try_from(cores).unwrap_or(u64::MAX) / u64::from(divisor.get())
            }
            Self::Memory(bytes) => {
                let memory = memory(Path::new(MEMORY), Path::new(CONTROL_GROUPS));
                memory.map_err(unresolved)? / bytes.get()
            }
        };
        let most = u64::from(Definition::MOST);
        Ok(u32::try_from(value.clamp(1, most)).unwrap_or(Definition::MOST))
    }
}

/// The memory that this process may use: that of the machine, or less by its control group and the
/// groups above it.
fn memory(machine: &Path, control_groups: &Path) -> Result<u64, String> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let total = mem_total(&read(machine)?);
    let total = total.ok_or_else(|| format!("{} has no MemTotal", machine.display()))?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    Ok(limits(control_groups, own).fold(total, u64::min))
}

/// The bytes in the line `MemTotal:  8048280 kB`.
fn mem_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The limits of a control group and of all above it. One without a limit says `max`; the root has
/// no such file.
fn limits(root: &Path, group: &str) -> impl Iterator<Item = u64> {
    let limit = |group: &Path| {
        let text = fs::read_to_string(group.join("memory.max")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let own = root.join(group);
    let above = own.ancestors().take_while(|group| group.starts_with(root));
    above.filter_map(limit).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use kgate_testkit::TempFolder;

    use super::*;

    /// Cores and memory, with a divisor; anything else is an error that says what is right.
    #[test]
    fn expressions_are_parsed() {
        let cores = |divisor| Ok(KExpression::Cores(NonZeroU32::new(divisor).unwrap()));
        let memory = |bytes| Ok(KExpression::Memory(NonZeroU64::new(bytes).unwrap()));
        assert_eq!("cores".parse(), cores(1));
        assert_eq!("cores/4".parse(), cores(4));
        assert_eq!("mem/8GiB".parse(), memory(8 << 30));
        assert_eq!("mem/512MiB".parse(), memory(512 << 20));
        for wrong in [
            "",
            "core",
            "cores/",
            "cores/0",
            "cores/-1",
            "cores/+2",
            "cores/1.5",
            "cores*2",
            "mem",
            "mem/8",
            "mem/8GB",
            "mem/0GiB",
            "mem/99999999999TiB",
            "cores/2/2",
            " cores",
            "nproc",
        ] {
            let parsed = wrong.parse::<KExpression>();
            assert_eq!(parsed, Err(BadExpression::Syntax(wrong.to_owned())), "{wrong}");
        }
    }

    /// The value is at least 1, and that of `cores` is what the scheduler lets this process use.
    #[test]
    fn expressions_have_a_value() {
        let cores = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
        assert_eq!(KExpression::resolve("cores"), Ok(cores));
        assert_eq!(KExpression::resolve("cores/100000"), Ok(1));
        assert_eq!(KExpression::resolve("mem/1000TiB"), Ok(1));
        assert_eq!(KExpression::resolve("mem/1KiB"), Ok(Definition::MOST));
    }

    /// The smallest limit of the control groups above counts, if it is smaller than the machine.
    #[test]
    fn memory_is_bounded_by_control_groups() {
        let folder = TempFolder::new("k-expression");
        let inner = folder.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        assert_eq!(limits(&folder, "a/b").min(), None);
        fs::write(folder.join("a/memory.max"), "4096\n").unwrap();
        fs::write(inner.join("memory.max"), "8192\n").unwrap();
        assert_eq!(limits(&folder, "a/b").min(), Some(4096));
        assert_eq!(limits(&folder, "").min(), None);
        assert_eq!(mem_total("MemTotal:        8048280 kB\nMemFree: 1 kB\n"), Some(8048280 << 10));
        assert_eq!(mem_total("MemFree: 1 kB\n"), None);
    }
}

//! How many slots a gate has, and what that number comes from: a number, an expression that a node
//! resolved, or the names of the slots.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{bounds, start};

/// The slots of a gate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// Their number.
    pub k: u32,
    /// What the number comes from.
    pub source: KSource,
}

/// What the k of a gate comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum KSource {
    /// A number.
    #[default]
    Number,
    /// An expression such as `cores/2`, resolved by the node that made or changed the gate.
    Expression(String),
    /// The names of the slots in order. k is their number, or 0 while the gate is closed.
    Names(Vec<String>),
}

/// Why slots are not valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BadSlots {
    /// Not the name of a slot.
    #[error(
        "the name of a slot must have 1 to {most} visible ASCII characters without commas: not \
         `{}`",
        .0.escape_debug(),
        most = bounds::SLOT_NAME
    )]
    Name(String),
    /// Two slots have one name.
    #[error("two slots are named `{0}`: each slot of a gate needs a name of its own")]
    DuplicateName(String),
    /// There are too many names.
    #[error(
        "{0} names are too many for one gate: at most {most}; a gate with more slots has no names",
        most = bounds::NAMES
    )]
    TooManyNames(usize),
    /// The names are those of another number of slots.
    #[error(
        "the gate has {names} named slots, so k is {names}, not {k}: `--names` gives other names, \
         `--no-names` drops them"
    )]
    OtherNumber {
        /// The number of names.
        names: usize,
        /// The k.
        k: u32,
    },
    /// An expression would drop the names.
    #[error("the slots of the gate have names, which an expression for k drops: add `--no-names`")]
    DropsNames,
    /// A name would be that of another slot.
    #[error(
        "name `{name}` would move from slot {from} to slot {to} while a holder may use it: close \
         the gate first (`kgate set GATE -k 0`), then name its slots"
    )]
    Moved {
        /// The name.
        name: String,
        /// Its slot.
        from: usize,
        /// Its slot by the new names.
        to: usize,
    },
    /// The text of the expression is too long, or has characters that no expression has.
    #[error(
        "k = `{}` is not an expression: write 3, cores, cores/2 or mem/8GiB",
        .0.escape_debug()
    )]
    Expression(String),
}

impl From<u32> for Slots {
    fn from(k: u32) -> Self {
        Self { k, source: KSource::Number }
    }
}

impl Slots {
    /// Slots with these names.
    pub fn named(names: Vec<String>) -> Self {
        let k = u32::try_from(names.len()).unwrap_or(u32::MAX);
        Self { k, source: KSource::Names(names) }
    }

    /// Checks names and expression.
    pub fn check(&self) -> Result<(), BadSlots> {
        match &self.source {
            KSource::Number => Ok(()),
            KSource::Expression(text) => {
                let allowed = |c: char| c.is_ascii_alphanumeric() || "/.".contains(c);
                let fits = (1..=bounds::SLOT_NAME).contains(&text.len());
                let valid = fits && text.chars().all(allowed);
                if valid { Ok(()) } else { Err(BadSlots::Expression(start(text))) }
            }
            KSource::Names(names) => {
                check_names(names)?;
                if self.k == 0 || usize::try_from(self.k) == Ok(names.len()) {
                    return Ok(());
                }
                Err(BadSlots::OtherNumber { names: names.len(), k: self.k })
            }
        }
    }

    /// Whether a gate with these slots is what a request wants: the same k, an expression of the
    /// same text, or the same names.
    pub fn satisfies(&self, wanted: &Slots) -> bool {
        match &wanted.source {
            KSource::Number => self.k == wanted.k,
            KSource::Expression(_) => self.k == wanted.k || self.source == wanted.source,
            KSource::Names(_) => self == wanted,
        }
    }

    /// The option of `kgate run` that says them.
    pub fn flag(&self) -> &'static str {
        match self.source {
            KSource::Number | KSource::Expression(_) => "-k",
            KSource::Names(_) => "--names",
        }
    }

    /// The option of `kgate set` that gives a gate these slots.
    pub fn option(&self) -> String {
        match &self.source {
            KSource::Number => format!("-k {}", self.k),
            KSource::Expression(text) => format!("-k {text}"),
            KSource::Names(names) => {
                let names = names.join(",");
                let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@+=,".contains(c);
                if names.chars().all(plain) {
                    format!("--names {names}")
                } else {
                    format!("--names '{}'", names.replace('\'', r"'\''"))
                }
            }
        }
    }

    /// The options of `kgate set` that change these slots to the wanted ones.
    pub fn change_to(&self, wanted: &Slots) -> String {
        let drops = !self.source.names().is_empty() && wanted.source.names().is_empty();
        format!("{}{}", if drops { "--no-names " } else { "" }, wanted.option())
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "k = {}", self.k)?;
        match &self.source {
            KSource::Number => Ok(()),
            KSource::Expression(text) => write!(f, " ({text})"),
            KSource::Names(names) => write!(f, " (names {})", names.join(",")),
        }
    }
}

impl KSource {
    /// The names of all slots; none if they have none.
    pub fn names(&self) -> &[String] {
        match self {
            Self::Names(names) => names,
            Self::Number | Self::Expression(_) => &[],
        }
    }

    /// The names of these slots; none if slots have none.
    pub fn names_of(&self, slots: &[u32]) -> Vec<String> {
        let names = self.names();
        let name = |slot: &u32| names.get(usize::try_from(*slot).ok()?).cloned();
        slots.iter().filter_map(name).collect()
    }

    /// Whether every name that stays keeps its slot. A name that moves while its slot is held would
    /// be granted a second time, with its new slot.
    pub fn check_moves(&self, new: &KSource) -> Result<(), BadSlots> {
        let slot_of: BTreeMap<&String, usize> =
            new.names().iter().enumerate().map(|(slot, name)| (name, slot)).collect();
        let moved = self.names().iter().enumerate().find_map(|(from, name)| {
            let to = *slot_of.get(name)?;
            (to != from).then(|| BadSlots::Moved { name: name.clone(), from, to })
        });
        moved.map_or(Ok(()), Err)
    }

    /// Whether a change drops names only where that is said.
    pub fn check_kept(&self, new: &KSource, no_names: bool) -> Result<(), BadSlots> {
        let drops = !self.names().is_empty() && new.expression().is_some();
        if drops && !no_names { Err(BadSlots::DropsNames) } else { Ok(()) }
    }

    /// The expression, if k comes from one.
    pub fn expression(&self) -> Option<&str> {
        match self {
            Self::Expression(text) => Some(text),
            Self::Number | Self::Names(_) => None,
        }
    }

    /// What k comes from after a new number was set without names: names stay, since
    /// [`Slots::check`] refuses any number but theirs and 0; an expression does not.
    #[must_use]
    pub fn after_number(&self) -> Self {
        match self {
            Self::Names(names) => Self::Names(names.clone()),
            Self::Number | Self::Expression(_) => Self::Number,
        }
    }
}

fn check_names(names: &[String]) -> Result<(), BadSlots> {
    if names.len() > bounds::NAMES {
        return Err(BadSlots::TooManyNames(names.len()));
    }
    let valid = |name: &&String| {
        (1..=bounds::SLOT_NAME).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_graphic() && c != ',')
    };
    let mut seen = BTreeSet::new();
    for name in names {
        if !valid(&name) {
            return Err(BadSlots::Name(start(name)));
        }
        if !seen.insert(name) {
            return Err(BadSlots::DuplicateName(name.clone()));
        }
    }
    // A gate without slots has been closed; it is not created so.
    if names.is_empty() { Err(BadSlots::Name(String::new())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Slots {
        Slots::named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn expression(k: u32, text: &str) -> Slots {
        Slots { k, source: KSource::Expression(text.to_owned()) }
    }

    /// Names are visible, unique, bounded, and as many as there are slots.
    #[test]
    fn names_are_checked() {
        assert_eq!(named(&["cuda:0", "cuda:1"]).check(), Ok(()));
        let long = "x".repeat(bounds::SLOT_NAME + 1);
        for wrong in ["", "a b", "a,b", "a\n", "\u{e9}", &long] {
            let checked = named(&["a", wrong]).check();
            assert!(matches!(checked, Err(BadSlots::Name(_))), "{wrong:?}: {checked:?}");
        }
        assert_eq!(named(&["a", "a"]).check(), Err(BadSlots::DuplicateName("a".to_owned())));
        assert!(named(&[]).check().is_err());
        let many: Vec<String> = (0..=bounds::NAMES).map(|slot| slot.to_string()).collect();
        let checked = Slots::named(many).check();
        assert_eq!(checked, Err(BadSlots::TooManyNames(bounds::NAMES + 1)));
        let other = |k| Slots { k, ..named(&["a", "b"]) }.check();
        assert_eq!(other(0), Ok(()), "closed");
        assert_eq!(other(3), Err(BadSlots::OtherNumber { names: 2, k: 3 }));
    }

    /// A gate satisfies its own number, expression or names, whatever else they would give
    /// elsewhere; it does not satisfy other names of the same number.
    #[test]
    fn what_a_gate_satisfies() {
        let gates = [Slots::from(2), expression(2, "cores"), named(&["a", "b"])];
        for (wanted, by) in [
            (Slots::from(2), [true, true, true]),
            (Slots::from(3), [false, false, false]),
            (expression(3, "cores"), [false, true, false]),
            (expression(2, "cores/2"), [true, true, true]),
            (named(&["a", "b"]), [false, false, true]),
            (named(&["b", "a"]), [false, false, false]),
        ] {
            assert_eq!(gates.clone().map(|gate| gate.satisfies(&wanted)), by, "{wanted}");
        }
    }

    /// Names may be replaced, added and dropped in their places; one that moves is found.
    #[test]
    fn names_keep_their_slots() {
        let old = named(&["a", "b"]).source;
        for kept in [&["a", "b"][..], &["a"], &["a", "c"], &["c", "b", "d"]] {
            assert_eq!(old.check_moves(&named(kept).source), Ok(()), "{kept:?}");
        }
        assert_eq!(old.check_moves(&KSource::Number), Ok(()));
        let moved = BadSlots::Moved { name: "b".to_owned(), from: 1, to: 0 };
        assert_eq!(old.check_moves(&named(&["b"]).source), Err(moved));
    }

    /// The command that an error names is safe to paste into a shell.
    #[test]
    fn the_option_is_quoted() {
        assert_eq!(named(&["cuda:0", "b"]).option(), "--names cuda:0,b");
        assert_eq!(named(&["$(x)", "it's"]).option(), r"--names '$(x),it'\''s'");
        assert_eq!(expression(4, "cores/2").option(), "-k cores/2");
        assert_eq!(named(&["a"]).change_to(&3.into()), "--no-names -k 3");
        assert_eq!(named(&["a"]).change_to(&named(&["b"])), "--names b");
        assert_eq!(Slots::from(2).change_to(&3.into()), "-k 3");
    }
}

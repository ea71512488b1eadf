//! What a request says of its gate and of itself: `-k`, `--names`, `--reason`, `--meta`.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;
use kgate_control::state::{BadSlots, Slots};
use kgate_node::core::{BadDefinition, Definition, Note};
use kgate_node::k_expression::{BadExpression, KExpression};
use serde::{Deserialize, Serialize};

use super::options::UsageError;

/// The name of a gate.
pub(crate) fn gate_name(text: &str) -> Result<String, BadDefinition> {
    Definition::check_name(text).map(|()| text.to_owned())
}

/// The slots that the gate must have. Its node resolves an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WantedSlots {
    #[default]
    Any,
    Number(u32),
    Expression(String),
    Names(Vec<String>),
}

impl WantedSlots {
    /// Their number, if it is known here.
    pub(crate) fn k(&self) -> Option<u32> {
        match self {
            Self::Any | Self::Expression(_) => None,
            Self::Number(k) => Some(*k),
            Self::Names(names) => u32::try_from(names.len()).ok(),
        }
    }

    /// The request of a permit with these slots.
    pub(crate) fn apply(&self, gate: kgate_client::Gate) -> kgate_client::Gate {
        match self {
            Self::Any => gate,
            Self::Number(k) => gate.k(*k),
            Self::Expression(text) => gate.k_expression(text),
            Self::Names(names) => gate.names(names.iter().map(String::as_str)),
        }
    }

    /// The same for a durable permit.
    pub(crate) fn apply_durable(
        &self,
        gate: kgate_client::DurableGate,
    ) -> kgate_client::DurableGate {
        match self {
            Self::Any => gate,
            Self::Number(k) => gate.k(*k),
            Self::Expression(text) => gate.k_expression(text),
            Self::Names(names) => gate.names(names.iter().map(String::as_str)),
        }
    }

    /// The options that say the same.
    pub(crate) fn options(&self) -> Vec<String> {
        match self {
            Self::Any => Vec::new(),
            Self::Number(k) => vec!["-k".to_owned(), k.to_string()],
            Self::Expression(text) => vec!["-k".to_owned(), text.clone()],
            Self::Names(names) => vec![format!("--names={}", names.join(","))],
        }
    }
}

/// The value of `-k`: a number, or an expression that the node resolves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum K {
    Number(u32),
    Expression(String),
}

/// A text that is no k.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KError {
    #[error(
        "a request needs at least one slot, and `kgate set NAME -k 0` closes a gate: write the \
         number of slots of the gate, or leave out -k"
    )]
    Zero,
    #[error("k is between {least} and {most}", most = Definition::MOST)]
    Range { least: u32 },
    #[error(transparent)]
    Expression(#[from] BadExpression),
}

fn parse_k(text: &str, least: u32) -> Result<K, KError> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse().ok().filter(|k| (least..=Definition::MOST).contains(k));
        return number.map(K::Number).ok_or(KError::Range { least });
    }
    text.parse::<KExpression>()?;
    Ok(K::Expression(text.to_owned()))
}

/// The k of a request.
pub(crate) fn k(text: &str) -> Result<K, KError> {
    parse_k(text, 1).map_err(|error| if text == "0" { KError::Zero } else { error })
}

/// The k of `kgate set`, where 0 closes the gate.
pub(crate) fn k_or_closed(text: &str) -> Result<K, KError> {
    parse_k(text, 0)
}

/// The value of `--names`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl FromStr for Names {
    type Err = BadSlots;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names: Vec<String> = text.split(',').map(str::to_owned).collect();
        Slots::named(names.clone()).check()?;
        Ok(Self(names))
    }
}

/// A value of `--meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    key: String,
    value: String,
}

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("`{text}` is no pair: write KEY=VALUE"))?;
        Note::check_pair(key, value).map_err(|error| error.to_string())?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

/// The slots of a gate on the command line.
#[derive(Debug, Args)]
pub(crate) struct SlotsArgs {
    /// Number of slots of the gate: a new gate is created with it, and an existing one must have
    /// it; on one machine a gate that nobody uses takes it, unless its slots have names or `kgate
    /// set` or the configuration fixed its k. Or an expression that the node resolves for its
    /// machine: cores, cores/2, mem/8GiB
    #[arg(short = 'k', value_name = "K", value_parser = k, env = "KGATE_OPT_K")]
    pub(crate) k: Option<K>,
    /// Names of all slots, in order, separated by commas; k is their number. A new gate gets them,
    /// and an existing one must have them; on one machine a gate that nobody uses takes them,
    /// unless `kgate set` or the configuration fixed its slots. The command finds its own in
    /// KGATE_SLOT_NAME
    #[arg(long, value_name = "NAMES", env = "KGATE_OPT_NAMES")]
    pub(crate) names: Option<Names>,
}

impl SlotsArgs {
    pub(crate) fn wanted(&self) -> Result<WantedSlots, UsageError> {
        Ok(match (self.k.clone(), self.names.clone()) {
            (None, None) => WantedSlots::Any,
            (Some(K::Number(k)), None) => WantedSlots::Number(k),
            (Some(K::Expression(text)), None) => WantedSlots::Expression(text),
            (None, Some(Names(names))) => WantedSlots::Names(names),
            (Some(k), Some(Names(names))) => {
                if k != K::Number(u32::try_from(names.len()).unwrap_or(u32::MAX)) {
                    return Err(UsageError::NamesAndK(names.len()));
                }
                WantedSlots::Names(names)
            }
        })
    }
}

/// What a request says of itself on the command line.
#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// Why the permit is wanted, shown by kgate status and kgate explain: at most 200 bytes
    #[arg(long, value_name = "TEXT", env = "KGATE_OPT_REASON")]
    pub(crate) reason: Option<String>,
    /// A pair that kgate status and kgate explain show, for example job=17; repeatable, at most 16
    /// times
    #[arg(long, value_name = "KEY=VALUE", env = "KGATE_OPT_META")]
    pub(crate) meta: Vec<Pair>,
}

impl NoteArgs {
    pub(crate) fn note(&self) -> Result<Note, UsageError> {
        let mut meta = BTreeMap::new();
        for Pair { key, value } in self.meta.clone() {
            if meta.insert(key.clone(), value).is_some() {
                return Err(UsageError::MetaTwice(key));
            }
        }
        let note = Note { reason: self.reason.clone().unwrap_or_default(), meta };
        note.check()?;
        Ok(note)
    }
}

/// The options that say the same as a note.
pub(crate) fn note_options(note: &Note) -> Vec<String> {
    let reason = Some(&note.reason).filter(|reason| !reason.is_empty());
    let reason = reason.map(|reason| format!("--reason={reason}"));
    let meta = note.meta.iter().map(|(key, value)| format!("--meta={key}={value}"));
    reason.into_iter().chain(meta).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(k_text: Option<&str>, names: Option<&str>) -> Result<WantedSlots, UsageError> {
        let k = k_text.map(|text| k(text).expect("a k"));
        SlotsArgs { k, names: names.map(|names| names.parse().expect("names")) }.wanted()
    }

    /// k is a number in its range, or an expression; nothing else passes.
    #[test]
    fn k_is_a_number_or_an_expression() {
        assert_eq!(k("3"), Ok(K::Number(3)));
        assert_eq!(k("cores/2"), Ok(K::Expression("cores/2".to_owned())));
        assert_eq!(k_or_closed("0"), Ok(K::Number(0)));
        for wrong in ["0", "65537", "99999999999999999999"] {
            let expected = if wrong == "0" { KError::Zero } else { KError::Range { least: 1 } };
            assert_eq!(k(wrong), Err(expected), "{wrong}");
        }
        for wrong in ["", "-1", "+1", "core", "mem/8"] {
            assert!(matches!(k(wrong), Err(KError::Expression(_))), "{wrong}");
        }
    }

    /// k beside names is their number; names with an expression are refused.
    #[test]
    fn names_fix_k() {
        let names = WantedSlots::Names(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(slots(None, Some("a,b")), Ok(names.clone()));
        assert_eq!(slots(Some("2"), Some("a,b")), Ok(names));
        for k in ["3", "cores"] {
            assert_eq!(slots(Some(k), Some("a,b")), Err(UsageError::NamesAndK(2)), "{k}");
        }
        for wrong in ["", "a,", "a,a", "a b"] {
            assert!(wrong.parse::<Names>().is_err(), "{wrong:?}");
        }
    }

    /// A key is given once, and a pair needs its `=`.
    #[test]
    fn pairs_are_checked() {
        let pair = |text: &str| text.parse::<Pair>();
        assert!(pair("job").is_err() && pair("=1").is_err() && pair("a b=1").is_err());
        let meta = ["job=17", "team=a=b", "job=18"].map(|text| pair(text).expect("a pair"));
        let twice = NoteArgs { reason: None, meta: meta.to_vec() }.note();
        assert_eq!(twice, Err(UsageError::MetaTwice("job".to_owned())));
        let note = NoteArgs { reason: Some("why".to_owned()), meta: meta[..2].to_vec() }.note();
        assert_eq!(
            note_options(&note.expect("a note")),
            ["--reason=why", "--meta=job=17", "--meta=team=a=b"]
        );
    }
}

//! The options of `cargo xtask chaos`.

use anyhow::{Context, Result, bail};

use crate::config::{Mode, Timing};
use crate::planted::Planted;
use crate::schedule::Kind;

pub(crate) const USAGE: &str = "cargo xtask chaos [--seed S] [--seeds N] [--seconds T] \
[--faults KIND,..] [--nodes N] \
[--timing fast|default] [--mode lease|crash-stop] [--planted NAME|all] [--keep-logs] [--again]";

/// The options of a suite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    /// The first seed.
    pub(crate) seed: u64,
    /// Number of seeds.
    pub(crate) seeds: u64,
    pub(crate) seconds: u64,
    /// The kinds that may be drawn; `None`: all that the mode tolerates.
    pub(crate) faults: Option<Vec<Kind>>,
    pub(crate) nodes: Option<u32>,
    pub(crate) timing: Timing,
    pub(crate) mode: Mode,
    pub(crate) planted: Vec<Planted>,
    pub(crate) keep_logs: bool,
    /// Also runs seeds that have a result.
    pub(crate) again: bool,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            seed: 1,
            seeds: 1,
            seconds: 60,
            faults: None,
            nodes: None,
            timing: Timing::parse("fast")?,
            mode: Mode::Lease,
            planted: Vec::new(),
            keep_logs: false,
            again: false,
        };
        let mut one_seed = false;
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value =
                || words.next().copied().with_context(|| format!("{word} takes a value: {USAGE}"));
            match word {
                "--seed" => (options.seed, one_seed) = (number(word, value()?)?, true),
                "--seeds" => options.seeds = number(word, value()?)?,
                "--seconds" => options.seconds = number(word, value()?)?,
                "--faults" => options.faults = kinds(value()?)?,
                "--nodes" => options.nodes = Some(number(word, value()?)?.try_into()?),
                "--timing" => options.timing = Timing::parse(value()?)?,
                "--mode" => options.mode = Mode::parse(value()?)?,
                "--planted" => options.planted = planted(value()?)?,
                "--keep-logs" => options.keep_logs = true,
                "--again" => options.again = true,
                other => bail!("unknown option `{other}`: {USAGE}"),
            }
        }
        if options.mode == Mode::CrashStop {
            options.timing = Timing::CRASH_STOP;
        }
        // A single seed always runs.
        options.again |= one_seed && options.seeds == 1;
        let nodes = options.nodes.unwrap_or(5);
        anyhow::ensure!((3..=9).contains(&nodes), "--nodes {nodes}: choose 3 to 9");
        anyhow::ensure!(options.seconds >= 5, "--seconds {}: at least 5", options.seconds);
        Ok(options)
    }

    /// The kinds that may be drawn.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        self.faults.clone().unwrap_or_else(|| match self.mode {
            Mode::Lease => Kind::all(),
            Mode::CrashStop => Kind::CRASH_STOP.to_vec(),
        })
    }

    /// The names of the kinds, or `all`.
    pub(crate) fn faults_text(&self) -> String {
        let names =
            |kinds: &Vec<Kind>| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
        self.faults.as_ref().map_or("all".into(), names)
    }

    /// The command that runs a seed again.
    pub(crate) fn replay(&self, seed: u64) -> String {
        let mut line = format!("cargo xtask chaos --seed {seed} --seconds {}", self.seconds);
        if self.faults.is_some() {
            line += &format!(" --faults {}", self.faults_text());
        }
        if let Some(nodes) = self.nodes {
            line += &format!(" --nodes {nodes}");
        }
        match self.mode {
            Mode::CrashStop => line += " --mode crash-stop",
            Mode::Lease if self.timing.preset != "fast" => {
                line += &format!(" --timing {}", self.timing.preset)
            }
            Mode::Lease => {}
        }
        line
    }
}

fn number(word: &str, text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{word} takes a number, not `{text}`"))
}

fn kinds(text: &str) -> Result<Option<Vec<Kind>>> {
    if text == "all" {
        return Ok(None);
    }
    let mut kinds = text.split(',').map(str::parse).collect::<Result<Vec<Kind>>>()?;
    kinds.sort_unstable();
    kinds.dedup();
    Ok(Some(kinds))
}

fn planted(text: &str) -> Result<Vec<Planted>> {
    if text == "all" {
        return Ok(Planted::ALL.iter().map(|(planted, _)| *planted).collect());
    }
    Ok(vec![Planted::parse(text)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The printed command means the same run.
    #[test]
    fn a_replay_is_the_same_run() {
        for line in [
            "--seeds 50 --seconds 20",
            "--faults kill,partition --nodes 5",
            "--mode crash-stop --seconds 10",
            "--timing default",
        ] {
            let options = Options::parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
            let replay = options.replay(7);
            let words: Vec<&str> = replay.split(' ').skip(3).collect();
            let again = Options::parse(&words).unwrap();
            assert_eq!(again, Options { seed: 7, seeds: 1, again: true, ..options }, "{replay}");
        }
    }

    /// An invalid option is refused with the valid ones.
    #[test]
    fn invalid_options() {
        let why = |line: &str| {
            Options::parse(&line.split(' ').collect::<Vec<_>>()).unwrap_err().to_string()
        };
        assert!(why("--faults fire").contains("partition"));
        assert!(why("--planted fire").contains("two-holders"));
        assert!(why("--seed").contains("takes a value"));
        assert!(why("--seed x").contains("takes a number"));
        assert!(why("--nodes 2").contains("3 to 9"));
        assert!(why("--fire").contains("unknown option"));
    }
}

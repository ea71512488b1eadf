//! The experiments that come with kgate. Their files are in `experiments/`; copy one, change it,
//! and run the copy.

use std::path::Path;

use super::file::Experiment;

/// Name and text of each experiment, in the order in which `kgate lab run all` runs them.
pub const ALL: &[(&str, &str)] = &[
    ("robust-2012", include_str!("../../../../experiments/robust-2012.toml")),
    ("vcube-2018", include_str!("../../../../experiments/vcube-2018.toml")),
    ("timer-free-2009", include_str!("../../../../experiments/timer-free-2009.toml")),
    ("stabilizing-2014", include_str!("../../../../experiments/stabilizing-2014.toml")),
    ("tree-token-2019", include_str!("../../../../experiments/tree-token-2019.toml")),
    ("all-protocols", include_str!("../../../../experiments/all-protocols.toml")),
    ("which-protocol", include_str!("../../../../experiments/which-protocol.toml")),
];

/// Finds an experiment: a built-in one by its name, or a file by its path.
pub fn load(wanted: &str) -> Result<Experiment, String> {
    if let Some((_, text)) = ALL.iter().find(|(name, _)| *name == wanted) {
        return Experiment::parse(text).map_err(|error| format!("{wanted}: {error}"));
    }
    let path = Path::new(wanted);
    if path.extension().is_none() && !path.exists() {
        let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
        return Err(format!(
            "there is no experiment '{wanted}': choose one of {}, all, or a file such as \
             mine.toml",
            names.join(", ")
        ));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {wanted}: {error}"))?;
    let experiment = Experiment::parse(&text).map_err(|error| format!("{wanted}: {error}"))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    // Finished runs are stored under this name in every folder of results.
    if stem != experiment.name && !path.ends_with(super::store::EXPERIMENT) {
        return Err(format!(
            "{wanted}: the file name must match the experiment's name '{}': rename the file to \
             {0}.toml, or change the name to {stem}",
            experiment.name
        ));
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every built-in experiment is valid, and its name is the one in the list.
    #[test]
    fn all_can_be_read() {
        for (name, _) in ALL {
            assert_eq!(load(name).expect("an experiment").name, *name);
        }
    }
}

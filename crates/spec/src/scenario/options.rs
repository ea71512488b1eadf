//! The header line `options` of a scenario, for numbered slots. Defaults are not written.

use kgate_core::{Dissemination, MembershipSource, SlotOptions, Span};

/// Parses `flat membership=join defer=off ..`, in any order, each once.
pub(super) fn parse(words: &[&str]) -> Option<SlotOptions> {
    let mut options = SlotOptions::default();
    for (place, word) in words.iter().enumerate() {
        let name =
            |word: &str| word.split_once('=').map_or(word.to_owned(), |(name, _)| name.to_owned());
        let said = words[..place].iter().any(|other| name(other) == name(word));
        let known = take(&mut options, word);
        known.filter(|()| !said)?;
    }
    Some(options)
}

fn take(options: &mut SlotOptions, word: &str) -> Option<()> {
    let off = |value: &str| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let count = |value: &str| value.parse::<u32>().ok().filter(|&count| count > 0);
    match word.split_once('=').unwrap_or((word, "")) {
        ("flat", "") => options.dissemination = Dissemination::Flat,
        ("tree", "") => options.dissemination = Dissemination::Tree,
        ("membership", "log") => options.membership = MembershipSource::Log,
        ("membership", "join") => options.membership = MembershipSource::Join,
        ("defer", value) => options.defer = off(value)?,
        ("quiet", value) => options.quiet = off(value)?,
        ("keep", value) => options.keep = off(value)?,
        ("cohort", value) => options.cohort = value.parse().ok()?,
        ("batch", value) => options.batch = count(value)?,
        ("lanes", value) => options.lanes = count(value)?,
        ("pass", value) => options.pass = off(value)?,
        ("witness", value) => options.witness = off(value)?,
        ("ask-again", "") => options.ask_again = Some(Span::UNIT),
        _ => return None,
    }
    Some(())
}

/// The options that differ from the defaults.
pub(super) fn words(options: &SlotOptions) -> Vec<String> {
    let usual = SlotOptions::default();
    let switch = |name: &str, on: bool, usual: bool| {
        (on != usual).then(|| format!("{name}={}", if on { "on" } else { "off" }))
    };
    let number =
        |name: &str, number: u32, usual: u32| (number != usual).then(|| format!("{name}={number}"));
    let words = [
        match options.dissemination {
            Dissemination::Auto => None,
            Dissemination::Flat => Some("flat".into()),
            Dissemination::Tree => Some("tree".into()),
        },
        match options.membership {
            MembershipSource::Log => None,
            MembershipSource::Join => Some("membership=join".into()),
        },
        switch("defer", options.defer, usual.defer),
        switch("quiet", options.quiet, usual.quiet),
        switch("keep", options.keep, usual.keep),
        number("cohort", options.cohort.into(), usual.cohort.into()),
        number("batch", options.batch, usual.batch),
        number("lanes", options.lanes, usual.lanes),
        switch("pass", options.pass, usual.pass),
        switch("witness", options.witness, usual.witness),
        options.ask_again.map(|_| "ask-again".into()),
    ];
    words.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed options are parsed as the same; defaults are not printed; unknown and repeated
    /// options are rejected.
    #[test]
    fn options_are_parsed_as_they_are_printed() {
        let all = "tree membership=join defer=off quiet=off keep=off cohort=0 batch=2 lanes=3 \
                   pass=on witness=on ask-again";
        for line in [all, "flat", ""] {
            let words_of: Vec<&str> = line.split_whitespace().collect();
            let options = parse(&words_of).expect(line);
            assert_eq!(words(&options).join(" "), line);
        }
        assert_eq!(
            parse(&["defer=on", "membership=log", "cohort=4"]),
            Some(SlotOptions::default())
        );
        for line in [
            "round",
            "defer",
            "defer=maybe",
            "cohort=-1",
            "lanes=0",
            "ask-again=3",
            "flat flat",
            "keep=on keep=off",
        ] {
            assert_eq!(parse(&line.split_whitespace().collect::<Vec<_>>()), None, "{line}");
        }
    }
}

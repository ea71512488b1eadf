//! `kgate sim` with numbered slots: rejected options, and that the replay command has every option.

mod common;

use common::{kgate, stderr, stdout};
use kgate_testkit::TempFolder;

/// Options of numbered slots are rejected for other protocols, each flag by its name; impossible
/// values say what is possible.
#[test]
fn options_of_slots_are_rejected() {
    for flag in [
        "--clients 2",
        "--weight-max 2",
        "--withdraw 0.1",
        "--patience 3",
        "--resize 2@5",
        "--dissemination flat",
        "--membership join",
        "--defer off",
        "--quiet off",
        "--keep off",
        "--cohort 0",
        "--batch 2",
        "--lanes 2",
        "--ask-again 5",
    ] {
        let output = kgate(&format!("sim --protocol raymond {flag}"));
        let name = flag.split(' ').next().unwrap_or_default();
        let says = format!("raymond has no numbered slots: leave out {name}, or choose slots");
        assert_eq!(output.status.code(), Some(2), "{flag}");
        assert!(stderr(&output).contains(&says), "{flag}: {}", stderr(&output));
    }
    for (line, says) in [
        ("--patience 3", "add --withdraw"),
        ("--loss 0.1", "add --ask-again"),
        ("--weight-max 4", "choose at most 3"),
        ("--weight-max 2 --lanes 2 --resize 2@5", ""),
        ("--resize 2", "write k@time, for example 2@300"),
        ("--resize 2@1001", "before the run's end at 1000"),
        ("--crash 1@5..9 --down kept", "leave out --down kept"),
        ("-n 2 -k 1 --membership join --crash 0@5..9,1@20..25", "some process must never crash"),
        ("--keep maybe", "possible values: on, off"),
        ("--swarm --clients 2", "leave out --clients"),
        ("--swarm --keep off", "leave out --keep"),
    ] {
        let output = kgate(&format!("sim --protocol slots {line}"));
        let code = if says.is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
    }
}

/// The printed command replays the same run, whatever the options; and the oracle finds no
/// violation in its trace.
#[test]
fn the_replay_is_complete() {
    let folder = TempFolder::new("slots");
    let trace = folder.join("run.ndjson");
    for line in [
        "-n 6 -k 4 --load high --hold 1 --clients 2 --weight-max 3 --withdraw 0.2 --patience 4 \
         --resize 2@40,5@60 --random-recoveries 6",
        "-n 6 -k 4 --load high --hold 1 --dissemination tree --membership join \
         --crash 1@9..12,2@30 --defer off --quiet off --keep off --cohort 0",
        "-n 5 -k 6 --load high --hold 1 --lanes 3 --weight-max 2 --batch 4 --ask-again 3 \
         --loss 0.1 --duplicates 0.1",
    ] {
        let first = kgate(&format!(
            "sim --protocol slots --duration 100 {line} --trace {}",
            trace.display()
        ));
        assert!(first.status.success(), "{line}: {}", stderr(&first));
        let page = stdout(&first);
        let hash = |page: &str| page.split("hash ").nth(1).map(|rest| rest[..18].to_owned());
        let replay = page.split("replay      kgate ").nth(1).expect("a command").trim().to_owned();
        let again = kgate(&replay);
        assert_eq!(hash(&stdout(&again)), hash(&page), "{replay}");
        let checked = kgate(&format!("trace check {}", trace.display()));
        assert!(checked.status.success(), "{line}: {}{}", stdout(&checked), stderr(&checked));
    }
}

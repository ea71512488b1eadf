//! `kgate check --protocol slots` on the command line.

mod common;

use common::{json, kgate, stderr};

/// `slots` holds within small bounds, with every option of its own.
#[test]
fn check_explores_numbered_slots() {
    for bounds in [
        "-n 2 -k 2 --entries 2 --ask-inside --weight-max 2",
        "-n 2 -k 1 --restarts 1 --withdrawals 1 --channels unordered",
        "-n 2 -k 1 --restarts 1 --membership join",
        "-n 3 -k 1 --entries 1,1,0 --crashes 1 --dissemination tree --defer off --quiet off \
         --keep off --cohort 0",
        "-n 2 -k 2 --weight-max 2 --resize 1,2",
        "-n 2 -k 2 --entries 2,1 --clients 2 --batch 2",
        "-n 2 -k 1 --ask-again --expiries 1 --loss 1",
    ] {
        let found = json(&format!("check --protocol slots {bounds} --json"));
        assert_eq!(found["complete"], true, "{bounds}");
        let properties = found["properties"].as_array().unwrap();
        assert!(properties.iter().all(|property| property["holds"] == true), "{bounds}: {found}");
    }
}

/// A missing rule is found, and the simulator agrees under the same options.
#[test]
fn a_rule_left_out_is_found() {
    let off = "--channels unordered --defer off --quiet off --keep off --cohort 0";
    for bounds in [
        "-n 3 --as-printed S1",
        "-n 2 --restarts 1 --as-printed S2",
        "-n 2 --restarts 2 --as-printed S4 --property increasing-fences",
        "-n 2 --restarts 1 --as-printed S6",
        "-n 2 --withdrawals 1 --as-printed S7",
        "-n 3 --resize 2 --quiet on --as-printed S9 --property free-slots",
        "-n 2 --entries 2,1 --ask-inside --keep on --as-printed S10 --property granted",
        "-n 2 -k 2 --weight-max 2 --resize 1 --as-printed S11 --property granted",
        "-n 3 --crashes 1 --dissemination tree --as-printed S13 --property granted",
        "-n 2 --as-printed SP1 --property order-of-stamps",
        "-n 2 --as-printed SP2 --property at-most-k",
    ] {
        // A repeated option is rejected: the options of a row replace those in `off`.
        let mut words: Vec<&str> = off.split(' ').collect();
        for flag in ["--quiet", "--keep"].iter().filter(|flag| bounds.contains(**flag)) {
            let place = words.iter().position(|word| word == flag).expect("it is there");
            words.drain(place..place + 2);
        }
        let found =
            kgate(&format!("check --protocol slots {bounds} {} --shortest", words.join(" ")));
        assert_eq!(found.status.code(), Some(1), "{bounds}: {}", stderr(&found));
        assert!(stderr(&found).contains("the simulator agrees"), "{bounds}: {}", stderr(&found));
    }
}

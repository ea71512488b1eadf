//! `kgate check --protocol home` on the command line.

mod common;

use common::{json, kgate, stderr};

/// `home` holds within small bounds, with every option that it has.
#[test]
fn check_explores_the_log() {
    for bounds in [
        "-n 2 -k 2 --entries 2 --clients 2 --weight-max 2",
        "-n 2 --entries 2 --withdrawals 1 --keep off --cohort 0",
        "-n 3 --entries 0,1 --crashes 1 --adoptions 1 --faulty 0",
        "-n 2 --restarts 1 --durable 1",
        "-n 3 --entries 0,0,1 --suspicions 1 --faulty 0",
        "-n 3 --entries 0,0,1 --drains 1 --adoptions 2 --faulty 0",
        "-n 3 --entries 0,0,1 --evictions 1 --client-deaths 1",
        "-n 2 -k 2 --resize 1,2 --drains 1",
        "-n 2 --loss 1 --expiries 1",
        "-n 2 --duplicates 1",
    ] {
        let found = json(&format!("check --protocol home {bounds} --json"));
        assert_eq!(found["complete"], true, "{bounds}");
        let properties = found["properties"].as_array().unwrap();
        assert!(properties.iter().all(|property| property["holds"] == true), "{bounds}: {found}");
    }
}

/// A missing rule is found, whether the protocol keeps it or its driver; the schedule is printed.
#[test]
fn a_rule_left_out_is_found() {
    for (bounds, property, step) in [
        ("--drains 1 --faulty 0 --as-printed H5", "has-one-holder", "log: p0 is drained"),
        ("--withdrawals 1 --as-printed H6C", "leaves-no-state", "p1 withdraws"),
        ("--durable 1 --as-printed H14", "has-one-holder", "proposes that the log hold permit 0"),
        ("--crashes 1 --as-printed H18", "has-one-holder", "is evicted"),
    ] {
        let found = kgate(&format!(
            "check --protocol home --entries 0,1 {bounds} --property {property} --shortest"
        ));
        let text = String::from_utf8(found.stdout.clone()).unwrap();
        assert_eq!(found.status.code(), Some(1), "{bounds}: {text}{}", stderr(&found));
        assert!(text.contains("DOES NOT HOLD") && text.contains(step), "{bounds}: {text}");
    }
}

/// What has no meaning is refused: options of the log elsewhere, and of schedules here.
#[test]
fn options_without_meaning_are_refused() {
    for (line, expected) in [
        ("check --protocol slots --drains 1", "slots follows no agreed log: leave out --drains"),
        ("check --client-deaths 1", "follows no agreed log: leave out --client-deaths"),
        ("check --protocol slots --pass on", "slots follows no agreed log: leave out --pass"),
        ("sim --protocol slots --witness on", "slots follows no agreed log: leave out --witness"),
        ("sim --pass on", "follows no agreed log: leave out --pass"),
        ("check --protocol home --channels unordered", "--channels has no meaning for home"),
        ("check --protocol home --lanes 1", "--lanes has no meaning for home"),
        ("check --protocol home --fair", "--fair has no meaning for home"),
        ("check --protocol home --faulty 3", "--faulty 3 with n = 3: processes are 0 .. 2"),
        ("check --protocol stabilizing --graph path --drains 1", "--drains has no meaning"),
    ] {
        let refused = kgate(line);
        assert_eq!(refused.status.code(), Some(2), "{line}");
        assert!(stderr(&refused).contains(expected), "{line}: {}", stderr(&refused));
    }
}

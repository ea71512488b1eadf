//! `kgate check` and `kgate scenario` by the real binary: output, exit codes and files.

mod common;

use common::{json, kgate, stderr, stdout};
use kgate_testkit::TempFolder;

/// Every schedule: the repaired protocol holds, the printed one is caught with a schedule, and a
/// cut-off search says so.
#[test]
fn schedules_are_explored() {
    let found = json("check --protocol raymond -n 3 -k 1 --entries 2 --json");
    assert_eq!((&found["unique"], &found["complete"]), (&25_674.into(), &true.into()));
    let holds = |found: &serde_json::Value| {
        found["properties"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|property| property["holds"] == true)
    };
    assert!(
        holds(&found) && holds(&json("check --protocol tree-token -n 3 -k 1 --crashes 1 --json"))
    );
    let output = kgate("check --protocol vcube -n 2 -k 1 --entries 2 --as-printed D1 --shortest");
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(text.contains("DOES NOT HOLD") && text.contains("p1 requests"), "{text}");
    let cut = json("check --protocol raymond -n 4 -k 2 --entries 3 --max-states 5000 --json");
    assert_eq!(cut["complete"], false);
    for (line, says) in [
        ("check -n 3 -k 3", "choose k below n"),
        ("check -n 3 --crashes 3", "leave at least one process alive"),
        ("check --as-printed D1", "raymond: it has none"),
        ("check --restarts 1", "do not recover from a crash"),
        ("check --graph path", "leave out --graph"),
        ("check --tolerate 1", "leave out --tolerate"),
        ("check --ask-inside", "takes one request at a time"),
        ("check --weight-max 2", "leave out --weight-max"),
        ("check --resize 2,1", "leave out --resize"),
        ("check --dissemination tree", "leave out --dissemination"),
        ("check --membership join", "leave out --membership"),
        ("check --protocol vcube --defer off", "leave out --defer"),
        ("check --quiet off", "leave out --quiet"),
        ("check --keep off", "leave out --keep"),
        ("check --cohort 1", "leave out --cohort"),
        ("check --batch 2", "leave out --batch"),
        ("check --lanes 2", "leave out --lanes"),
        ("check --clients 2", "leave out --clients"),
        ("check --ask-again --expiries 1", "leave out --ask-again"),
        ("check --protocol slots --ask-again", "--expiries"),
        ("check --protocol slots --restarts 1 --down kept", "leave out --down kept"),
        ("check --protocol slots -k 1 --weight-max 2", "such a request could never be granted"),
        (
            "check --protocol slots -k 2 --lanes 2 --weight-max 2",
            "such a request could never be granted",
        ),
        ("check --protocol slots -n 2 -k 3", "raise --entries"),
        ("check --entries 1,1,1,1", "give at most one per process"),
        ("check --symmetry", "compares names"),
        ("check --symmetry --fair", "cannot be used with"),
        ("check -k 2 --entries 1,0", "raise --entries"),
        ("check --property speed", "choose one of at most k slots in use;"),
        ("check --protocol tree-token --graph ring", "ring is not a tree"),
    ] {
        let output = kgate(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
    }
}

/// Liveness is not checked beyond a protocol's claims, and the output says so; a counterexample is
/// played in the setting of the search.
#[test]
fn claims_and_settings_are_kept() {
    for (bounds, note) in
        [("--loss 1", "once a message is lost"), ("--crashes 1", "with more than 0 crashes")]
    {
        let found = kgate(&format!("check --protocol raymond -n 3 {bounds}"));
        assert!(
            found.status.success() && stdout(&found).contains(note),
            "{bounds}: {}",
            stdout(&found)
        );
    }
    let cut = stdout(&kgate("check --fair --max-states 100"));
    assert!(cut.contains("not searched: the search before it was stopped"), "{cut}");
    for line in [
        "--protocol timer-free -n 3 -k 2 --entries 2 --crashes 1 --as-printed T3",
        "--protocol tree-token -n 4 --graph random --as-printed R1",
        "--protocol timer-free -n 3 --entries 2,1 --as-printed T1 --property order",
        "--protocol robust -n 3 --as-printed D9 --loss 1 --property at-most-k",
    ] {
        let found = kgate(&format!("check {line}"));
        assert_eq!(found.status.code(), Some(1), "{line}: {}", stderr(&found));
        assert!(stderr(&found).contains("the simulator agrees"), "{line}: {}", stderr(&found));
    }
}

/// A counterexample is played by the simulator, and saved as a scenario and as a diagram.
#[test]
fn a_counterexample_is_written_down() {
    let folder = TempFolder::new("check");
    let (scenario, diagram) = (folder.join("t1.txt"), folder.join("t1.svg"));
    let files = format!("--scenario {} --diagram {}", scenario.display(), diagram.display());
    let found =
        kgate(&format!("check --protocol timer-free -n 2 --as-printed t1 --shortest {files}"));
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    assert!(
        stderr(&found).contains("the simulator agrees: at most k slots in use"),
        "{}",
        stderr(&found)
    );
    let played = kgate(&format!("scenario {}", scenario.display()));
    assert_eq!(played.status.code(), Some(0), "{}", stdout(&played));
    assert!(
        stdout(&played).contains("6 steps") && stdout(&played).contains("correct with the repair"),
        "{}",
        stdout(&played)
    );
    assert!(std::fs::read_to_string(&diagram).expect("a diagram").contains("VIOLATED at 6"));
    let other = folder.join("none.txt");
    let none = kgate(&format!("check --protocol timer-free -n 2 --scenario {}", other.display()));
    assert!(
        none.status.success() && stderr(&none).contains("no counterexample") && !other.exists()
    );
    drop(folder);
    let nowhere = kgate(&format!("check --protocol timer-free -n 2 {files}"));
    assert_eq!(nowhere.status.code(), Some(2), "{}", stderr(&nowhere));
}

/// Every configuration, in the state model: the corrected rules hold; the printed ones are caught,
/// with the start configuration; options without meaning there, and sizes that are too large, are
/// rejected.
#[test]
fn configurations_are_explored() {
    let check = "check --protocol stabilizing";
    let found = json(&format!("{check} -n 3 -k 2 --graph path --json"));
    assert_eq!((&found["unique"], &found["complete"]), (&13_824.into(), &true.into()));
    let properties = found["properties"].as_array().expect("a list");
    assert!(
        properties.len() == 7 && properties.iter().all(|property| property["holds"] == true),
        "{found}"
    );
    for (line, says) in [
        ("-n 3 -k 1 --graph star --as-printed C1", "7  p1(a8) moves"),
        ("-n 3 -k 2 --graph star --as-printed C7", "p1 T=Tok S=p0 P=p0 L=1"),
        ("-n 3 -k 2 --graph ring --as-printed C8", "3  p2(a6) moves"),
        ("-n 2 --as-printed C5 --property recovers", "repeated for ever"),
    ] {
        let output = kgate(&format!("{check} {line}"));
        assert_eq!(output.status.code(), Some(1), "{line}: {}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("DOES NOT HOLD") && text.contains(says), "{line}: {text}");
    }
    let one = json(&format!("{check} -n 2 --property tokens --json"));
    assert_eq!(one["properties"].as_array().map(Vec::len), Some(1));
    for (line, says) in [
        ("-n 3 -k 3", "choose k below n"),
        ("-n 3 --entries 2", "--entries has no meaning"),
        ("-n 3 --channels fifo", "--channels has no meaning"),
        ("-n 3 --fair", "--fair has no meaning"),
        ("-n 3 --scenario alone.txt", "--scenario has no meaning"),
        ("-n 3 --property deadlock", "choose one of some process can move"),
        ("-n 4 --graph complete", "choose fewer processes"),
        ("-n 4 --graph ring --max-memory 1", "3 GiB"),
    ] {
        let output = kgate(&format!("{check} {line}"));
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
    }
}

/// A scenario is played: exit 0 if it passes; 1 with the difference if it fails, which --rewrite
/// repairs; 2 if it is malformed or cannot be played. Trace and diagram are written.
#[test]
fn scenarios_are_played_and_compared() {
    let folder = TempFolder::new("scenario");
    let path = |name: &str| folder.join(name).display().to_string();
    let file = path("alone.txt");
    let scenario = "# Alone.\nprotocol raymond\nprocesses 2\nk 1\nexpect correct\n\n\
                    p0 requests\np0 -> p1: request\n";
    std::fs::write(&file, scenario).expect("written");
    let output = kgate(&format!("scenario {file}"));
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("+    p0 acquires"), "{}", stdout(&output));
    assert_eq!(kgate(&format!("scenario --rewrite {file}")).status.code(), Some(0));
    let (trace, diagram) = (path("alone.ndjson"), path("alone.svg"));
    let output = kgate(&format!("scenario {file} --trace {trace} --diagram {diagram}"));
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(kgate(&format!("trace check {trace}")).status.code(), Some(0));
    assert!(std::fs::read_to_string(&diagram).expect("a diagram").starts_with("<svg "));
    let report = json(&format!("scenario --json {file}"));
    assert_eq!((&report["passed"], &report["steps"]), (&true.into(), &2.into()));
    let told = std::fs::read_to_string(&file).expect("rewritten");
    std::fs::write(&file, told.replace("p0 -> p1: request", "p0 -> p1: reply")).expect("written");
    let output = kgate(&format!("scenario {}", folder.display()));
    assert_eq!(output.status.code(), Some(2));
    let says = stdout(&output);
    assert!(
        says.contains("line 9: `p0 -> p1: reply` is not possible here")
            && says.contains("p0 -> p1: request"),
        "{says}"
    );
    std::fs::write(&file, "protocol raymond\nsleep\n").expect("written");
    let output = kgate(&format!("scenario {file}"));
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    assert!(stderr(&output).contains("line 2: `sleep` is not a header"));
    assert_eq!(kgate("scenario no-such-file.txt").status.code(), Some(2));
}

/// A scenario that cannot be played exits with 2, one that fails with 1; of several files each is
/// reported, and 2 outweighs 1.
#[test]
fn an_impossible_scenario_is_a_usage_error() {
    let folder = TempFolder::new("unplayed");
    let put = |name: &str, header: &str, steps: &str| {
        let file = folder.join(name);
        let text = format!("protocol {header}\nexpect correct\n\n{steps}");
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    };
    for (header, steps, says) in [
        ("raymond\nprocesses 0\nk 1", "", "0"),
        ("raymond\nprocesses 2\nk 2", "", "nothing is excluded"),
        ("raymond\nprocesses 2\nk 1\ngraph path", "", "leave out `graph`"),
        ("tree-token\nprocesses 4\nk 1\ngraph 0-1 2-3", "", "must be connected"),
        ("tree-token\nprocesses 2\nk 1\nroot p7", "", "p7 is not a process"),
        ("timer-free\nprocesses 4\nk 2\ntolerate 9", "", "`tolerate 9`"),
        ("stabilizing\nprocesses 2\nk 1\nmodel state\nstate p1 T=R S=- P=- L=1", "", "of p1"),
        ("raymond\nprocesses 2\nk 1", "p0 releases\n", "is not possible here"),
    ] {
        let output = kgate(&format!("scenario {}", put("a.txt", header, steps)));
        assert_eq!(output.status.code(), Some(2), "{header}: {}", stdout(&output));
        assert!(stdout(&output).contains(says), "{header}: {}", stdout(&output));
    }
    put("b.txt", "raymond\nsleep", "");
    put("c.txt", "raymond\nprocesses 2\nk 1", "p0 requests\n");
    let output = kgate(&format!("scenario {}", folder.display()));
    assert_eq!(output.status.code(), Some(2));
    let says = stdout(&output);
    assert!(says.contains("a.txt: line ") && says.contains("c.txt: FAIL"), "{says}");
    assert!(says.contains("3 scenarios, 1 of them FAIL, 2 not played"), "{says}");
    assert!(stderr(&output).contains("`sleep` is not a header"), "{}", stderr(&output));
}

/// No output overwrites the scenario or another output.
#[test]
fn a_scenario_is_not_overwritten() {
    let folder = TempFolder::new("twice");
    let (at, scenario) =
        (folder.display(), "protocol raymond\nprocesses 2\nk 1\nexpect correct\n\nend\n");
    std::fs::write(folder.join("s.txt"), scenario).expect("written");
    for files in [
        format!("--diagram {at}/s.txt"),
        format!("--trace {at}/./s.txt"),
        format!("--trace {at}/x --diagram {at}/./x"),
    ] {
        let output = kgate(&format!("scenario {at}/s.txt {files}"));
        assert_eq!(output.status.code(), Some(2), "{files}");
        assert!(stderr(&output).contains("is named twice"), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(folder.join("s.txt")).expect("it is there"), scenario);
        assert!(!folder.join("x").exists());
    }
}

//! The command line: real processes, exit codes, stdout and stderr.

mod common;

use std::process::Command;

use common::{json, kgate, stderr, stdout};
use kgate_testkit::TempFolder;

/// Usage errors exit with 2, print nothing on stdout, and say what is wrong and what to do.
#[test]
fn usage_errors_say_what_to_do() {
    for (line, says) in [
        ("sim -k 0", "k is 0"),
        ("sim -n 1 -k 1", "at least 2 processes"),
        ("sim -n 4 -k 4", "nothing is excluded; choose k below n"),
        (
            "sim --protocol paxos",
            "unknown protocol 'paxos': choose one of raymond, bas, vcube, robust",
        ),
        ("sim --crash 16@5", "crash of p16: with n = 16 the processes are p0 .. p15"),
        ("sim --crash 3@5,3@6", "crash while it is down"),
        ("sim --crash 3@5..6", "do not come back"),
        ("sim --protocol tree-token --crash 3@6..5", "with T1 before T2"),
        ("sim --random-recoveries 1", "do not come back"),
        ("sim --start random", "does not recover from corrupted memory"),
        ("sim --protocol tree-token --corrupt 3@5", "does not recover from corrupted memory"),
        ("sim --protocol stabilizing --corrupt 16@5", "p0 .. p15"),
        ("sim --ask-inside", "one request at a time"),
        ("sim --protocol tree-token --ask-inside --hold 0", "time would stand still"),
        ("sim --protocol tree-token --ask-inside --think 1", "leave out --think and --rho"),
        ("sim --protocol tree-token --down kept", "add --random-recoveries"),
        (
            "sim --protocol tree-token --random-recoveries 100 --down-for 1000000",
            "shorter --down-for",
        ),
        ("sim --protocol tree-token -n 4294967295", "edges"),
        ("sim --protocol stabilizing -n 100000 --graph complete", "edges"),
        ("sim --protocol stabilizing -n 0", "n is 0"),
        ("sim --protocol stabilizing --forged 1", "add --start random"),
        ("sim --protocol stabilizing --detect-interval 0", "interval of 0"),
        ("sim --protocol stabilizing --corrupt 3@5000", "the run ends at 1000"),
        (
            "sim --protocol stabilizing --model state --hold 1",
            "--hold has no meaning in the state model",
        ),
        ("sim -n 3 -k 1 --crash 0@1,1@1,2@1", "nobody would be left"),
        ("sim --protocol timer-free -k 3 --tolerate 3", "choose at most 2"),
        ("sim --tolerate 1", "leave out --tolerate"),
        ("sim --refresh 1", "leave out --refresh"),
        ("sim --protocol timer-free --refresh 0", "give a longer time"),
        ("sim --rho x", "not a ratio"),
        ("sim --rho 1 --think 1", "cannot be used with"),
        ("sim --think gaussian=1", "gaussian=MEAN,DEVIATION"),
        ("sim --latency grid=3x3,intra=0.1..0.2,inter=1..2", "give -n 9"),
        ("sim --graph ring", "leave out --graph"),
        ("sim --protocol tree-token --graph ring", "ring is not a tree: choose one of radial"),
        ("sim --protocol tree-token --graph nosuchfile", "name a file of edges, or one of radial"),
        ("sim --protocol stabilizing --daemon central", "add --model state"),
        ("sim --protocol stabilizing --rounds 5", "--model state"),
        ("sim --model state", "has no state model"),
        ("sim --protocol tree-token --model state", "has no state model"),
        ("sim --protocol stabilizing --model state --random-crashes 1", "has no crashes"),
        ("sim --crash 3", "15@5"),
        (
            "sim --protocol bas --as-printed D1",
            "'D1' is not a published defect of bas: choose one of D4",
        ),
        ("sim --protocol raymond --as-printed D4", "raymond: it has none"),
        ("sim --as-printed D6", "D1, D2, D3, D4, D5"),
        ("sim --load first=17", "17 requesters with n = 16"),
        ("sim --load only=3+99", "p99 asks: with n = 16 the processes are p0 .. p15"),
        ("sim --load first=0", "first=M"),
        ("sim --random-crashes 14", "at most 13"),
        ("sim --detect-timeout 1.9", "give at least 2"),
        ("sim --detect-interval 0", "interval of 0"),
        ("sim --latency exponential=1", "--detector oracle=T"),
        ("sim --latency fast", "constant=0.8"),
        ("sim --crash 3@1001", "the run ends at 1000"),
        ("sim --entries 0", "0 is not in"),
        ("sim --runs 2 --trace x", "leave out --trace or --runs"),
        ("sim --hold 18446744073", "at most 1000000000 time units"),
        ("sim --protocol bas -n 1000000", "choose a smaller n"),
        ("sim --protocol raymond --detector oracle=1", "leave out --detector"),
        ("sim --hold 1s", "decimal time units"),
        ("sim --seed x", "0x2a"),
        ("sim --runs 0", "0 is not in"),
        (
            "sim --protocol raymond -n 4000000 -k 3 --load high",
            "choose a smaller n or fewer requesters",
        ),
        (
            "sim --protocol bas -n 3 -k 2 --load high --hold 0 --think 0 --random-crashes 1",
            "stand still",
        ),
        ("sim --trace /nowhere/at/all", "cannot write the trace"),
        ("sim --pause 1@5..9", "give --detector oracle=T"),
        ("sim --protocol timer-free --pause 1@5..9", "leave out --pause and --partition"),
        ("sim --protocol raymond --pause 16@5..9", "p0 .. p15"),
        ("sim --protocol raymond --pause 1@9..5", "T1 before T2"),
        ("sim --protocol raymond --pause 1@1000..1001", "before the run's end at 1000"),
        ("sim --protocol raymond --pause 1@5..9,1@8..12", "while it is stopped"),
        ("sim --protocol raymond --pause 1@5", "not a pause"),
        ("sim --protocol raymond -n 2 -k 1 --partition 0+1@5..9", "leave some on either side"),
        ("sim --protocol raymond --partition 0>1@5..9", "not a partition"),
        ("sim --protocol raymond --loss 0.1", "lose nothing"),
        ("sim --duplicates 1.5", "not a probability"),
        ("sim --protocol stabilizing --loss 2", "not a probability"),
        (
            "sim --protocol stabilizing --model state --loss 0.1",
            "--loss has no meaning in the state model",
        ),
        ("sim --swarm --seeds 0", "0 is not in"),
        ("sim --swarm -n 5", "a swarm generates every setting: leave out -n"),
        ("sim --swarm --crash 3@5", "leave out --crash"),
        ("sim --seeds 5", "--seeds needs --swarm"),
        ("sim --save x", "--save needs --swarm"),
        ("sim --swarm --protocol paxos", "unknown protocol 'paxos'"),
        ("sim --swarm --protocol raymond --as-printed D2", "raymond: it has none"),
        ("sim --swarm --as-printed X1", "not a published defect of any protocol"),
        ("simulate", "unrecognized subcommand"),
    ] {
        let output = kgate(line);
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{line}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{line}: {}", stdout(&output));
    }
}

/// The JSON of a run has every field that is promised, and its parts fit together.
#[test]
fn json_is_complete() {
    let report = json("sim --protocol vcube -n 16 --random-crashes 2 --duration 200 --json");
    for field in [
        "protocol",
        "n",
        "k",
        "seed",
        "duration",
        "requests",
        "grants",
        "obtaining",
        "obtaining_from_broadcast",
        "messages",
        "traffic",
        "messages_per_grant",
        "max_in_use",
        "violations",
        "events",
        "wall_seconds",
        "events_per_second",
        "hash",
    ] {
        assert!(!report[field].is_null(), "{field} is missing");
    }
    for part in ["mean", "p50", "p99", "max"] {
        assert!(report["obtaining"][part].is_f64(), "{part}");
    }
    let kinds = &report["messages"]["by_kind"];
    let count = |kind: &str| kinds[kind].as_u64().unwrap_or_else(|| panic!("{kind} is missing"));
    assert_eq!(report["messages"]["total"], count("tree") + count("reply") + count("ack"));
    let sent = report["traffic"]["sent_mean"].as_f64().expect("a mean") * 16.0;
    assert_eq!(report["messages"]["total"].as_f64(), Some(sent), "each was sent by one process");
    assert!(
        count("test") > 0 && count("test_reply") > 0,
        "the detector's messages are listed, not summed"
    );
    assert_eq!(report["violations"], serde_json::json!([]));
}

/// A run that is not correct: exit 1, one JSON object on stdout, the replay on stderr; and the
/// replay shows the same run.
#[test]
fn a_violation_can_be_replayed() {
    let line = "sim --protocol vcube -n 4 -k 2 --load high --latency uniform=0.1..2 --hold 1 \
                --as-printed D2 --json";
    let output = kgate(line);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    let violations = report["violations"].as_array().expect("a list");
    assert!(
        violations.iter().any(|violation| violation["property"] == "at most k slots in use"),
        "{violations:?}"
    );
    let words = stderr(&output);
    let replay = words
        .lines()
        .find_map(|line| line.strip_prefix("REPRODUCE WITH: kgate "))
        .expect("a replay");
    let again = json(&format!("{replay} --json"));
    assert_eq!(again["hash"], report["hash"]);
    assert_eq!(again["violations"], report["violations"]);
}

/// The command that a plain run prints gives the same run again, whatever the options.
#[test]
fn the_printed_command_gives_the_same_run() {
    for line in [
        "sim",
        "sim --protocol bas -n 13 -k 2 --load high --random-crashes 4 --latency uniform=0.2..1 \
         --fifo --duration 50 --seed 9",
        "sim --protocol robust -n 9 -k 1 --load first=4 --entries 3 --send-cost staggered \
         --receive-cost queue --crash 8@3",
        "sim --protocol timer-free -n 9 -k 3 --tolerate 1 --refresh 5 --load high --hold 1 \
         --rho 2.5 --send 0 --receive 0 --latency grid=3x3,intra=0.01..0.02,inter=0.5..0.6 \
         --crash 3@20",
        "sim --protocol tree-token -n 9 --graph random --load high --hold 1 --random-recoveries 5 \
         --down-for 3 --down kept --crash 3@20..25,4@30 --think gaussian=1,0.5",
        "sim --protocol tree-token -n 9 --load high --hold 1 --ask-inside",
        "sim --protocol stabilizing -n 9 --graph star --start random --corrupt 3@500 --forged 1 \
         --refresh 4",
        "sim --protocol vcube -n 9 --load high --detector oracle=2 --pause 3@5..9,4@7..8 \
         --partition 0+1@20..30,2>@40..50",
        "sim --protocol stabilizing -n 9 --load high --loss 0.2 --duplicates 0.05 \
         --partition >3@100..200",
        "sim --protocol vcube -n 9 --detector oracle=2 --random-crashes 2 --send-cost flat \
         --transmit 0.3 --engine heap",
    ] {
        let page = stdout(&kgate(line));
        let find = |label: &str| {
            page.lines().find_map(|l| l.strip_prefix(label)).expect(label).trim().to_owned()
        };
        let hash = find("simulated").rsplit(' ').next().expect("a hash").to_owned();
        let replay = find("replay").strip_prefix("kgate ").expect("a command").to_owned();
        assert_eq!(json(&format!("{replay} --json"))["hash"], hash, "{line}");
    }
}

/// Both engines, the same hash, by the command line.
#[test]
fn engines_agree() {
    let hash = |engine| {
        json(&format!("sim -n 20 --load high --duration 100 --json --engine {engine}"))["hash"]
            .clone()
    };
    assert_eq!(hash("bucket"), hash("heap"));
}

/// Several runs: one JSON object with all of them, seeds counted up; a flag can also come from the
/// environment.
#[test]
fn several_runs_and_the_environment() {
    let runs = json("sim --duration 50 --runs 3 --seed 41 --json");
    let seeds: Vec<_> =
        runs["runs"].as_array().expect("a list").iter().map(|run| run["seed"].clone()).collect();
    assert_eq!(seeds, [41, 42, 43]);
    let output = Command::new(env!("CARGO_BIN_EXE_kgate"))
        .args(["sim", "--json", "--duration", "50"])
        .env("KGATE_OPT_PROCESSES", "9")
        .output()
        .expect("kgate runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["n"], 9);
}

/// A trace is a header and one JSON object per line, and contains every grant.
#[test]
fn a_trace_tells_the_run() {
    let folder = TempFolder::new("trace");
    let file = folder.join("run.ndjson");
    let path = file.to_str().expect("a path");
    let report = json(&format!("sim -n 5 -k 2 --duration 30 --crash 4@7 --json --trace {path}"));
    let text = std::fs::read_to_string(&file).expect("a trace");
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    assert_eq!(lines[0]["trace"], 1);
    let measured =
        |line: &&serde_json::Value| line["t"].as_u64().is_some_and(|t| t <= 30_000_000_000);
    let count =
        |event: &str| lines.iter().filter(measured).filter(|line| line["event"] == event).count();
    assert_eq!(
        (report["grants"].clone(), report["suspicions"].clone()),
        (count("granted").into(), count("suspected").into())
    );
    assert_eq!(count("crash"), 1);
    let times: Vec<u64> =
        lines[1..].iter().map(|line| line["t"].as_u64().expect("a time")).collect();
    assert!(times.is_sorted());
}

/// A refused command leaves an existing trace as it is.
#[test]
fn a_refused_command_does_not_empty_a_file() {
    let folder = TempFolder::new("keep");
    let file = folder.join("run.ndjson");
    std::fs::write(&file, "precious").expect("a file");
    let output =
        kgate(&format!("sim --random-crashes 99 --trace {}", file.to_str().expect("a path")));
    let kept = std::fs::read_to_string(&file).expect("a file");
    assert_eq!((output.status.code(), kept.as_str()), (Some(2), "precious"));
}

/// Output that cannot be written is an error, 125; a closed pipe is none.
#[cfg(target_os = "linux")]
#[test]
fn full_and_closed_outputs() {
    let to_full = |line: &str| {
        let full =
            std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
        let status =
            Command::new(env!("CARGO_BIN_EXE_kgate")).args(line.split(' ')).stdout(full).status();
        status.expect("kgate runs").code()
    };
    assert_eq!(to_full("protocols"), Some(125));
    assert_eq!(to_full("sim --duration 10"), Some(125));
    assert_eq!(kgate("sim --duration 10 --trace /dev/full").status.code(), Some(125));
    let mut child = Command::new(env!("CARGO_BIN_EXE_kgate"))
        .args(["sim", "--duration", "10", "--runs", "300"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("kgate runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("an end");
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

/// `kgate protocols` lists every protocol with its citation, in both forms.
#[test]
fn protocols_are_listed() {
    let list = json("protocols --json");
    let names: Vec<_> = list["protocols"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|p| p["name"].as_str())
        .collect();
    assert_eq!(
        names.join(" "),
        "raymond bas vcube robust timer-free tree-token stabilizing slots home"
    );
    let text = stdout(&kgate("protocols"));
    for word in ["raymond", "JPDC 2018", "--as-printed D7", "n-1 crashes"] {
        assert!(text.contains(word), "{word}");
    }
}

/// Help teaches: examples, and what each option means.
#[test]
fn help_teaches() {
    let text = stdout(&kgate("sim --help"));
    for word in ["Examples:", "vcube-2018", "--as-printed", "oracle=T", "seed"] {
        assert!(text.contains(word), "{word}");
    }
}

/// The state model prints what its paper counts, from the same command.
#[test]
fn the_state_model_counts_rounds() {
    let line =
        "sim --protocol stabilizing --model state --graph ring -n 9 -k 2 --start random --json";
    let report = json(line);
    for field in [
        "rounds",
        "normal_at_round",
        "stabilized_at_round",
        "tokens_max_after_stabilization",
        "max_in_use",
        "waves",
    ] {
        assert!(report[field].is_u64(), "{field}: {report}");
    }
    assert_eq!(
        report,
        json(line)
            .as_object_mut()
            .map(|again| {
                again["wall_seconds"] = report["wall_seconds"].clone();
                serde_json::Value::Object(again.clone())
            })
            .expect("an object")
    );
    let replay =
        stdout(&kgate("sim --protocol stabilizing --model state --daemon central --corrupt 3@20"));
    let command =
        replay.lines().find_map(|line| line.strip_prefix("replay      kgate ")).expect("a command");
    let hash = |page: &str| page.split("hash ").nth(1).map(|rest| rest[..18].to_owned());
    assert_eq!(hash(&replay), hash(&stdout(&kgate(command))), "{command}");
}

/// A graph from a file is the graph that is run.
#[test]
fn a_graph_from_a_file() {
    let folder = TempFolder::new("graph");
    let file = folder.join("edges");
    std::fs::write(&file, "root 2\n0 1\n1 2\n").expect("a file");
    let path = file.display();
    let report = json(&format!(
        "sim --protocol tree-token -n 3 -k 1 --load first=1 --entries 1 --graph {path} --json"
    ));
    assert_eq!(report["messages"]["by_kind"]["token"], 2, "{report}");
    let output = kgate(&format!("sim --protocol tree-token -n 4 -k 1 --graph {path}"));
    assert!(stderr(&output).contains("give -n 3"), "{}", stderr(&output));
}

/// The oracle over traces gives the simulator's verdict from the file alone, for every protocol,
/// with and without its published defects.
#[test]
fn a_trace_is_checked_by_itself() {
    let folder = TempFolder::new("checker");
    let file = folder.join("run.ndjson");
    let path = file.display();
    for line in [
        "--protocol raymond -n 6 -k 2 --load high --hold 1",
        "--protocol bas -n 8 -k 2 --load high --hold 1 --random-crashes 3",
        "--protocol vcube -n 4 -k 2 --load high --latency uniform=0.1..2 --hold 1 --as-printed D2",
        "--protocol robust -n 3 -k 1 --load high --hold 1 --as-printed D9",
        "--protocol timer-free -n 2 -k 1 --load high --hold 1 --as-printed T1",
        "--protocol tree-token -n 9 -k 2 --load high --hold 1 --random-recoveries 6 --down-for 3 \
         --random-crashes 2",
        "--protocol tree-token -n 8 -k 1 --load high --hold 2 --as-printed R1",
        "--protocol stabilizing -n 6 -k 2 --load high --hold 1 --start random",
    ] {
        let report = json(&format!("sim {line} --duration 80 --json --trace {path}"));
        let output = kgate(&format!("trace check {path} --json"));
        let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let safe = |value: &serde_json::Value| {
            value["violations"]
                .as_array()
                .expect("a list")
                .iter()
                .all(|v| v["property"] != "at most k slots in use")
        };
        assert_eq!(safe(&report), safe(&verdict), "{line}: {}", stderr(&output));
        assert_eq!(
            output.status.code(),
            Some(i32::from(!safe(&report))),
            "{line}: {}",
            stderr(&output)
        );
        assert_eq!(verdict["max_in_use"], report["max_in_use"], "{line}");
        assert_eq!(verdict["waiting"], serde_json::json!([]), "{line}");
        assert!(verdict["grants"].as_u64() >= report["grants"].as_u64(), "{line}");
    }
    std::fs::write(&file, "nothing\n").expect("a file");
    let output = kgate(&format!("trace check {path}"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("not the header of a trace"), "{}", stderr(&output));
    assert_eq!(kgate("trace check nosuchfile").status.code(), Some(2));
}

/// A swarm prints one line per protocol; one with a failure exits with 1 and saves a seed whose
/// command replays it; one that shows nothing is no success.
#[test]
fn a_swarm_finds_saves_and_prints() {
    let parent = TempFolder::new("seeds");
    let folder = parent.join("saved");
    let good = kgate(&format!("sim --swarm --seeds 8 --save {}", folder.display()));
    assert_eq!(good.status.code(), Some(0), "{}", stderr(&good));
    assert_eq!(
        stdout(&good)
            .lines()
            .filter(|line| line.contains("8 runs") && line.ends_with("PASS"))
            .count(),
        9,
        "one line per protocol"
    );
    assert!(!folder.exists(), "nothing to save");
    let line = format!(
        "sim --swarm --protocol vcube --as-printed D2 --seed 30 --seeds 1 --save {}",
        folder.display()
    );
    let found = kgate(&format!("{line} --json"));
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    let summary: serde_json::Value = serde_json::from_slice(&found.stdout).expect("one object");
    let failure = &summary["swarm"][0]["failures"][0];
    assert_eq!(failure["property"], "at most k slots in use");
    let command = failure["command"]
        .as_str()
        .and_then(|line| line.strip_prefix("kgate "))
        .expect("a command");
    let again = json(&format!("{command} --json"));
    let violations = again["violations"].as_array().expect("a list");
    assert!(
        violations.iter().any(|violation| violation["property"] == failure["property"]),
        "{again}"
    );
    let text = std::fs::read_to_string(folder.join("vcube-d2-at-most-k-slots-in-use-0x1e.txt"))
        .expect("a saved seed");
    assert!(
        text.contains(command) && text.contains("# expect: VIOLATED at most k slots in use"),
        "{text}"
    );
    let calm = (1..100)
        .map(|seed| kgate(&format!("sim --swarm --protocol raymond --seeds 1 --seed {seed}")));
    let calm = calm
        .into_iter()
        .find(|output| output.status.code() == Some(1))
        .expect("some seed has no fault");
    assert!(stdout(&calm).contains("NOTHING SHOWN: no fault happened"), "{}", stdout(&calm));
}

/// A swarm does not begin if it cannot save; and a save that fails later loses no finding.
#[test]
fn a_swarm_prints_before_it_saves() {
    let folder = TempFolder::new("unsaved");
    std::fs::write(folder.join("file"), "").expect("written");
    let swarm = "sim --swarm --protocol vcube --as-printed D2 --seed 30 --seeds 1 --save";
    for path in ["file", "file/below"] {
        let output = kgate(&format!("{swarm} {}/{path}", folder.display()));
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()), "{path}");
        assert!(stderr(&output).contains("cannot save to"), "{}", stderr(&output));
    }
    // A folder has the name of the file.
    std::fs::create_dir_all(folder.join("vcube-d2-at-most-k-slots-in-use-0x1e.txt"))
        .expect("a folder");
    let output = kgate(&format!("{swarm} {}", folder.display()));
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("REPRODUCE WITH: kgate sim"), "{}", stderr(&output));
    assert!(stdout(&output).contains("at most k slots in use"), "{}", stdout(&output));
}

/// `kgate help CMD` is the help of CMD, and `kgate version` the version.
#[test]
fn help_and_version_are_commands() {
    for (command, flag) in [
        ("help run", "run --help"),
        ("help members add", "members add --help"),
        ("version", "--version"),
    ] {
        let (one, other) = (kgate(command), kgate(flag));
        assert_eq!(one.status.code(), Some(0), "{command}");
        assert!(!stdout(&one).is_empty());
        assert_eq!(stdout(&one), stdout(&other), "{command}");
    }
}

/// Every command has a page, with its options, and no page shows the environment or a date.
#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = kgate_testkit::TempFolder::new("man");
    let pages = folder.join("man1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kgate"));
    command.args(["man", "--dir"]).arg(&pages).env("KGATE_OPT_NODE", "of-the-builder:7400");
    assert!(command.status().expect("kgate runs").success());
    let help = stdout(&kgate("--help"));
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' ')?.0.into())
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let page = std::fs::read_to_string(pages.join(format!("kgate-{command}.1")));
        let page = page.unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}: {page}");
        assert!(!page.contains("of-the-builder"), "{command}");
        let title = page.lines().find(|line| line.starts_with(".TH")).expect("a title");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(title.trim_end(), format!(".TH kgate-{command} 1 {version} kgate"));
    }
    assert!(pages.join("kgate.1").exists() && pages.join("kgate-members-add.1").exists());
}

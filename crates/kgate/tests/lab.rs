//! `kgate lab` on the command line: real processes, some of which are killed half-way.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{json, kgate, stderr, stdout};
use kgate_testkit::TempFolder;

/// Runs of some milliseconds each, so that a kill falls between them.
const EXPERIMENT: &str = r#"
name = "mine"
title = "Two protocols"
about = "For tests."

[[grid]]
name = "high"
seeds = 8
set = { k = 3, load = "high", duration = 100 }
vary = { protocol = ["raymond", "vcube"], processes = [8, 16, 24] }
quick = { seeds = 1 }

[[grid]]
name = "explored"
tool = "check"
set = { processes = 3, k = 1 }
vary.protocol = ["raymond"]

[[plot]]
name = "use"
title = "Slots in use"
grid = "high"
x = "time"
y = "slots_in_use.series"
series = "protocol"
x_label = "time"
y_label = "slots"
"#;

/// Whenever `kgate lab run` is killed, the same command resumes it, and in the end every table is
/// the same to the byte.
#[test]
fn a_killed_experiment_resumes() {
    let folder = TempFolder::new("killed");
    let file = file(&folder, EXPERIMENT);
    let whole = folder.join("whole");
    let done = lab(&["run", &file, "--jobs", "1", "--out"], &whole);
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(stdout(&done).starts_with("mine: 49 runs, 49 of them new in "), "{}", stdout(&done));
    let part = folder.join("part");
    let runs = part.join("mine/runs.ndjson");
    let mut kills = 0;
    for least in [1, 10, 25] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kgate"));
        command.args(["lab", "run", &file, "--jobs", "2", "--out"]).arg(&part);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("kgate");
        // Wait until there are so many lines, or until the command has ended.
        while lines(&runs) < least && child.try_wait().expect("a child").is_none() {
            std::thread::yield_now();
        }
        kills += usize::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
    assert!(kills > 0, "none was killed half-way: give the experiment more runs");
    let done = lab(&["run", &file, "--out"], &part);
    assert!(done.status.success(), "{}", stderr(&done));
    assert_eq!(files(&part.join("mine")), files(&whole.join("mine")));
}

/// Two merged shards give the same files as one command.
#[test]
fn shards_are_joined() {
    let folder = TempFolder::new("joined");
    let file = file(&folder, EXPERIMENT);
    let dirs = ["whole", "one", "two", "both"].map(|name| folder.join(name));
    assert!(lab(&["run", &file, "--quick", "--out"], &dirs[0]).status.success());
    assert!(lab(&["run", &file, "--quick", "--shard", "1/2", "--out"], &dirs[1]).status.success());
    assert!(lab(&["run", &file, "--quick", "--shard", "2/2", "--out"], &dirs[2]).status.success());
    let [one, two] = [&dirs[1], &dirs[2]].map(|dir| dir.to_str().expect("a path"));
    let done = lab(&["merge", one, two, "--out"], &dirs[3]);
    assert!(
        stdout(&done).starts_with("mine: 7 runs of 2 parts; "),
        "{}{}",
        stdout(&done),
        stderr(&done)
    );
    assert_eq!(files(&dirs[3].join("mine")), files(&dirs[0].join("mine")));
}

/// The command in a table replays the run of its row.
#[test]
fn a_command_of_the_table_makes_the_run_again() {
    let folder = TempFolder::new("again");
    // Without the model checker, for which twelve processes are too many.
    let file = file(
        &folder,
        &EXPERIMENT.replace("set = { processes = 3, k = 1 }", "").replace("\"check\"", "\"sim\""),
    );
    let set =
        ["run", &file, "--quick", "--set", "n=12", "--set", "latency=uniform=0.5..1", "--out"];
    let done = lab(&set, &folder.join("out"));
    assert!(done.status.success(), "{}", stderr(&done));
    assert!(
        stderr(&done).contains("grid high: processes = 12 instead of 8, 16, 24"),
        "{}",
        stderr(&done)
    );
    let rows = std::fs::read_to_string(folder.join("out/mine/runs.ndjson")).expect("runs");
    let row: serde_json::Value =
        serde_json::from_str(rows.lines().next().expect("a run")).expect("JSON");
    let command = row["command"].as_str().expect("a command");
    let report = json(&format!("{} --json", command.trim_start_matches("kgate ")));
    assert_eq!((&report["hash"], &report["n"]), (&row["hash"], &12.into()));
    assert_eq!(report["grants"].as_f64(), row["measured"]["grants"].as_f64());
}

/// An invalid experiment exits with 2 and an error that names the place and what to do; the
/// environment does not affect a run.
#[test]
fn invalid_experiments_are_rejected() {
    let folder = TempFolder::new("refused");
    let out = folder.join("out");
    for (old, new, says) in [
        ("k = 3", "unit = 3", "grid high: kgate sim has no flag --unit: see kgate sim --help"),
        ("k = 3", "k = 8", "high, processes = 8, protocol = raymond, seed 1: k = 8 with n = 8"),
        ("load = \"high\"", "load = \"much\"", "invalid value 'much' for '--load <LOAD>'"),
        (
            "name = \"mine\"",
            "name = \"yours\"",
            "rename the file to yours.toml, or change the name to mine",
        ),
        ("seeds = 8", "seeds =", "TOML parse error"),
    ] {
        let file = file(&folder, &EXPERIMENT.replacen(old, new, 1));
        let done = lab(&["run", &file, "--jobs", "1", "--out"], &out);
        assert_eq!(done.status.code(), Some(2), "{new}");
        assert!(stderr(&done).contains(says), "{new}: {}", stderr(&done));
    }
    let done = lab(&["run", "nosuch", "--out"], &out);
    assert!(
        done.status.code() == Some(2) && stderr(&done).contains("there is no experiment 'nosuch'")
    );
    let file = file(&folder, EXPERIMENT);
    let mut deaf = Command::new(env!("CARGO_BIN_EXE_kgate"));
    deaf.args(["lab", "run", &file, "--quick", "--out"])
        .arg(&out)
        .env("KGATE_OPT_SEND", "nonsense");
    assert!(deaf.output().expect("kgate").status.success());
}

/// A published defect that shows a violation is a row that is not correct, as expected: exit 0.
#[test]
fn a_published_defect_may_be_seen() {
    let folder = TempFolder::new("wrong");
    let grid =
        "name = \"mine\"\ntitle = \"\"\nabout = \"\"\n[[grid]]\nname = \"d1\"\ntool = \"check\"\n";
    let set =
        "set = { protocol = \"vcube\", processes = 2, k = 1, entries = 2, as-printed = \"D1\" }\n";
    let done = lab(&["run", &file(&folder, &format!("{grid}{set}")), "--out"], &folder.join("out"));
    assert!(done.status.success(), "{}", stderr(&done));
    let rows = std::fs::read_to_string(folder.join("out/mine/runs.ndjson")).expect("runs");
    assert!(rows.contains("\"correct\":false"), "{rows}");
}

/// Results are compared: verdicts as text and as Markdown, with a false claim not reproduced; a
/// ranking; no difference to themselves; reports are written again.
#[test]
fn results_are_compared() {
    let folder = TempFolder::new("compared");
    let fact = |id: &str, is: &str| {
        format!(
            "\n[[fact]]\nid = \"{id}\"\nplace = \"here\"\n\
             claim = \"raymond has {is} messages than vcube\"\n\
             check = [{{ grid = \"high\", metric = \"messages_per_grant\", \
             left.protocol = \"raymond\", is = \"{is}\", right.protocol = \"vcube\" }}]\n"
        )
    };
    let file =
        file(&folder, &format!("{EXPERIMENT}{}{}", fact("A1", "less"), fact("A2", "greater")));
    let out = folder.join("out");
    assert!(lab(&["run", &file, "--quick", "--out"], &out).status.success());
    let verdicts = stdout(&lab(&["compare"], &out));
    assert!(
        verdicts.contains("A1  reproduced") && verdicts.contains("A2  not reproduced"),
        "{verdicts}"
    );
    let markdown = stdout(&lab(&["compare", "--markdown"], &out));
    assert!(
        markdown.starts_with("### mine\n\n2 published facts: 1 reproduced, 1 not reproduced"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| A2 |") && markdown.contains("| **not reproduced** |"),
        "{markdown}"
    );
    let ranking = stdout(&lab(&["compare", "--by", "messages_per_grant"], &out));
    let place = |name: &str| ranking.find(name).expect("ranked");
    assert!(place(" 1  raymond") < place(" 2  vcube"), "{ranking}");
    let itself = stdout(&lab(&["compare", out.to_str().expect("a path")], &out));
    assert!(itself.starts_with("mine: no difference in "), "{itself}");
    let page = out.join("mine/report.html");
    let before = std::fs::read(&page).expect("a page");
    std::fs::remove_file(&page).expect("a page");
    assert!(lab(&["report"], &out).status.success());
    assert_eq!(std::fs::read(&page).expect("a page"), before);
}

fn lab(words: &[&str], out: &Path) -> std::process::Output {
    kgate(&format!("lab {} {}", words.join(" "), out.display()))
}

fn lines(path: &Path) -> usize {
    std::fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

/// Every file below a directory, without the lock.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = PathBuf::from(path.file_name().expect("a name"));
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else if name != Path::new(".lock") {
            found.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// The experiment as a file.
fn file(folder: &Path, text: &str) -> String {
    let path = folder.join("mine.toml");
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

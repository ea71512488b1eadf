//! What a slot is: names, k from the machine, what requests say of themselves, and keys that are
//! used at most once.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use kgate_client::{Client, Once};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::{Cluster, TIMING};
use crate::fixture::{Home, Process, block_on, until};

const SHOW: &str = "echo $KGATE_SLOT_NAME $KGATE_SLOT_NAMES $KGATE_K";

/// The status of a gate, from the user's node or from the named one.
fn status(home: &Home, node: &[&str], gate: &str) -> Value {
    let words = [&["status", gate, "--json"], node].concat();
    let status: Value = serde_json::from_slice(&home.run(&words).stdout).unwrap();
    status["gates"][0].clone()
}

/// Runs a command that holds until its input ends.
fn hold(home: &Home, words: &[&str]) -> Process {
    let mark = home.0.join("holds");
    let _ = std::fs::remove_file(&mark);
    let script = ["--", "sh", "-c", "touch holds; read line"];
    let mut command = home.kgate(&[words, &script[..]].concat());
    let holder = Process::start(command.stdin(Stdio::piped()));
    until("a holder", || mark.exists());
    holder
}

/// A command finds the name of its slot; names are shown; other names are a conflict while the gate
/// is used and taken when it is not; k is their number.
#[test]
fn slots_have_names() {
    let home = Home::new("names");
    let run = |words: &[&str]| home.said(&[&["run", "gpu"], words].concat());
    let show = |words: &[&str]| run(&[words, &["-c", SHOW]].concat());
    let three = ["--names", "cuda:0,cuda:1,cuda:2"];
    let (code, said, error) = show(&three);
    assert_eq!((code, said.as_str()), (Some(0), "cuda:0 cuda:0 3"), "{error}");
    let mut holder = hold(&home, &[&["run", "gpu", "-p", "2"], &three[..]].concat());
    assert_eq!(show(&["-k", "3"]).1, "cuda:2 cuda:2 3", "the same number");
    let gate = status(&home, &[], "gpu");
    assert_eq!(gate["names"], json!(["cuda:0", "cuda:1", "cuda:2"]));
    let shown = home.said(&["status", "gpu"]).1;
    assert!(shown.contains("slot 0 (cuda:0),1 (cuda:1)"), "{shown}");
    let explained = home.said(&["explain", "gpu"]).1;
    assert!(explained.contains("k = 3 (names cuda:0, cuda:1, cuda:2)"), "{explained}");
    let (code, _, error) = show(&["--names", "a,b,c"]);
    assert_eq!(code, Some(123), "{error}");
    assert!(error.ends_with("`kgate set gpu --names a,b,c`"), "{error}");
    let (code, _, error) = show(&["-k", "4"]);
    assert!(code == Some(123) && error.ends_with("`kgate set gpu --no-names -k 4`"), "{error}");
    for wrong in [&["--names", "a,b", "-k", "3"][..], &["--names", "a,,b"], &["--names", "a,a"]] {
        assert_eq!(show(wrong).0, Some(2), "{wrong:?}");
    }
    // Inside of the permit the names are those of its slots; a wrong expectation is a conflict.
    let nested = format!("{} run gpu --names cuda:0,cuda:1 -c '{SHOW}'", crate::fixture::KGATE);
    assert_eq!(show(&["--names", "cuda:0,cuda:1"]).0, Some(123));
    holder.close_input();
    assert_eq!(holder.code(), Some(1), "its input ended");
    let (code, said, error) = run(&["--names", "cuda:0,cuda:1", "-p", "2", "-c", &nested]);
    assert_eq!((code, said.as_str()), (Some(0), "cuda:0 cuda:0,cuda:1 2"), "{error}");
}

/// An operator changes the names, k stays their number unless they are dropped, and what was set
/// survives the node.
#[test]
fn names_are_set_and_dropped() {
    let home = Home::new("set-names");
    let set = |words: &[&str]| home.said(&[&["set", "gpu"], words].concat());
    assert_eq!(set(&["--names", "a,b"]).0, Some(0));
    let (code, _, error) = set(&["-k", "3"]);
    assert!(code == Some(2) && error.contains("--no-names"), "{code:?} {error}");
    home.kill_node();
    let show = |words: &[&str]| home.said(&[&["run", "gpu", "-c", SHOW], words].concat());
    assert_eq!(home.said(&["run", "gpu", "-c", SHOW]).1, "a a 2", "a restart changes nothing");
    assert_eq!(show(&[]).0, Some(0));
    assert_eq!(set(&["-k", "0"]).0, Some(0), "closed");
    assert_eq!(home.code(&["run", "gpu", "true"]), Some(2));
    assert_eq!(set(&["-k", "2"]).0, Some(0), "open again");
    assert_eq!(status(&home, &[], "gpu")["names"], json!(["a", "b"]));
    assert_eq!(set(&["-k", "cores"]).0, Some(2));
    assert_eq!(set(&["--no-names", "-k", "mem/1000TiB"]).0, Some(0));
    assert_eq!(status(&home, &[], "gpu")["k_expression"], json!("mem/1000TiB"));
    assert_eq!(set(&["--names", "a,b"]).0, Some(0));
    assert_eq!(set(&["--no-names", "-k", "3"]).0, Some(0));
    assert_eq!(home.said(&["run", "gpu", "-c", SHOW]).1, "3");
}

/// A node that was killed knows the names of a gate whose slots are in use.
#[test]
fn names_survive_the_node() {
    let home = Home::new("names-killed");
    let mut holder = hold(&home, &["run", "gpu", "--names", "a,b"]);
    home.kill_node();
    assert_eq!(home.said(&["run", "gpu", "--names", "a,b", "-c", SHOW]).1, "b b 2");
    assert_eq!(home.code(&["run", "gpu", "--names", "b,a", "true"]), Some(123));
    holder.close_input();
    assert_eq!(holder.code(), Some(1), "its input ended");
}

/// k from the machine is resolved by the node, shown with its expression, and compared by it.
#[test]
fn k_from_the_machine() {
    let home = Home::new("expressions");
    let cores = std::thread::available_parallelism().unwrap().get();
    let run = |k: &str| home.said(&["run", "tests", "-k", k, "-c", "echo $KGATE_K"]);
    let _held = hold(&home, &["run", "tests", "-k", "cores"]);
    let gate = status(&home, &[], "tests");
    assert_eq!((&gate["k"], &gate["k_expression"]), (&json!(cores), &json!("cores")));
    let shown = home.said(&["status", "tests"]).1;
    assert!(shown.contains(&format!("k = {cores} (cores)")), "{shown}");
    // With one processor the next request of the test would wait for the first one.
    if cores > 1 {
        assert_eq!(run("cores").1, cores.to_string());
        assert_eq!(run(&cores.to_string()).1, cores.to_string(), "the same number");
    }
    let (code, _, error) = run("mem/1KiB");
    assert!(code == Some(123) && error.ends_with("`kgate set tests -k mem/1KiB`"), "{error}");
    for wrong in ["nproc", "cores/0", "mem/8", "0", "-3"] {
        assert_eq!(run(wrong).0, Some(2), "{wrong}");
    }
    assert_eq!(home.code(&["set", "other", "-k", "cores/100000"]), Some(0));
    let gate = status(&home, &[], "other");
    assert_eq!((&gate["k"], &gate["k_expression"]), (&json!(1), &json!("cores/100000")));
}

/// Reason and pairs are shown of holders and waiting requests, and cannot drive a terminal.
#[test]
fn requests_say_why() {
    let home = Home::new("reasons");
    let why = ["--reason", "nightly \x1b]0;x\x07 build", "--meta", "job=17", "--meta", "a=b=c"];
    let _held = hold(&home, &[&["run", "gpu"], &why[..]].concat());
    let gate = status(&home, &[], "gpu");
    let holder = &gate["holders"][0];
    assert_eq!(holder["reason"], json!("nightly \x1b]0;x\x07 build"));
    assert_eq!(holder["meta"], json!({ "a": "b=c", "job": "17" }));
    for shown in [home.said(&["status", "gpu"]).1, home.said(&["explain", "gpu"]).1] {
        assert!(shown.contains("nightly \\x1b]0;x\\x07 build (a=b=c job=17)"), "{shown}");
    }
    let waiter = Process::start(&mut home.kgate(&["run", "gpu", "--reason", "later", "true"]));
    until("a waiting request with its reason", || {
        status(&home, &[], "gpu")["waiting"][0]["reason"] == json!("later")
    });
    let token = home.said(&["acquire", "other", "--reason", "script", "--for-pid", "none"]);
    assert_eq!(token.0, Some(0), "{token:?}");
    assert_eq!(status(&home, &[], "other")["holders"][0]["reason"], json!("script"));
    assert_eq!(home.code(&["release", &token.1]), Some(0));
    let long = "x".repeat(201);
    for wrong in [&["--reason", &long][..], &["--meta", "a"], &["--meta", "a=1", "--meta", "a=2"]] {
        assert_eq!(home.code(&[&["run", "gpu"], wrong, &["true"]].concat()), Some(2), "{wrong:?}");
    }
    waiter.send(Signal::TERM);
}

/// In a cluster names and expressions go through the log: every node grants by them, another node
/// refuses others, and a change reaches all.
#[test]
fn a_cluster_agrees_on_names() {
    let home = Home::new("cluster-names");
    let cluster = Cluster::start_leased(&home, 3, TIMING);
    let run = |node: usize, words: &[&str]| {
        let words = [&["run", "gpu", "--node", &cluster.api[node]], words, &["-c", SHOW]].concat();
        home.said(&words)
    };
    let (code, said, error) = run(0, &["--names", "x,y", "-p", "2"]);
    assert_eq!((code, said.as_str()), (Some(0), "x x,y 2"), "{error}");
    let (code, said, error) = run(1, &["--names", "x,y", "-p", "2"]);
    assert_eq!((code, said.as_str()), (Some(0), "x x,y 2"), "{error}");
    let (code, _, error) = run(2, &["--names", "y,x"]);
    assert!(code == Some(123) && error.ends_with("`kgate set gpu --names y,x`"), "{error}");
    let set =
        |words: &[&str]| home.said(&[&["set", "gpu", "--node", &cluster.api[2]], words].concat());
    assert_eq!(set(&["-k", "3"]).0, Some(2));
    assert_eq!(set(&["--names", "y,x"]).0, Some(2), "a name would move");
    assert_eq!(set(&["-k", "0"]).0, Some(0));
    assert_eq!(set(&["--names", "y,x"]).0, Some(0));
    assert_eq!(run(2, &["--names", "y,x", "-p", "2"]).1, "y y,x 2");
    // A durable permit has the name of its slot, and no reason.
    let acquire = |words: &[&str]| {
        let node = ["acquire", "gpu", "--ttl", "1m", "--json", "--node", &cluster.api[1]];
        home.said(&[&node[..], words].concat())
    };
    assert_eq!(acquire(&["--reason", "why"]).0, Some(2));
    let (code, said, error) = acquire(&[]);
    assert_eq!(code, Some(0), "{error}");
    let permit: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(permit["slot_names"], json!(["y"]));
    // Every node resolves an expression, and the first one wins.
    let cores = std::thread::available_parallelism().unwrap().get().to_string();
    for node in 0..3 {
        let words = ["run", "tests", "-k", "cores", "--node", &cluster.api[node]];
        let said = home.said(&[&words[..], &["-c", "echo $KGATE_K"]].concat());
        assert_eq!((said.0, said.1.as_str()), (Some(0), cores.as_str()), "{}", said.2);
    }
    let gate = status(&home, &["--node", &cluster.api[2]], "tests");
    assert_eq!(gate["k_expression"], json!("cores"));
}

/// A command runs once per key: the next request sees the key as used and exits with 0 without
/// running it, also if the command failed, and after a restart of the node.
#[test]
fn a_key_is_used_once() {
    let home = Home::new("once");
    let nightly = |key: &str, script: &str| {
        home.said(&["run", "nightly", "-k", "1", "--once", key, "-c", script])
    };
    assert_eq!(nightly("2026-11-18", "echo ran; exit 3").0, Some(3));
    let (code, out, error) = nightly("2026-11-18", "echo ran");
    assert_eq!((code, out.as_str()), (Some(0), ""), "{error}");
    assert!(error.contains("key `2026-11-18` of gate `nightly` was used"), "{error}");
    home.kill_node();
    assert_eq!(nightly("2026-11-18", "echo ran").1, "", "the next node knows");
    assert_eq!(nightly("2026-11-19", "echo ran").1, "ran", "another key");
    let other = home.said(&["run", "weekly", "--once", "2026-11-18", "-c", "echo ran"]);
    assert_eq!(other.1, "ran", "another gate");
    // The slot is free again, and a permit without a key is granted as ever.
    assert_eq!(home.said(&["run", "nightly", "-n", "-c", "echo ran"]).1, "ran");
    let long = "x".repeat(129);
    for wrong in [&["--once", ""][..], &["--once", &long], &["--once", "a", "--once-ttl", "10ms"]] {
        let words = [&["run", "nightly"], wrong, &["true"]].concat();
        assert_eq!(home.code(&words), Some(2), "{wrong:?}");
    }
    // Inside of the gate there is no permit of its own to use a key under.
    let nested = format!("{} run nightly --once other -c 'echo ran'", crate::fixture::KGATE);
    let (code, out, error) = nightly("outer", &nested);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
}

/// A key expires when its time to live is over.
#[test]
fn a_key_expires() {
    let home = Home::new("once-ttl");
    let run = || home.said(&["run", "g", "--once", "k", "--once-ttl", "1s", "-c", "echo ran"]).1;
    assert_eq!(run(), "ran");
    until("the key expires", || run() == "ran");
}

/// At most once is the promise: a client that is killed between the mark and the start of its
/// command has used the key, and so has one whose command cannot be executed.
#[test]
fn a_key_is_used_before_the_command_starts() {
    let home = Home::new("once-killed");
    let gone = Home::new("once-killed-client");
    let ran = |key: &str| home.said(&["run", "g", "-k", "1", "--once", key, "-c", "echo ran"]).1;
    assert_eq!(ran("first"), "ran");
    // What kgate run does up to the mark. Then this client is dropped, as one that was killed.
    let marked = block_on(async {
        let client = Client::connect(&format!("unix:{}/run/node.sock", home.0.display())).await;
        let permit = client.unwrap().gate("g").acquire().await.unwrap();
        permit.mark_once("killed", Duration::from_secs(600)).await.unwrap()
    });
    assert_eq!(marked, Once::First);
    assert_eq!(ran("killed"), "");
    // The file can be executed, and its interpreter is missing: the command starts never.
    let script = gone.0.join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let words = ["run", "g", "--once", "broken", "--", script.to_str().unwrap()];
    assert_eq!(home.code(&words), Some(127));
    assert_eq!(ran("broken"), "");
}

/// Many requests race for a key, at a gate that lets several in at once: exactly one runs.
#[test]
fn one_of_many_uses_a_key() {
    let home = Home::new("once-race");
    // The node runs before the race.
    assert_eq!(home.code(&["run", "g", "-k", "4", "true"]), Some(0));
    race(&home, |_| home.kgate(&["run", "g", "-k", "4", "--once", "key"]));
}

/// The same in a cluster, from all nodes; the key stays used when nodes restart, and a node without
/// a quorum runs nothing.
#[test]
fn one_of_a_fleet_uses_a_key() {
    let home = Home::new("once-fleet");
    let mut cluster = Cluster::start_leased(&home, 3, TIMING);
    race(&home, |at| {
        let mut command = cluster.run(&home, at % 3, "g", 4);
        command.args(["--once", "key"]);
        command
    });
    cluster.stop(1);
    cluster.start_again(1);
    cluster.until_grants(&home, 1);
    let run = |cluster: &Cluster, node: usize, words: &[&str]| {
        let words = [&["run", "g", "-k", "4", "--node", &cluster.api[node]], words].concat();
        home.said(&[&words[..], &["-c", "echo ran"]].concat())
    };
    let (code, out, error) = run(&cluster, 1, &["--once", "key"]);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{error}");
    assert_eq!(run(&cluster, 2, &["--once", "short", "--once-ttl", "1s"]).1, "ran");
    until("the key expires", || {
        run(&cluster, 0, &["--once", "short", "--once-ttl", "1s"]).1 == "ran"
    });
    cluster.kill(1);
    cluster.kill(2);
    let (code, out, error) = run(&cluster, 0, &["--once", "alone"]);
    assert!(code == Some(122) && out.is_empty(), "{code:?} {out} {error}");
}

/// Eight commands with one key: one of them runs, and all exit with 0.
fn race(home: &Home, command: impl Fn(usize) -> std::process::Command) {
    let runs = home.0.join("runs");
    let script = format!("echo ran >> {}", runs.display());
    let start = |at: usize| Process::start(command(at).args(["-c", &script]));
    let all: Vec<Process> = (0..8).map(start).collect();
    for mut process in all {
        assert_eq!(process.code(), Some(0));
    }
    assert_eq!(std::fs::read_to_string(&runs).unwrap(), "ran\n");
}

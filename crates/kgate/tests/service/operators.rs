//! Operations from the command line: a node with a folder, a second one that joins, a change of k,
//! an eviction.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::fixture::{Home, Process, text, until, wait_for};

/// Starts a node and returns its address for clients.
fn start(home: &Home, name: &str, place: &str) -> (Process, String) {
    let config = home.0.join(format!("{name}.toml"));
    let data = home.0.join(name);
    std::fs::create_dir_all(&data).unwrap();
    let rest = format!("api = \"127.0.0.1:0\"\ndata = {data:?}\n");
    std::fs::write(&config, format!("{place}{rest}")).unwrap();
    let mut command = home.kgate(&["node", "--config", config.to_str().unwrap()]);
    let mut node = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = String::new();
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).expect("a line of JSON");
    (node, told["api"][0].as_str().expect("an address").to_owned())
}

/// A port that is free for now.
fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// DESIGN section 7 with the real binary: list, add and join, set, evict, remove; their messages
/// and exit codes.
#[test]
fn a_cluster_grows_and_shrinks() {
    let home = Home::new("operators");
    let (first, second) = (free_port(), free_port());
    let (_one, api) = start(&home, "one", &format!("id = 0\nnodes = [{first:?}]\n"));
    let kgate = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(["--node", &api]);
        let output = home.run(&all);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    until("the node grants", || {
        home.code(&["run", "gpu", "-k", "2", "--node", &api, "--", "true"]) == Some(0)
    });
    let (code, token, _) = kgate(&["members", "add", "second", &second]);
    assert!(code == Some(0) && token.starts_with("kgate-join-1-"), "{token}");
    let (_two, other) = start(&home, "two", &format!("join = {token:?}\naddress = {second:?}\n"));
    until("the newcomer grants", || {
        home.code(&["run", "gpu", "--node", &other, "--", "true"]) == Some(0)
    });
    let list = wait_for("two members", || {
        let (_, out, _) = kgate(&["members", "list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&out).ok()?;
        (list["members"][1]["state"] == "active").then_some(list)
    });
    assert_eq!(
        (&list["members"][0]["role"], &list["members"][1]["role"]),
        (&"leader".into(), &"follower".into())
    );

    let (code, _, said) = kgate(&["set", "gpu", "-k", "3", "--wait", "30s"]);
    assert!(code == Some(0) && said.contains("k = 3"), "{said}");
    assert_eq!(kgate(&["set", "none", "-k", "3"]).0, Some(1));
    assert_eq!(home.code(&["run", "gpu", "-k", "2", "--node", &other, "--", "true"]), Some(123));
    let (code, table, _) = kgate(&["explain", "--timing"]);
    assert!(code == Some(0) && table.contains("failover"), "{table}");
    // What is not there exits with 1, as on one machine.
    for words in [
        &["--gate", "gpu", "--slot", "1"][..],
        &["--gate", "gpu", "--slot", "9"],
        &["--gate", "none", "--slot", "0"],
        &["--session", "0:99"],
        &["--session", "7:1"],
        &["--permit", "99"],
        &["nobody"],
        &["7"],
    ] {
        let (code, _, said) = kgate(&[&["evict", "--yes"], words].concat());
        assert_eq!(code, Some(1), "{words:?}: {said}");
    }
    assert_eq!(kgate(&["set", "gpu", "-k", "0"]).0, Some(0));
    for k in ["1", "3"] {
        let (code, _, said) = home.said(&["run", "gpu", "-k", k, "--node", &api, "--", "true"]);
        assert!(code == Some(2) && said.contains("`kgate set gpu -k K` opens it"), "{said}");
    }
    assert_eq!(kgate(&["set", "gpu", "-k", "3"]).0, Some(0));
    assert_eq!(
        kgate(&["evict", "second"]).0,
        Some(2),
        "nobody can be asked, and --yes was not said"
    );
    let (code, _, said) = kgate(&["evict", "second", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, _, said) = kgate(&["members", "remove", "second"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(kgate(&["members", "promote", "second"]).0, Some(1));
}

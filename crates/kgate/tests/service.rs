//! The whole service with real processes: `kgate run` against the node of a user and against clusters, and what becomes of it when somebody is killed.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const KGATE: &str = env!("CARGO_BIN_EXE_kgate");
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user with folders of its own, whose node is killed in the end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kgate-service-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("run")).unwrap();
        Self(path)
    }

    fn kgate(&self, words: &[&str]) -> Command {
        let mut command = Command::new(KGATE);
        command
            .args(words)
            .env("XDG_RUNTIME_DIR", self.0.join("run"))
            .env("XDG_STATE_HOME", self.0.join("state"));
        command.env_remove("KGATE_OPT_NODE").stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.kgate(words).output().unwrap()
    }

    fn code(&self, words: &[&str]) -> Option<i32> {
        self.run(words).status.code()
    }

    fn node_pid(&self) -> Option<String> {
        fs::read_to_string(self.0.join("run/kgate/node.pid")).ok()
    }

    fn kill_node(&self) {
        if let Some(pid) = self.node_pid() {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
            let _ = fs::remove_file(self.0.join("run/kgate/node.pid"));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.kill_node();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process that is killed in the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

/// Holds a permit until its standard input is closed; returns when it is inside.
fn holder(mut command: Command) -> Process {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    assert_eq!(&line, b"in\n");
    Process(child)
}

const INSIDE: [&str; 4] = ["--", "sh", "-c", "echo in; exec cat"];

/// Each exit code that a user can meet, with a node that starts by itself; fences grow from one holder to the next.
#[test]
fn exit_codes_and_fences() {
    let home = Home::new("codes");
    let fence = || text(&home.run(&["run", "gpu", "-k", "1", "--", "sh", "-c", "echo $KGATE_FENCE"]).stdout);
    let (first, second) = (fence(), fence());
    assert!(first.len() == 32 && first < second, "{first} {second}");
    assert_eq!(home.code(&["run", "gpu", "--", "sh", "-c", "exit 7"]), Some(7));
    assert_eq!(home.code(&["run", "gpu", "--", "sh", "-c", "kill -TERM $$"]), Some(128 + 15));
    assert_eq!(home.code(&["run", "gpu", "--", "/no/such/command"]), Some(127));
    let conflict = home.run(&["run", "gpu", "-k", "4", "--", "true"]);
    let said = text(&conflict.stderr);
    assert!(
        conflict.status.code() == Some(123) && said.contains("k = 1") && said.contains("k = 4"),
        "{said}"
    );
    assert_eq!(home.code(&["run", "gpu", "-p", "2", "--", "true"]), Some(2));
    let _held = holder({
        let mut command = home.kgate(&["run", "gpu"]);
        command.args(INSIDE);
        command
    });
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120));
    assert_eq!(home.code(&["run", "gpu", "-n", "-E", "9", "--", "true"]), Some(9));
    assert_eq!(home.code(&["run", "gpu", "-w", "0.1", "--", "true"]), Some(120));
    assert_eq!(home.code(&["run", "gpu", "--node", "127.0.0.1:1", "--", "true"]), Some(122));
    let explained = text(&home.run(&["explain", "gpu"]).stdout);
    assert!(explained.contains("holds slot 0") && explained.contains("Nobody waits"), "{explained}");
    let status = home.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["gates"][0]["holders"][0]["slots"][0], 0, "{status}");
}

/// Many at once: never more than k inside, and all get in.
#[test]
fn never_more_than_k() {
    let home = Home::new("many");
    let (inside, log) = (home.0.join("inside"), home.0.join("log"));
    fs::create_dir(&inside).unwrap();
    let script =
        format!("mkdir {0}/$$ && ls {0} | wc -l >> {1} && rmdir {0}/$$", inside.display(), log.display());
    let all: Vec<Process> = (0..12)
        .map(|_| Process(home.kgate(&["run", "gpu", "-k", "2", "--", "sh", "-c", &script]).spawn().unwrap()))
        .collect();
    for mut process in all {
        assert!(process.0.wait().unwrap().success());
    }
    let log = fs::read_to_string(log).unwrap();
    let counts: Vec<u32> = log.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(counts.len() == 12 && counts.iter().all(|count| *count <= 2), "{counts:?}");
}

/// A user's node that is killed forgets nothing: its successor sees by the locks that the slot is in use, and later that it is free.
#[test]
fn a_killed_node_of_a_user_forgets_nothing() {
    let home = Home::new("killed");
    let mut held = holder({
        let mut command = home.kgate(&["run", "gpu", "-k", "1"]);
        command.args(INSIDE);
        command
    });
    home.kill_node();
    assert_eq!(home.code(&["run", "gpu", "-n", "--", "true"]), Some(120));
    drop(held.0.stdin.take());
    until("the slot is free again", || home.code(&["run", "gpu", "-n", "--", "true"]) == Some(0));
}

/// Nodes of a cluster on free ports.
struct Cluster {
    nodes: Vec<Process>,
    api: Vec<String>,
    peer: Vec<String>,
}

fn cluster(folder: &Path, count: usize, more: &str) -> Cluster {
    let ports: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let peer: Vec<String> = ports.iter().map(|port| port.local_addr().unwrap().to_string()).collect();
    drop(ports);
    let (mut nodes, mut api) = (Vec::new(), Vec::new());
    for id in 0..count {
        let config = folder.join(format!("node-{id}.toml"));
        fs::write(&config, format!("id = {id}\nnodes = {peer:?}\napi = \"127.0.0.1:0\"\n{more}")).unwrap();
        let mut command = Command::new(KGATE);
        command.arg("node").arg("--config").arg(&config).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut node = Process(command.spawn().unwrap());
        let mut line = String::new();
        let out = node.0.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let ready: serde_json::Value = serde_json::from_str(&line).expect("it serves");
        api.push(ready["api"][0].as_str().unwrap().to_owned());
        nodes.push(node);
    }
    Cluster { nodes, api, peer }
}

/// kill -9 of a holder's node: its child is stopped and the run ends with 121, and only then does the next one get in, at another node.
#[test]
fn the_node_of_a_holder_is_killed() {
    let home = Home::new("cluster");
    let quick = "lease_ms = 2000\ndetect_interval_ms = 100\ndetect_timeout_ms = 1000\n";
    let mut cluster = cluster(&home.0, 3, quick);
    let run = |node: usize, words: &[&str]| {
        let mut command =
            home.kgate(&["run", "gpu", "-k", "1", "--grace", "100ms", "--node", &cluster.api[node]]);
        command.args(words);
        command
    };
    let pid_file = home.0.join("pid");
    // It does not end when it is asked to.
    let stubborn = format!("trap '' TERM; echo $$ > {}; echo in; exec sleep 1000", pid_file.display());
    let mut held = holder(run(0, &["--", "sh", "-c", &stubborn]));
    let pid = fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    let check = format!("kill -0 {pid} 2>/dev/null && echo alive || echo dead");
    let mut next = run(1, &["--", "sh", "-c", &check]);
    let next = next.stdout(Stdio::piped()).spawn().unwrap();
    let waits = || {
        let status = home.run(&["status", "gpu", "--json", "--node", &cluster.api[2]]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
        status["gates"][0]["waiting"].as_array().is_some_and(|waiting| waiting.len() == 1)
    };
    until("the next one waits, seen from the third node", waits);
    cluster.nodes[0].0.kill().unwrap();
    assert_eq!(held.0.wait().unwrap().code(), Some(121));
    let next = next.wait_with_output().unwrap();
    assert_eq!((next.status.code(), text(&next.stdout).as_str()), (Some(0), "dead"));
}

/// Junk, half-open connections and a plain web browser on every port: the cluster goes on serving.
#[test]
fn junk_on_every_port() {
    let home = Home::new("junk");
    let cluster = cluster(&home.0, 2, "");
    let mut open = Vec::new();
    for address in cluster
        .api
        .iter()
        .map(|api| api.trim_start_matches("http://"))
        .chain(cluster.peer.iter().map(String::as_str))
    {
        for junk in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0xff; 5000],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff",
            b"",
        ] {
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(junk);
            open.push(stream);
        }
    }
    let code = home.code(&["run", "gpu", "-k", "1", "--node", &cluster.api[1], "--", "sh", "-c", "exit 3"]);
    assert_eq!(code, Some(3));
}

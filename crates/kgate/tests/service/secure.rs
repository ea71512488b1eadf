//! `kgate run` over TLS: certificates of `kgate certs`, authorisation, and a killed guard.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};

use crate::book::Book;
use crate::cluster::{free_ports, start_node};
use crate::fixture::{Home, Process, expect_gone, family, text, wait_for};

/// A node for clients with certificates only, at which `ci-..` may acquire gates of `build/`, and
/// files for the clients ci-1, eve and (of another authority) ci-2.
struct Secure {
    home: Home,
    address: String,
    _node: Process,
}

impl Secure {
    fn start(name: &str) -> Self {
        let home = Home::new(name);
        let certs = |words: &str| {
            let words: Vec<&str> = ["certs"].into_iter().chain(words.split_whitespace()).collect();
            let made = home.run(&words);
            assert!(made.status.success(), "{}", text(&made.stderr));
        };
        certs("new --dir certs --cluster farm --nodes 1 --host 127.0.0.1 --client ci-1");
        certs("client eve --dir certs --cluster farm");
        certs("new --dir others --cluster farm --nodes 1 --client ci-2");
        let config = home.0.join("node.toml");
        let (address, node) = wait_for("a node", || {
            let address = format!("https://{}", free_ports(1)[0]);
            let text = format!(
                "cluster = \"farm\"\nid = 0\nnodes = [\"127.0.0.1:0\"]\napi = {address:?}\n\
                 lease_ms = 600000\n\
                 [tls]\ncertificate = \"certs/node-0.pem\"\nkey = \"certs/node-0.key\"\n\
                 authority = \"certs/ca.pem\"\n\
                 [[allow]]\nclient = \"ci-*\"\ngates = [\"build/\"]\n"
            );
            fs::write(&config, text.replace("\"certs/", &format!("\"{}/certs/", home.0.display())))
                .unwrap();
            Some((address, start_node(&config, &home.0.join("node.log"))?))
        });
        Self { home, address, _node: node }
    }

    /// `kgate WORD GATE` with the certificate of that client; relative paths, as users write them.
    fn ask(&self, words: &[&str], folder: &str, client: &str) -> Command {
        let mut command = self.home.kgate(words);
        let file = |kind: &str| format!("{folder}/client-{client}.{kind}");
        command.args(["--node", &self.address, "--ca", "certs/ca.pem"]);
        command.args(["--cert", &file("pem"), "--key", &file("key")]);
        command
    }

    /// The exit code and standard error.
    fn said(&self, mut command: Command) -> (Option<i32>, String) {
        let output = command.args(["--", "echo", "inside"]).output().unwrap();
        assert_eq!(output.status.code() == Some(0), text(&output.stdout) == "inside");
        (output.status.code(), text(&output.stderr))
    }
}

/// An authorised client is granted. An unauthorised one gets 125 and the missing right. An unknown
/// client, or one that trusts another authority, gets 122 and the reason. Flags may come from the
/// environment.
#[test]
fn who_gets_in() {
    let secure = Secure::start("secure");
    let run = ["run", "build/linux", "-k", "1"];
    assert_eq!(secure.said(secure.ask(&run, "certs", "ci-1")), (Some(0), String::new()));
    let (code, text) = secure.said(secure.ask(&run, "certs", "eve"));
    assert!(
        code == Some(125) && text.contains("client eve may not acquire `build/linux`"),
        "{code:?} {text}"
    );
    let (code, text) = secure.said(secure.ask(&["run", "prod"], "certs", "ci-1"));
    assert!(
        code == Some(125) && text.contains("client ci-1 may not acquire `prod`"),
        "{code:?} {text}"
    );
    let (code, text) = secure.said(secure.ask(&run, "others", "ci-2"));
    assert!(
        code == Some(122) && text.contains("rejected this client's certificate"),
        "{code:?} {text}"
    );
    let bare = |words: &[&str], ca: &str| {
        let mut command = secure.home.kgate(words);
        command.args(["--node", &secure.address]).env("KGATE_OPT_CA", ca);
        command
    };
    let (code, text) = secure.said(bare(&run, "certs/ca.pem"));
    assert!(code == Some(122) && text.contains("requires a client certificate"), "{code:?} {text}");
    let (code, text) = secure.said(bare(&run, "others/ca.pem"));
    assert!(code == Some(122) && text.contains("not signed by the authority"), "{code:?} {text}");
    let (code, text) = secure.said(bare(&run, "nothing.pem"));
    assert!(code == Some(125) && text.contains("nothing.pem: No such file"), "{code:?} {text}");
    let status = |client: &str| {
        let output = secure.ask(&["status", "--json"], "certs", client).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(status("ci-1").contains("build/linux") && !status("eve").contains("build/linux"));
}

/// The guard is killed: the front releases the permit in its place, with the same certificate. The
/// holder of `kgate acquire` does so, too.
#[test]
fn what_is_left_behind_is_given_back() {
    let secure = Secure::start("secure-killed");
    let book = Book::new(&secure.home, "gpu");
    let run = ["run", "build/gpu", "-k", "1", "--grace", "10s", "--wait", "1m"];
    let mut held =
        book.hold(secure.ask(&run, "certs", "ci-1"), "first", "trap '' TERM; setsid sleep 1000 &");
    let members = family(held.guard());
    kill_process(held.guard(), Signal::KILL).unwrap();
    assert_eq!(held.code(), Some(121));
    // The lease lasts ten minutes, longer than the wait: the permit was released.
    let mut next = book.inside(secure.ask(&run, "certs", "ci-1"), "next", "true");
    assert!(next.stdout(Stdio::null()).status().unwrap().success());
    expect_gone(&members);
    assert_eq!(book.check(1).len(), 2);
    let token = secure.ask(&["acquire", "build/gpu"], "certs", "ci-1").output().unwrap();
    assert!(token.status.success(), "{}", text(&token.stderr));
    assert_eq!(secure.home.code(&["release", &text(&token.stdout)]), Some(0));
    assert_eq!(secure.said(secure.ask(&run, "certs", "ci-1")).0, Some(0));
}

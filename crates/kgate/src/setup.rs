//! `kgate setup machine`: the node of this machine as a service of systemd.

use std::fs;
use std::io::{Write, stdout};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Args, ValueEnum};
use kgate_client::local::{MACHINE_CONFIG, MACHINE_SOCKET};

use crate::Outcome;
use crate::status::say;

/// Shown below `kgate setup --help`.
pub(crate) const SETUP_HELP: &str = "\
Writes /etc/kgate/machine.toml (kept if it exists), kgate.socket and kgate.service in \
/etc/systemd/system, and enables the socket. From then on every user of this machine uses its \
node: exclusion holds between users. Permits that users hold at nodes of their own are not known \
there, so set it up before they are in use. Without systemd it writes the configuration and \
prints the command that any init can run.

Exit codes: 0: done, or printed by --dry-run; 2: usage error; 125: a file cannot be written, a \
command failed, or this binary is not one that root can trust.

Examples:
  kgate setup machine --dry-run
  sudo kgate setup machine
  sudo kgate setup machine --group gpu-users";

/// Arguments of `kgate setup`.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// What to set up
    #[arg(value_enum)]
    what: What,
    /// Print the files and the commands, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Let only members of this group use the node [default: every user of this machine]
    #[arg(long, value_name = "GROUP", value_parser = group)]
    group: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// The node of this machine
    Machine,
}

/// A group is written into two files: nothing but the characters of a name.
fn group(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(is_name) {
        return Err("write the name or the number of a group".into());
    }
    Ok(text.to_owned())
}

const UNITS: &str = "/etc/systemd/system";
/// Exists where systemd manages the machine (sd_booted).
const SYSTEMD: &str = "/run/systemd/system";

/// A file to write.
struct Written {
    path: PathBuf,
    text: String,
    /// An administrator's own changes stay.
    is_kept: bool,
}

fn files(binary: &Path, group: Option<&str>, systemd: bool) -> Vec<Written> {
    let mut files =
        vec![Written { path: MACHINE_CONFIG.into(), text: configuration(group), is_kept: true }];
    if systemd {
        let unit = |name, text| Written { path: Path::new(UNITS).join(name), text, is_kept: false };
        files.push(unit("kgate.socket", socket_unit(group)));
        files.push(unit("kgate.service", service_unit(binary)));
    }
    files
}

fn configuration(group: Option<&str>) -> String {
    let access = match group {
        Some(group) => format!("socket_mode = \"0660\"\nsocket_group = \"{group}\"\n"),
        None => String::new(),
    };
    format!(
        "\
# The node of this machine (kgate node --machine). While this file exists, every user of this
# machine uses that node, and a command fails if it does not run.
# docs/guide/one-machine.md explains the fields.
{access}
# Without an [[allow]] every user who can connect may acquire, and root may operate:
# [[allow]]
# group = \"gpu-users\"
# gates = [\"gpu\"]
#
# [[gate]]
# name = \"gpu\"
# k = 3
"
    )
}

fn socket_unit(group: Option<&str>) -> String {
    let access = match group {
        Some(group) => format!("SocketMode=0660\nSocketGroup={group}"),
        None => "SocketMode=0666".to_owned(),
    };
    format!(
        "\
[Unit]
Description=Socket of kgate, the semaphore of this machine

[Socket]
ListenStream={MACHINE_SOCKET}
DirectoryMode=0755
{access}
# Users take a socket that exists for a node that exists: it stays when the node stops.
RemoveOnStop=no

[Install]
WantedBy=sockets.target
"
    )
}

fn service_unit(binary: &Path) -> String {
    let binary = binary.display();
    format!(
        "\
[Unit]
Description=kgate, the semaphore of this machine
Requires=kgate.socket
After=kgate.socket nss-user-lookup.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={binary} node --machine
Restart=always
RestartSec=100ms
StateDirectory=kgate
StateDirectoryMode=0700
LimitNOFILE=65536
# The node reads requests of all users: it is root without the powers of root.
CapabilityBoundingSet=CAP_KILL
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=/run/kgate
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
Also=kgate.socket
"
    )
}

/// The commands that enable the service.
const COMMANDS: [&[&str]; 2] = [
    &["systemctl", "daemon-reload"],
    &["systemctl", "enable", "--now", "kgate.socket", "kgate.service"],
];
/// What any other init has to run as root.
const ANY_INIT: &str = "node --machine";

pub(crate) fn run(args: &SetupArgs) -> Outcome {
    let What::Machine = args.what;
    let binary = std::env::current_exe().context("cannot find this binary")?;
    let systemd = args.dry_run || Path::new(SYSTEMD).is_dir();
    let files = files(&binary, args.group.as_deref(), systemd);
    if args.dry_run {
        print(&files, &binary)?;
        return Ok(ExitCode::SUCCESS);
    }
    check_binary(&binary)?;
    for file in &files {
        write(file)?;
    }
    if systemd {
        COMMANDS.iter().try_for_each(|words| execute(words))?;
        say(&format!("the node of this machine serves at {MACHINE_SOCKET}"));
    } else {
        say(&format!(
            "no systemd here: let your init run `{} {ANY_INIT}` as root, and start it again when \
             it ends. {MACHINE_CONFIG} is written: until the node runs, commands of all users fail",
            binary.display()
        ));
    }
    warn_of_users_nodes();
    Ok(ExitCode::SUCCESS)
}

fn print(files: &[Written], binary: &Path) -> Result<(), std::io::Error> {
    let mut out = stdout().lock();
    for file in files {
        let kept = if file.is_kept { " (kept if it exists)" } else { "" };
        writeln!(out, "# {}{kept}\n{}", file.path.display(), file.text)?;
    }
    for words in COMMANDS {
        writeln!(out, "$ {}", words.join(" "))?;
    }
    writeln!(out, "\n# Without systemd, as root:\n$ {} {ANY_INIT}", binary.display())
}

/// Refuses to make a service of root from a binary that another user could replace.
fn check_binary(binary: &Path) -> anyhow::Result<()> {
    for path in binary.ancestors() {
        let found = fs::metadata(path)?;
        let is_sticky = found.is_dir() && found.mode() & 0o1000 != 0;
        anyhow::ensure!(
            found.uid() == 0 && (is_sticky || found.mode() & 0o022 == 0),
            "{} could be changed by other users than root, and the service runs it as root: \
             install the binary first, for example `install -m 755 {} /usr/local/bin/kgate`",
            path.display(),
            binary.display()
        );
    }
    Ok(())
}

fn write(file: &Written) -> anyhow::Result<()> {
    let path = file.path.display();
    if file.is_kept && file.path.exists() {
        say(&format!("{path} exists and is kept"));
        return Ok(());
    }
    let folder = file.path.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file.path, &file.text))
        .and_then(|()| fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)));
    written.with_context(|| format!("cannot write {path}: run this as root"))?;
    say(&format!("wrote {path}"));
    Ok(())
}

fn execute(words: &[&str]) -> anyhow::Result<()> {
    let line = words.join(" ");
    let status = Command::new(words[0]).args(&words[1..]).status();
    let status = status.with_context(|| format!("cannot run `{line}`"))?;
    anyhow::ensure!(status.success(), "`{line}` failed ({status}): run it again by hand");
    Ok(())
}

/// The permits of nodes that users have started before are not known to the machine's node.
fn warn_of_users_nodes() {
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.flatten() {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let [_, b"node", b"--local", folder, ..] = words[..] else { continue };
        say(&format!(
            "warning: process {} is a user's own node ({}); permits held there are not known to \
             this machine's node. It stops 30 seconds after its last client",
            process.file_name().display(),
            String::from_utf8_lossy(folder)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The written configuration is one that the node reads, with and without a group.
    #[test]
    fn the_configuration_can_be_read() {
        for group in [None, Some("0")] {
            let folder = kgate_testkit::TempFolder::new("setup");
            let file = folder.join("machine.toml");
            fs::write(&file, configuration(group)).unwrap();
            let config = kgate_node::Config::machine(Path::new(MACHINE_SOCKET), Some(&file));
            assert_eq!(config.unwrap().socket_group.is_some(), group.is_some());
        }
    }

    /// A group is a name, so that it cannot add a line to a unit.
    #[test]
    fn a_group_is_a_name() {
        assert!(group("gpu-users").is_ok());
        for wrong in ["", "-x", "a\nb", "a b", "a\"b"] {
            assert!(group(wrong).is_err(), "{wrong:?}");
        }
    }

    /// A binary that a user could replace is refused.
    #[test]
    fn a_binary_of_a_user_is_refused() {
        let folder = kgate_testkit::TempFolder::new("setup-binary");
        let file = folder.join("kgate");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o775)).unwrap();
        let error = check_binary(&file).unwrap_err().to_string();
        assert!(error.contains("install -m 755"), "{error}");
    }
}

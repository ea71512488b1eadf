//! `kgate setup machine`: the node of this machine as a service of systemd.
//!
//! Who may connect is in two places, the configuration and the unit of the socket. The
//! configuration decides: the unit is made from it.

mod remove;

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::{Args, ValueEnum};
use kgate_client::local::{MACHINE_CONFIG, MACHINE_SOCKET};

use kgate_node::serve::authorisation::UserOrGroup;
use kgate_node::{Config, SocketMode, known_group};

use crate::machine::MARK;
use crate::status::say;
use crate::{Failure, Outcome};

/// Shown below `kgate setup --help`.
pub(crate) const SETUP_HELP: &str = "\
Writes /etc/kgate/machine.toml (kept if it exists), kgate.socket and kgate.service in \
/etc/systemd/system, and enables the socket. From then on every user of this machine uses its \
node: exclusion holds between users. Permits that users hold at nodes of their own are not known \
there, so set it up before they are in use. Without systemd it writes the configuration and \
prints the command that any init can run.

The users that may connect are those of machine.toml (socket_mode, socket_group); the unit of \
the socket follows. --group writes it there, unless an administrator has changed that file: then \
it says what to write. Run it again after such a change: the socket is restarted, and permits stay.

--remove gives up the node: it stops and disables the units and removes them, machine.toml (kept \
as machine.toml.old) and the socket. From then on each user has a node of its own again. It is \
refused while a command holds a permit. The state in /var/lib/kgate stays, so that fences grow if \
the node comes back.

Exit codes: 0: done, or printed by --dry-run; 2: usage error, or machine.toml says otherwise than \
--group; 120: not removed, permits are held; 125: a file cannot be written, a command failed, or \
this binary is not one that root can trust.

Examples:
  kgate setup machine --dry-run
  sudo kgate setup machine
  sudo kgate setup machine --group gpu-users
  sudo kgate setup machine --remove";

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
    /// Give up the node of this machine, if nobody holds a permit
    #[arg(long, conflicts_with = "group")]
    remove: bool,
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
    let known = known_group(&UserOrGroup::Name(text.to_owned()));
    known.map(|_| text.to_owned()).map_err(|missing| missing.to_string())
}

const UNITS: &str = "/etc/systemd/system";
/// Exists where systemd manages the machine (sd_booted).
const SYSTEMD: &str = "/run/systemd/system";
const SOCKET_UNIT: &str = "kgate.socket";
const SERVICE_UNIT: &str = "kgate.service";

/// A file to write.
struct Written {
    path: PathBuf,
    text: String,
}

fn files(binary: &Path, access: &Access, systemd: bool) -> Vec<Written> {
    let mut files = Vec::new();
    if let Some(text) = access.written.clone() {
        files.push(Written { path: MACHINE_CONFIG.into(), text });
    }
    if systemd {
        let unit = |name, text| Written { path: Path::new(UNITS).join(name), text };
        files.push(unit(SOCKET_UNIT, socket_unit(access)));
        files.push(unit(SERVICE_UNIT, service_unit(binary)));
    }
    files
}

/// Who may connect.
struct Access {
    mode: u32,
    group: Option<String>,
    /// The configuration to write that says so; none if the existing one does.
    written: Option<String>,
}

impl Access {
    /// What the configuration says, once it says what is wanted. One that somebody has changed is
    /// not changed here.
    fn decide(file: &Path, wanted: Option<&str>) -> Result<Self, Failure> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self::new(wanted, Some(configuration(wanted))));
            }
            Err(error) => {
                let text = format!("cannot read {}: {error}", file.display());
                return Err(Failure::Internal(anyhow::anyhow!(text)));
            }
        };
        let config = Config::machine(Path::new(MACHINE_SOCKET), Some(file));
        let config = config.map_err(|error| Failure::Usage(error.to_string()))?;
        let group = config.socket_group.map(|group| match group {
            UserOrGroup::Name(name) => name,
            UserOrGroup::Number(number) => number.to_string(),
        });
        let is_wanted = wanted.is_none_or(|wanted| {
            group.as_deref() == Some(wanted) && config.socket_mode == SocketMode(0o660)
        });
        if is_wanted {
            return Ok(Self { mode: config.socket_mode.0, group, written: None });
        }
        // A node that was started without a configuration has written one, too.
        if text == configuration(group.as_deref()) || text == MARK {
            return Ok(Self::new(wanted, Some(configuration(wanted))));
        }
        Err(Failure::Usage(format!(
            "{} was changed by somebody and says otherwise than --group: write there\n{}and run \
             this again; nothing was changed",
            file.display(),
            access_lines(wanted)
        )))
    }

    fn new(group: Option<&str>, written: Option<String>) -> Self {
        let mode = if group.is_some() { 0o660 } else { 0o666 };
        Self { mode, group: group.map(str::to_owned), written }
    }
}

/// The lines of the configuration that let only a group connect.
fn access_lines(group: Option<&str>) -> String {
    let lines = |group| format!("socket_mode = \"0660\"\nsocket_group = \"{group}\"\n");
    group.map(lines).unwrap_or_default()
}

fn configuration(group: Option<&str>) -> String {
    let access = access_lines(group);
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

fn socket_unit(Access { mode, group, .. }: &Access) -> String {
    let group = group.iter().map(|group| format!("\nSocketGroup={group}")).collect::<String>();
    let access = format!("SocketMode={mode:04o}{group}");
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
const COMMANDS: [&[&str]; 2] =
    [&["systemctl", "daemon-reload"], &["systemctl", "enable", "--now", SOCKET_UNIT, SERVICE_UNIT]];
/// The command that puts a changed unit into effect: a socket that is open keeps its mode. Permits
/// stay.
const RESTART: &[&str] = &["systemctl", "restart", SOCKET_UNIT, SERVICE_UNIT];
/// What any other init has to run as root.
const ANY_INIT: &str = "node --machine";

pub(crate) fn run(args: &SetupArgs) -> Outcome {
    let What::Machine = args.what;
    if args.remove {
        return remove::run(args.dry_run);
    }
    // `kgate-full`: the service needs no detour by `kgate`.
    let binary = std::env::current_exe().context("cannot find this program")?;
    let systemd = args.dry_run || Path::new(SYSTEMD).is_dir();
    let access = Access::decide(Path::new(MACHINE_CONFIG), args.group.as_deref())?;
    if let Some(group) = &access.group {
        let missing = |missing| Failure::Usage(format!("{missing}; nothing was changed"));
        known_group(&UserOrGroup::Name(group.clone())).map_err(missing)?;
    }
    let files = files(&binary, &access, systemd);
    if args.dry_run {
        print(&files, &binary)?;
        return Ok(ExitCode::SUCCESS);
    }
    check_binary(&binary)?;
    if access.written.is_none() {
        say(&format!("{MACHINE_CONFIG} exists and is kept"));
    }
    let mut has_changed = false;
    for file in &files {
        has_changed |= write(file)?;
    }
    if systemd {
        COMMANDS.iter().try_for_each(|words| execute(words))?;
        if has_changed {
            execute(RESTART)?;
        }
        say(&format!("the node of this machine serves at {MACHINE_SOCKET}"));
    } else {
        say(&format!(
            "no systemd here: let your init run `{} {ANY_INIT}` as root, and start it again when \
             it ends. {MACHINE_CONFIG} is written: until the node runs, commands of all users \
             fail. A node that runs reads it when it starts again",
            binary.display()
        ));
    }
    warn_of_users_nodes();
    Ok(ExitCode::SUCCESS)
}

fn print(files: &[Written], binary: &Path) -> Result<(), std::io::Error> {
    let mut out = stdout().lock();
    for file in files {
        writeln!(out, "# {}\n{}", file.path.display(), file.text)?;
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
             install both programs first, for example `install -m 755 {folder}/kgate \
             {folder}/kgate-full /usr/local/bin`",
            path.display(),
            folder = binary.parent().unwrap_or(binary).display()
        );
    }
    Ok(())
}

/// Writes a file, and returns whether there was another one before.
fn write(file: &Written) -> anyhow::Result<bool> {
    let path = file.path.display();
    let before = fs::read_to_string(&file.path).ok();
    let folder = file.path.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&file.path, &file.text))
        .and_then(|()| fs::set_permissions(&file.path, fs::Permissions::from_mode(0o644)));
    written.with_context(|| format!("cannot write {path}: run this as root"))?;
    say(&format!("wrote {path}"));
    Ok(before.is_some_and(|before| before != file.text))
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

    /// Issue 19: the unit of the socket says what the configuration says; `--group` changes one
    /// that setup has written, and refuses one that somebody has changed.
    #[test]
    fn socket_and_configuration_agree() {
        let folder = kgate_testkit::TempFolder::new("setup-access");
        let file = folder.join("machine.toml");
        let decide = |wanted| Access::decide(&file, wanted);
        let unit = |wanted| socket_unit(&decide(wanted).ok().expect("it may be"));
        assert!(unit(None).contains("SocketMode=0666\n"));
        assert!(unit(Some("gpu")).contains("SocketMode=0660\nSocketGroup=gpu\n"));
        fs::write(&file, configuration(None)).unwrap();
        let access = decide(Some("gpu")).ok().expect("it was written by setup");
        assert_eq!(access.written, Some(configuration(Some("gpu"))));
        fs::write(&file, MARK).unwrap();
        let access = decide(Some("gpu")).ok().expect("it was written by a node");
        assert_eq!(access.written, Some(configuration(Some("gpu"))));
        fs::write(&file, "# own\nsocket_group = \"ops\"\nsocket_mode = \"0660\"\n").unwrap();
        assert!(unit(None).contains("SocketMode=0660\nSocketGroup=ops\n"));
        assert!(unit(Some("ops")).contains("SocketGroup=ops\n"));
        let Err(Failure::Usage(text)) = decide(Some("gpu")) else { panic!("it says ops") };
        assert!(text.contains("socket_group = \"gpu\"") && text.contains("nothing was"), "{text}");
    }

    /// A group is one of this machine, and its name cannot add a line to a unit.
    #[test]
    fn a_group_exists() {
        assert_eq!(group("root"), Ok("root".to_owned()));
        assert!(group("no-such-group-of-kgate").unwrap_err().contains("groupadd"));
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

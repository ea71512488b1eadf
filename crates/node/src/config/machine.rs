//! The configuration of the node of a whole machine: a few fields of a node's, with other defaults.
//!
//! Such a node has no peers and binds permits to processes. By default every user of the machine
//! may acquire, and root may operate.

use std::path::{Path, PathBuf};

use super::{BadConfig, Config, OneOrMore, SocketMode};
use crate::serve::authorisation::{Allow, Right, UserOrGroup};
use crate::serve::limits::Limits;

/// The fields that a machine's node has.
const FIELDS: [&str; 13] = [
    "allow",
    "api",
    "api_tls",
    "connections_max",
    "data",
    "gate",
    "limits",
    "name",
    "new_gates",
    "plain_api",
    "queue_max",
    "sessions_max",
    "socket_group",
];
/// One more, whose default differs.
const SOCKET_MODE: &str = "socket_mode";

/// The limits of one user, a tenth of what the node serves or less: one user cannot use up what
/// others need.
const LIMITS: Limits = Limits {
    sessions: 2_000,
    waiting: 2_000,
    connections: 2_000,
    unfinished: 128,
    requests_per_second: 5_000,
    burst: 10_000,
    message_bytes: 65_536,
};

impl Config {
    /// The configuration of a machine's node whose socket is `socket`. Without a file all defaults
    /// count.
    pub fn machine(socket: &Path, file: Option<&Path>) -> Result<Self, BadConfig> {
        let text = match file {
            Some(file) => std::fs::read_to_string(file)
                .map_err(|error| BadConfig::Unreadable(file.into(), error))?,
            None => String::new(),
        };
        machine(&text, socket, file.unwrap_or(Path::new("machine.toml")))
    }
}

fn machine(text: &str, socket: &Path, file: &Path) -> Result<Config, BadConfig> {
    let wrong = |error| BadConfig::Text(file.into(), Box::new(error));
    let table: toml::Table = toml::from_str(text).map_err(wrong)?;
    let has = |field: &str| table.contains_key(field);
    if let Some(other) =
        table.keys().find(|field| !FIELDS.contains(&field.as_str()) && *field != SOCKET_MODE)
    {
        let file = file.display();
        return Err(BadConfig::Invalid(format!(
            "{file}: `{other}` is no field of a machine's node, which has no peers and binds \
             permits to processes: use {}, {SOCKET_MODE}",
            FIELDS.join(", ")
        )));
    }
    let mut config: Config = toml::from_str(text).map_err(wrong)?;
    let own = format!("unix:{}", socket.display());
    let mut api = if has("api") { config.api.all() } else { Vec::new() };
    api.retain(|address| *address != own);
    api.insert(0, own);
    config.api = OneOrMore::More(api);
    config.slot_files = Some(socket.parent().unwrap_or(Path::new("/")).to_owned());
    config.lease_ms = 0;
    config.nodes = vec!["127.0.0.1:0".into()];
    config.data.get_or_insert_with(|| PathBuf::from("/var/lib/kgate"));
    if !has(SOCKET_MODE) {
        config.socket_mode = SocketMode(0o666);
    }
    if !has("limits") {
        config.limits = LIMITS;
    }
    if !has("allow") {
        let everybody =
            Allow { anyone: true, may: vec![Right::Acquire, Right::See], ..Allow::default() };
        let root = UserOrGroup::Number(0);
        let root = Allow { user: Some(root), may: vec![Right::Operate], ..Allow::default() };
        config.allow = vec![everybody, root];
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use kgate_core::Incarnation;

    use super::*;

    fn read(text: &str) -> Result<Config, BadConfig> {
        machine(text, Path::new("/run/k/node.sock"), Path::new("machine.toml"))
    }

    /// An empty file gives a node that every user may use, and that can start.
    #[test]
    fn nothing_has_to_be_written() {
        let config = read("").unwrap();
        assert_eq!(config.api.all(), ["unix:/run/k/node.sock"]);
        assert_eq!(config.slot_files.as_deref(), Some(Path::new("/run/k")));
        assert_eq!((config.socket_mode, config.lease_ms), (SocketMode(0o666), 0));
        assert!(config.allow[0].anyone && !config.allow[0].may.contains(&Right::Operate));
        assert!(config.settings(Incarnation(1), 1).is_ok());
    }

    /// What is written counts: other addresses are added, a list of rights replaces the default.
    #[test]
    fn the_file_counts() {
        let text = "api = \"127.0.0.1:7400\"\nsocket_mode = \"0660\"\n[[allow]]\nuser = 7\n\
            [limits]\nsessions = 3\n[[gate]]\nname = \"gpu\"\nk = 2\n";
        let config = read(text).unwrap();
        assert_eq!(config.api.all(), ["unix:/run/k/node.sock", "127.0.0.1:7400"]);
        assert_eq!((config.socket_mode, config.limits.sessions), (SocketMode(0o660), 3));
        assert_eq!((config.allow.len(), config.gates.len()), (1, 1));
    }

    /// Fields of a cluster are refused, and so is what no node has.
    #[test]
    fn other_fields_are_refused() {
        for field in ["nodes = []", "lease_ms = 4000", "slot_files = \"x\"", "gates = 1"] {
            let error = read(field).unwrap_err().to_string();
            assert!(error.contains("no field of a machine's node"), "{field}: {error}");
        }
        assert!(matches!(read("api = "), Err(BadConfig::Text(..))));
    }
}

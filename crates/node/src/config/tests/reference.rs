//! docs/reference/configuration.md: every key, read from the sources of the structs, so that a key
//! cannot be missing and its meaning is written once.

use std::fmt::Write;

use serde::de::DeserializeOwned;

use super::{Config, GateConfig, Preset, TimingConfig, Tls};
use crate::serve::authorisation::Allow;
use crate::serve::limits::Limits;

const SOURCES: [&str; 4] = [
    include_str!("../../config.rs"),
    include_str!("../timing.rs"),
    include_str!("../../serve/authorisation.rs"),
    include_str!("../../serve/limits.rs"),
];

/// A key of a table.
struct Key {
    name: String,
    kind: String,
    default: String,
    meaning: String,
}

/// Every key of the configuration with its type, default and meaning.
#[test]
fn the_reference_is_up_to_date() {
    let mut page = String::from(
        "# Configuration\n\n\
         A node reads a TOML file: `kgate node --config node.toml`. Unknown keys are refused. This \
         page is generated: `cargo xtask reference`.\n",
    );
    let mut table = |heading: &str, text: &str, keys: Vec<Key>| {
        let _ = writeln!(page, "\n## {heading}\n\n{text}\n");
        page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
        for Key { name, kind, default, meaning } in keys {
            let _ = writeln!(page, "| `{name}` | {kind} | {default} | {meaning} |");
        }
    };
    table("The node", "Keys at the top of the file.", keys::<Config>("Config"));
    table(
        "`[[gate]]`",
        "A gate that exists from the start; one table per gate.",
        keys::<GateConfig>("GateConfig"),
    );
    table("`[tls]` and `[api_tls]`", "Files in PEM format.", keys::<Tls>("Tls"));
    table(
        "`[[allow]]`",
        "What a client may do; one table per client or group of clients. Each names one of \
         `client`, `token`, `user` and `anyone`.",
        keys::<Allow>("Allow"),
    );
    table("`[limits]`", "What one client may use at once.", keys::<Limits>("Limits"));
    table(
        "`[timing]`",
        "The numbers of the leases (docs/internals/leases.md). A key that is left out has the \
         preset's value: `default` first, `fast` second. Durations are written as in \"500ms\", \
         \"1.5s\" or \"2m\".",
        timing(),
    );
    kgate_testkit::assert_reference("configuration.md", &page);
}

/// The keys of `[timing]` with the values of both presets.
fn timing() -> Vec<Key> {
    let numbers = |preset| TimingConfig { preset, ..TimingConfig::default() }.numbers();
    let [usual, fast] = [Preset::Default, Preset::Fast].map(numbers);
    let spans = |name: &str| {
        let of = |timing: &kgate_control::timing::Timing| match name {
            "lease" => timing.lease,
            "node_ping" => timing.node_ping,
            "session_ping" => timing.session_ping,
            "margin" => timing.margin,
            "grace" => timing.grace,
            "kill" => timing.kill,
            "suspect_after" => timing.suspect_after,
            "round_trip" => timing.round_trip,
            other => panic!("[timing] has a new key {other}: add it here"),
        };
        [of(&usual), of(&fast)].map(|span| format!("{}ms", span.0 / 1_000_000))
    };
    let mut keys = keys::<TimingConfig>("TimingConfig");
    for key in &mut keys {
        let [usual, fast] = match key.name.as_str() {
            "preset" => continue,
            "clock_error" => [&usual, &fast].map(|timing| timing.clock_error.to_string()),
            name => spans(name),
        };
        key.default = format!("`{usual}`, `{fast}`");
    }
    keys
}

/// The keys of a struct, which are those that serde accepts.
fn keys<T: DeserializeOwned>(name: &str) -> Vec<Key> {
    let keys = read(name);
    let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, accepted::<T>(), "{name}");
    keys
}

/// The fields that serde names when it refuses an unknown one.
fn accepted<T: DeserializeOwned>() -> Vec<String> {
    let Err(error) = T::deserialize(toml::toml! { unknown_key = 1 }) else {
        panic!("unknown keys are refused");
    };
    let error = error.to_string();
    let expected = error.split("expected").nth(1).expect("the keys that are known");
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The fields of a struct in the sources, with their doc comments and attributes.
fn read(name: &str) -> Vec<Key> {
    let start = format!("pub struct {name} {{\n");
    let body = SOURCES.iter().find_map(|source| source.split_once(&start)).expect(name).1;
    let body = body.split_once("\n}").expect("the end of a struct").0;
    let (mut keys, mut docs, mut attributes) = (Vec::new(), String::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            docs.push_str(text);
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else if let Some((field, kind)) =
            line.strip_prefix("pub ").and_then(|it| it.split_once(": "))
        {
            let (docs, attributes) = (std::mem::take(&mut docs), std::mem::take(&mut attributes));
            let kind = kind.trim_end_matches(',');
            keys.push(Key {
                name: quoted(&attributes, "rename").unwrap_or(field).to_owned(),
                kind: kind_of(kind),
                default: default_of(name, field, kind, &attributes),
                meaning: docs.trim().to_owned(),
            });
        }
    }
    keys
}

/// The value of `key = ".."` among some attributes.
fn quoted<'a>(attributes: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = attributes.split_once(&format!("{key} = \""))?;
    rest.split('"').next()
}

fn kind_of(kind: &str) -> String {
    if let Some(inner) = kind.strip_prefix("Option<").and_then(|it| it.strip_suffix('>')) {
        return kind_of(inner);
    }
    match kind {
        "String" | "PathBuf" | "JoinFrom" => "string",
        "u32" | "u64" | "usize" => "number",
        "bool" => "boolean",
        "Span" => "duration",
        "Vec<String>" => "list of strings",
        "OneOrMore" => "string or list of strings",
        "UserOrGroup" | "KConfig" => "number or string",
        "SocketMode" => "string",
        "VotersConfig" => "number or list of numbers",
        "Faults" => "`\"lease\"` or `\"crash-stop\"`",
        "Preset" => "`\"default\"` or `\"fast\"`",
        "Vec<Right>" => "list of `\"acquire\"`, `\"see\"`, `\"operate\"`",
        "Tls" | "Limits" | "TimingConfig" => "table",
        "Vec<GateConfig>" | "Vec<Allow>" => "tables",
        other => panic!("say what the type {other} is in the reference"),
    }
    .to_owned()
}

/// The default of a field: `required`, a value, or `-` where leaving it out has a meaning.
fn default_of(name: &str, field: &str, kind: &str, attributes: &str) -> String {
    if let Some(function) = quoted(attributes, "default") {
        return format!("`{}`", body_of(function));
    }
    let of_struct = format!("impl Default for {name} {{");
    let own = SOURCES.iter().find_map(|source| source.split_once(&of_struct));
    if let Some((_, values)) = own {
        let value = values.split(&format!(" {field}: ")).nth(1).and_then(|it| it.split(',').next());
        return format!("`{}`", value.expect(field).replace('_', ""));
    }
    let is_optional = kind.starts_with("Option<") || attributes.contains("default");
    match kind {
        "bool" if is_optional => "`false`".into(),
        "u32" | "u64" | "usize" if is_optional => "`0`".into(),
        "Preset" => "`\"default\"`".into(),
        _ if is_optional => "-".into(),
        _ => "required".into(),
    }
}

/// The value that a function of the sources returns, as it is written in TOML.
fn body_of(function: &str) -> String {
    let start = format!("fn {function}() -> ");
    let (_, rest) = SOURCES.iter().find_map(|source| source.split_once(&start)).expect(function);
    let body = rest.split('{').nth(1).and_then(|it| it.split('}').next()).expect("a body").trim();
    let body = match body.split_once('"') {
        Some((_, text)) => format!("\"{}\"", text.split('"').next().unwrap_or_default()),
        None => body.replace('_', ""),
    };
    body.replace("vec![Right::Acquire]", "[\"acquire\"]")
}

//! `--cgroup`: a control group of the command's own, where this user may create one.

use std::path::Path;

use crate::Test;
use crate::fixture::Fixture;

pub(crate) const TESTS: &[Test] = &[
    ("groups::a_command_has_a_group_of_its_own", a_command_has_a_group_of_its_own),
    ("groups::without_the_option_there_is_none", without_the_option_there_is_none),
];

/// The line of cgroup v2.
const SHOW: &str = "sed -n 's/^0:://p' /proc/self/cgroup";

/// The command runs in a new group, which is removed in the end with all its processes; a child
/// that ignores TERM is killed. Where no group may be created, `auto` runs the command without one,
/// and `require` runs nothing, requests nothing and says why.
fn a_command_has_a_group_of_its_own() {
    let script = format!("{SHOW}; trap '' TERM; setsid sleep 1000 & exit 3");
    for when in ["auto", "require"] {
        let words = ["gate", "--cgroup", when, "-v", "--grace", "50ms", "--", "sh", "-c", &script];
        let (code, text, error, log) = Fixture::new(&words).finish();
        let created = error.lines().find_map(|line| line.strip_prefix("kgate: control group "));
        match created {
            Some(path) => {
                assert_eq!(code, Some(3), "{error}");
                assert!(!text.trim().is_empty() && path.ends_with(text.trim()), "{path} {text}");
                assert!(!Path::new(path).exists(), "{path} is left behind");
                assert!(log.ends_with("released by guard, marker free\n"), "{log}");
            }
            None if when == "auto" => {
                assert_eq!(code, Some(3), "{error}");
                assert!(error.contains("no control group: "), "{error}");
            }
            None => {
                assert_eq!((code, log.as_str()), (Some(2), "released by guard, marker free\n"));
                assert!(error.contains("--cgroup require: "), "{error}");
                println!("no control group may be created here: {error}");
            }
        }
    }
}

/// By default the command stays in the group of the caller.
fn without_the_option_there_is_none() {
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("this process");
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let (_, text, _, _) = Fixture::new(&["gate", "--", "sh", "-c", SHOW]).finish();
    assert_eq!(text.trim(), own);
}

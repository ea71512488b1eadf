//! Parsing, printing and rejecting scenarios.

use super::*;

const FULL: &str = "\
# An example.
#
# Source: none.
protocol tree-token
processes 3
k 1
graph 0-1 1-2
root p1
channels unordered
down kept
tolerate 0
refresh
options tree keep=off
as-printed R7
then stop
expect \"at most k slots in use\"
repaired none

start
    p1 sends initialize to p0: Initialize
p0 requests
    p0 sends request to p1: Request
# The network loses it.
p0 -> p1: request lost
p2: Refresh expires
# So no process receives it.
end
    p0 waits
";

const STATES: &str = "\
protocol stabilizing
processes 3
k 1
model state
state p1 T=Tok S=- P=p0 L=1
expect correct

p1 moves
p0(a1) p2 move
all move
end
";

/// A printed scenario is parsed as the same, and printed as the same text; the example has every
/// header.
#[test]
fn the_printed_form_is_canonical() {
    for text in [FULL, STATES] {
        let scenario: Scenario = text.parse().expect(text);
        assert_eq!(scenario.to_string(), text);
    }
    let full: Scenario = FULL.parse().unwrap();
    assert_eq!((full.steps.len(), full.steps[1].line, full.steps[1].notes.len()), (3, 24, 1));
    assert_eq!((full.root, full.repaired, full.refresh), (Some(NodeId(1)), false, true));
}

/// Defaults may be written and are not printed; they are those of the format's documentation.
#[test]
fn defaults_are_not_printed() {
    let short = "protocol vcube\nprocesses 2\nk 1\nas-printed D1\nexpect correct\n\nend\n";
    let long = "protocol vcube\nprocesses  2\nk 1\nmodel messages\nchannels fifo\ndown lost\n\
                as-printed d1\nthen go on\nexpect correct\nrepaired correct\n\n\n";
    let scenario: Scenario = long.parse().unwrap();
    assert_eq!(scenario.to_string(), short);
    assert!(scenario.repaired);
}

/// A text that is not a scenario is rejected with the line.
#[test]
fn malformed_scenarios_are_rejected() {
    let with = |header: &str, body: &str| {
        format!("protocol vcube\nprocesses 2\nk 1\n{header}expect correct\n\n{body}")
            .parse::<Scenario>()
    };
    assert!(with("", "").is_ok());
    assert!(matches!(with("channel fifo\n", ""), Err(ScenarioError::Header(4, _))));
    assert!(matches!(with("options round\n", ""), Err(ScenarioError::Header(4, _))));
    assert!(matches!(with("k 2\n", ""), Err(ScenarioError::Twice(4, _))));
    assert!(matches!(with("repaired none\n", ""), Err(ScenarioError::Together(_))));
    assert!(matches!(with("state p0 x\n", ""), Err(ScenarioError::Together(_))));
    assert!(matches!(with("", "    p0 acquires\n"), Err(ScenarioError::BelowNothing(6))));
    assert!(matches!(with("", "p0 requests\np0 sleeps\n"), Err(ScenarioError::Step(7, _))));
    assert!(matches!(with("", "p0 requests\nstart\n"), Err(ScenarioError::OutOfOrder(7))));
    assert!(matches!(with("", "end\np0 requests\n"), Err(ScenarioError::OutOfOrder(7))));
    assert!(matches!(with("model state\n", "p0 requests\n"), Err(ScenarioError::Move(7, _))));
    let too_many = "protocol vcube\nprocesses 1001\nk 1\nexpect correct\n\n".parse::<Scenario>();
    assert_eq!(too_many, Err(ScenarioError::TooMany(2, 1001)));
    assert!(too_many.unwrap_err().to_string().contains("at most 1000"));
    assert!("protocol vcube\nprocesses 1000\nk 1\nexpect correct\n\n".parse::<Scenario>().is_ok());
    assert_eq!("processes 2\n".parse::<Scenario>(), Err(ScenarioError::Missing("protocol NAME")));
}

/// An unknown property is rejected with a list of the known ones; each of these is accepted.
#[test]
fn a_property_is_known() {
    let expecting = |property: &str| {
        format!("protocol vcube\nprocesses 2\nk 1\nexpect \"{property}\"\n\n").parse::<Scenario>()
    };
    let refused = expecting("nonsense").unwrap_err();
    assert_eq!(refused, ScenarioError::Property(4, "nonsense".into()));
    for property in PROPERTIES {
        assert!(expecting(property).is_ok(), "{property}");
        assert!(refused.to_string().contains(&format!("\"{property}\"")), "{refused}");
    }
}

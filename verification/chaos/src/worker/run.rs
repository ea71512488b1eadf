//! Clients that are commands under `kgate run`.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Patience, Request, Worker};
use crate::record::What;
use crate::{clock, config, job, probe};

/// The exit code of a usage error.
const MISUSE: i32 = 2;

pub(super) fn work(mut worker: Worker) -> Result<()> {
    while !job::is_stopping(&worker.run) {
        let request = worker.draw_request();
        let stubborn = worker.rng.below(4) == 0;
        let (gate, pid) = (request.gate.clone(), std::process::id());
        worker.writer.write(&request.who, What::Asked { gate, pid })?;
        let ended =
            command(&worker, &request, stubborn)?.status().context("cannot start kgate run")?;
        // A usage error would repeat for ever and test nothing.
        ensure!(
            ended.code() != Some(MISUSE),
            "kgate run reports a usage error: see {}.log",
            worker.name
        );
        let how = ended.to_string();
        worker.writer.write(&request.who, What::Answered { how })?;
        let node_is_away = matches!(ended.code(), Some(122 | 125));
        let rest = if node_is_away { Duration::from_millis(200) } else { worker.rest() };
        clock::pause(rest);
    }
    Ok(())
}

fn command(worker: &Worker, request: &Request, stubborn: bool) -> Result<Command> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(worker.run.join(format!("{}.log", worker.name)))?;
    let mut command = Command::new(&worker.job.kgate);
    command.args([
        "run",
        &request.gate,
        "-k",
        &request.k.to_string(),
        "-p",
        &request.permits.to_string(),
    ]);
    command.args(["--node", &config::socket(&worker.run, worker.node)]);
    command.args(["--grace", &format!("{}ms", worker.job.grace_ms)]);
    match request.patience {
        Patience::ForEver => {}
        Patience::AtMost(span) => {
            command.args(["--wait", &format!("{}ms", span.as_millis())]);
        }
        Patience::NotAtAll => {
            command.arg("--no-wait");
        }
    }
    command.arg("--").arg(std::env::current_exe()?).args(["probe"]).arg(&worker.run);
    command.args([&worker.node.to_string(), &request.who, &request.hold.as_millis().to_string()]);
    if stubborn {
        command.arg(probe::STUBBORN);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Ok(command)
}

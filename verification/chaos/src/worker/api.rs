//! Clients that use the library; among them those with a planted bug.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, Result};
use kgate_client::{Client, ErrorKind, Permit};

use super::{Patience, Request, Worker};
use crate::planted::Planted;
use crate::record::What;
use crate::{clock, config, job, probe, resource};

pub(super) fn work(mut worker: Worker) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let planted = worker.job.planted.filter(|_| worker.node == 0);
        while !job::is_stopping(&worker.run) {
            // A session ends with its node's memory of it: then there is a new one.
            if let Ok(client) = Client::connect(&format!("http://{}", config::API)).await {
                session(&mut worker, &client, planted).await?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    })
}

async fn session(worker: &mut Worker, client: &Client, planted: Option<Planted>) -> Result<()> {
    while !job::is_stopping(&worker.run) {
        let request = worker.draw_request();
        if planted == Some(Planted::TwoHolders) {
            forge(worker, &request).await?;
        }
        let (gate, pid) = (request.gate.clone(), std::process::id());
        worker.writer.write(&request.who, What::Asked { gate, pid })?;
        let gate = client.gate(&request.gate).k(request.k).weight(request.permits);
        let answer = match request.patience {
            Patience::ForEver => gate.acquire().await.map(Some),
            Patience::AtMost(span) => gate.timeout(span).acquire().await.map(Some),
            Patience::NotAtAll => gate.try_acquire().await,
        };
        match answer {
            Ok(Some(permit)) => {
                let mut holder =
                    Holder { worker, client, request: &request, permit: &permit, planted };
                holder.hold().await?;
                worker.writer.write(&request.who, What::Answered { how: "held".into() })?;
                let _ = permit.release().await;
            }
            Ok(None) => worker.writer.write(&request.who, What::Answered { how: "busy".into() })?,
            Err(error) => {
                worker.writer.write(&request.who, What::Answered { how: error.to_string() })?;
                if error.kind() != ErrorKind::TimedOut {
                    return Ok(());
                }
            }
        }
        let rest = worker.rest();
        tokio::time::sleep(rest).await;
    }
    Ok(())
}

struct Holder<'a> {
    worker: &'a mut Worker,
    client: &'a Client,
    request: &'a Request,
    permit: &'a Permit,
    planted: Option<Planted>,
}

impl Holder<'_> {
    async fn hold(&mut self) -> Result<()> {
        let start = clock::now();
        let fence = self.fence()?;
        let outlives = self.planted == Some(Planted::Outlives);
        let _lock = if outlives { self.lock()? } else { None };
        let (gate, slots) = (self.request.gate.clone(), self.permit.slots().to_vec());
        let (pid, until) = (std::process::id(), self.until());
        let granted =
            What::Granted { gate, slots, fence: fence.clone(), until, pid, process: outlives };
        self.write_at(start, granted)?;
        let end = start + clock::nanoseconds(self.span());
        for beat in 0.. {
            // It looks at its deadline only after it has used the resource, as a careless program
            // does: that is what fences are for.
            if beat % probe::BEATS_A_USE == 0 {
                self.use_resource(&fence)?;
            }
            let t = clock::now();
            let until = self.until();
            if !outlives && (until <= t || self.permit.is_lost()) {
                return self.write_at(t, What::Lost { why: "its time has passed".into() });
            }
            self.write_at(t, What::Inside { until })?;
            if t >= end {
                return self.write_at(t, What::Out);
            }
            tokio::select! {
                why = self.permit.lost(), if !outlives => {
                    return self.write_at(clock::now(), What::Lost { why: why.to_string() });
                }
                () = tokio::time::sleep(probe::BEAT) => {}
            }
        }
        Ok(())
    }

    /// Some bugs show only in one that stays for long.
    fn span(&self) -> Duration {
        match self.planted {
            Some(Planted::Outlives) => Duration::from_millis(self.worker.job.lease_ms * 8),
            Some(Planted::NeverAnswered) => Duration::from_secs(600),
            Some(
                Planted::TwoHolders
                | Planted::FenceBack
                | Planted::FenceOfDecision
                | Planted::MinorityGrants,
            )
            | None => self.request.hold,
        }
    }

    fn fence(&self) -> Result<String> {
        let fence = self.permit.fence_hex().context("a gate of `slots` has fences")?;
        Ok(match self.planted {
            Some(Planted::FenceBack) if self.worker.asked > 3 => "0".repeat(fence.len()),
            Some(Planted::FenceOfDecision) => of_decision(&fence, self.worker.asked)?,
            _ => fence,
        })
    }

    fn lock(&mut self) -> Result<Option<File>> {
        let slot = self.permit.slots().first().copied().unwrap_or(0);
        Ok(resource::lock(&self.worker.run, &self.request.gate, slot)?.ok())
    }

    /// Its deadline, by the real clock.
    fn until(&self) -> u64 {
        clock::real(*self.client.valid_until().borrow())
    }

    fn use_resource(&mut self, fence: &str) -> Result<()> {
        let until = self.until();
        for slot in self.permit.slots() {
            let Worker { run, writer, .. } = &mut *self.worker;
            probe::use_resource(
                run,
                writer,
                &self.request.who,
                &self.request.gate,
                *slot,
                fence,
                || Ok(until),
            )?;
        }
        Ok(())
    }

    fn write_at(&mut self, t: u64, what: What) -> Result<()> {
        self.worker.writer.write_at(t, &self.request.who, what)
    }
}

/// The planted bug of a fence from the decision's clock: that of the view, of a clock that counts
/// only its own decisions, of the node (LEASES 9: view 40 bits, lamport 48, node 16, count 24).
fn of_decision(fence: &str, decisions: u64) -> Result<String> {
    let fence =
        u128::from_str_radix(fence, 16).context("a fence is a number of 32 hexadecimal digits")?;
    let lamport = ((1_u128 << 48) - 1) << 40;
    Ok(format!("{:032x}", (fence & !lamport) | (u128::from(decisions) << 40)))
}

/// The planted bug of two holders: it enters without a request.
async fn forge(worker: &mut Worker, request: &Request) -> Result<()> {
    let (gate, pid) = (request.gate.clone(), std::process::id());
    let (who, fence) = (format!("{}-forged", request.who), "f".repeat(32));
    let granted =
        What::Granted { gate, slots: vec![0], fence, until: u64::MAX, pid, process: false };
    worker.writer.write(&who, granted)?;
    tokio::time::sleep(request.hold).await;
    worker.writer.write(&who, What::Out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only the clock in the middle of a fence is another one: a fence of an older view stays
    /// smaller.
    #[test]
    fn a_fence_of_the_decisions_clock() {
        let fence = "00000000ab0000001234560003000007";
        assert_eq!(of_decision(fence, 2).unwrap(), "00000000ab0000000000020003000007");
        assert!(of_decision("x", 2).is_err());
    }
}

//! A program that is itself three nodes of a cluster, as three machines would each be one: `cargo
//! run -p kgate-node --example embedded`.
//!
//! Nothing runs beside it. Each "machine" asks its own node, in its own process.

use kgate_client::Client;
use kgate_node::{Config, Faults, Node};
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await?);
    }
    let nodes: Vec<String> = listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.to_string()))
        .collect::<std::io::Result<_>>()?;
    let mut machines = Vec::new();
    for (id, listener) in (0..).zip(listeners) {
        // Nothing of it survives, so a silent node counts as dead. With a folder `data` for
        // each they would tolerate restarts and cut networks.
        let faults = Some(Faults::CrashStop);
        let config = Config { id, nodes: nodes.clone(), faults, ..Config::alone("127.0.0.1:0") };
        machines.push(Node::start_on(config, Some(listener)).await?);
    }
    for machine in &machines {
        let permit = Client::connect(&machine.api()[0]).await?.gate("migration").acquire().await?;
        println!(
            "node {} migrates, fence {}",
            permit.node(),
            permit.fence_hex().unwrap_or_default()
        );
        permit.release().await?;
    }
    for machine in machines {
        machine.stop().await?;
    }
    Ok(())
}

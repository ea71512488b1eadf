//! Twenty jobs share three slots: each job learns its slot, as it would learn its GPU. `cargo run
//! -p kgate-node --example worker_pool -- [NODE]`

use std::time::Duration;

use kgate_client::Client;
use kgate_node::{Config, Node};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (address, _node) = match std::env::args().nth(1) {
        Some(address) => (address, None),
        None => {
            let node = Node::start(Config::alone("127.0.0.1:0")).await?;
            (node.api()[0].clone(), Some(node))
        }
    };
    let client = Client::connect(&address).await?;
    let mut jobs = Vec::new();
    for job in 0..20_u64 {
        let gate = client.gate("gpu").k(3);
        jobs.push(tokio::spawn(async move {
            let permit = gate.acquire().await?;
            println!(
                "job {job:2} on slot {}, fence {}",
                permit.slots()[0],
                permit.fence_hex().unwrap_or_default()
            );
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(20 + 7 * (job % 3))) => {}
                why = permit.lost() => println!("job {job} stops: {why}"),
            }
            permit.release().await?;
            Ok::<(), kgate_client::Error>(())
        }));
    }
    for job in jobs {
        job.await??;
    }
    Ok(())
}

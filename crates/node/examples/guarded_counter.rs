//! Many tasks increment a counter in a file, one at a time: `cargo run -p kgate-node --example
//! guarded_counter -- [NODE]`.
//!
//! Reading, adding and writing is not atomic, so without the permit increments would be lost. The
//! argument is the address of a node; without it, the program runs a node of its own.

use std::path::Path;

use kgate_client::Client;
use kgate_node::{Config, Node};

const ADDERS: u32 = 8;
const EACH: u32 = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (address, _node) = match std::env::args().nth(1) {
        Some(address) => (address, None),
        None => {
            let node = Node::start(Config::alone("127.0.0.1:0")).await?;
            (node.api()[0].clone(), Some(node))
        }
    };
    let file = std::env::temp_dir().join(format!("kgate-counter-{}", std::process::id()));
    std::fs::write(&file, "0")?;
    let mut adders = Vec::new();
    for _ in 0..ADDERS {
        let (client, file) = (Client::connect(&address).await?, file.clone());
        adders.push(tokio::spawn(async move {
            for _ in 0..EACH {
                let permit = client.gate("counter").acquire().await?;
                add_one(&file).await.expect("the file is ours");
                permit.release().await?;
            }
            Ok::<(), kgate_client::Error>(())
        }));
    }
    for adder in adders {
        adder.await??;
    }
    let total = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    println!("{total} of {}", ADDERS * EACH);
    assert_eq!(total, (ADDERS * EACH).to_string());
    Ok(())
}

/// Increments in two steps; other tasks run in between.
async fn add_one(file: &Path) -> std::io::Result<()> {
    let count: u32 = std::fs::read_to_string(file)?.parse().expect("a number");
    tokio::task::yield_now().await;
    std::fs::write(file, (count + 1).to_string())
}

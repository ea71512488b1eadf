//! Prints holders and queue of a gate whenever they change: `cargo run -p kgate-client --example
//! watch -- GATE [ADDRESS]`. Without an address it asks the node of this machine.

use kgate_client::{Address, Status};
use tokio_stream::StreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let gate = arguments.next().ok_or("usage: watch GATE [ADDRESS]")?;
    let address = match arguments.next() {
        Some(address) => address.parse()?,
        None => Address::local()?,
    };
    let mut replies = Box::pin(Status::watch(address, Some(&gate)).await?);
    while let Some(status) = replies.next().await {
        let status = status?;
        let Some(gate) = status.gate(&gate) else { continue };
        println!(
            "{}/{} slots in use, {} waiting",
            gate.slots_in_use(),
            gate.k(),
            gate.waiting().len()
        );
        for holder in gate.holders() {
            let process = holder.process();
            println!(
                "  {:?}: pid {} of {}@{}",
                holder.slots(),
                process.pid,
                process.user,
                process.host
            );
        }
    }
    Ok(())
}

//! Acquires one of two slots and shows it, without `async`: `cargo run -p kgate-client --example
//! blocking`. It asks the node of this machine.

use std::time::Duration;

use kgate_client::Error;
use kgate_client::blocking::Client;

fn main() -> Result<(), Error> {
    let client = Client::local()?;
    let permit = client.gate("build").k(2).timeout(Duration::from_secs(60)).acquire()?;
    println!("slot {:?}, fence {:?}", permit.slots(), permit.fence_hex());
    permit.release()
}

//! kgate as a peer: one session a client, spread over the nodes; the gate is made by the first who
//! asks.

use crate::core::Sem;
use anyhow::Result;
use kgate_client::{Client, Permit};

pub struct Kgate {
    client: Client,
    gate: String,
    k: u32,
    permit: Option<Permit>,
}

impl Kgate {
    pub async fn connect(address: &str, gate: &str, k: usize) -> Result<Self> {
        let client = Client::connect(address).await?;
        Ok(Kgate { client, gate: gate.to_string(), k: k as u32, permit: None })
    }
}

impl Sem for Kgate {
    async fn acquire(&mut self) -> Result<()> {
        self.permit = Some(self.client.gate(&self.gate).k(self.k).acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        if let Some(permit) = self.permit.take() {
            permit.release().await?;
        }
        Ok(())
    }
}

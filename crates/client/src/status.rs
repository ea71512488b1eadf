//! Looking at gates.

use std::time::Duration;

use kgate_api::v1::{StatusReply, StatusRequest};
use tokio_stream::{Stream, StreamExt};

use crate::{Address, Client, Error};

/// How long a node may take to accept a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);

impl Client {
    /// Who holds what and who waits, at all nodes: of one gate, or of all.
    pub async fn status<A>(address: A, gate: Option<&str>) -> Result<StatusReply, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        let mut api = address.connect(CONNECT).await?;
        let reply = api.gates.status(StatusRequest { gate: gate.map(str::to_owned) }).await;
        reply.map(tonic::Response::into_inner).map_err(|status| api.said_no(&status))
    }

    /// The same, again whenever it has changed.
    pub async fn watch<A>(
        address: A,
        gate: Option<&str>,
    ) -> Result<impl Stream<Item = Result<StatusReply, Error>> + use<A>, Error>
    where
        A: TryInto<Address>,
        Error: From<A::Error>,
    {
        let address: Address = address.try_into()?;
        let mut api = address.connect(CONNECT).await?;
        let replies = api.gates.watch(StatusRequest { gate: gate.map(str::to_owned) }).await;
        let replies = replies.map_err(|status| api.said_no(&status))?.into_inner();
        Ok(replies.map(move |reply| reply.map_err(|status| api.said_no(&status))))
    }
}

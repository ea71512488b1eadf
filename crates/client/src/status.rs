//! Looking at gates.

use std::time::Duration;

use kgate_api::v1::gates_client::GatesClient;
use kgate_api::v1::{StatusReply, StatusRequest};
use tokio_stream::{Stream, StreamExt};

use crate::{Address, Client, Error, Refusal};

/// How long a node may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(3);

impl Client {
    /// Who holds what and who waits, at all nodes: of one gate, or of all.
    pub async fn status(address: &str, gate: Option<&str>) -> Result<StatusReply, Error> {
        let address: Address = address.parse()?;
        let mut api = GatesClient::new(address.connect(CONNECT).await?);
        let reply = api.status(StatusRequest { gate: gate.map(str::to_owned) }).await;
        reply.map(tonic::Response::into_inner).map_err(|status| said_no(&address, &status))
    }

    /// The same, again whenever it has changed.
    pub async fn watch(
        address: &str,
        gate: Option<&str>,
    ) -> Result<impl Stream<Item = Result<StatusReply, Error>> + use<>, Error> {
        let address: Address = address.parse()?;
        let mut api = GatesClient::new(address.connect(CONNECT).await?);
        let replies = api.watch(StatusRequest { gate: gate.map(str::to_owned) }).await;
        let replies = replies.map_err(|status| said_no(&address, &status))?.into_inner();
        Ok(replies.map(move |reply| reply.map_err(|status| said_no(&address, &status))))
    }
}

fn said_no(address: &Address, status: &tonic::Status) -> Error {
    let text = status.message().to_owned();
    if matches!(status.code(), tonic::Code::Unavailable | tonic::Code::Unknown) {
        return Error::NoNode { address: address.to_string(), why: text };
    }
    Error::Refused(Refusal::new(0, text))
}

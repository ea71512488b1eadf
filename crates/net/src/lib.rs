//! Links between the nodes of a cluster: framing, TLS, reconnection, and delivery of messages in
//! order.

mod channel;
mod link;
mod links;
mod lossy_channel;
mod tls;
pub mod wire;

pub use channel::{ChannelError, Window};
pub use link::Refusal;
pub use links::{
    LinkConfig, LinkEvent, LinkLimits, Links, MembershipError, SendError, StartError, WhenFull,
    check_cluster, check_plain,
};
pub use tls::{
    ClientCertificate, Security, TlsError, TlsFileError, acceptor, client_identity, client_name,
    dns_names, node_name,
};

//! kgate on a real network: links between nodes, and the driver of any protocol, bytes in and bytes
//! out.

mod channel;
mod driver;
mod link;
mod links;
mod lossy;
mod tls;
pub mod wire;

pub use channel::{Broken, Channel, Greeting, Window};
pub use driver::{Deed, Drive, Driver, NotTaken, Order, TimerKey, Unreadable};
pub use link::refuses_this_incarnation;
pub use links::{
    LinkConfig, LinkEvent, LinkLimits, Links, NotAdded, NotSent, NotStarted, WhenFull,
    check_cluster, check_plain,
};
pub use tls::{
    Callers, NotLoaded, Security, acceptor, client_name, client_of, names, node_name, what_tls_says,
};

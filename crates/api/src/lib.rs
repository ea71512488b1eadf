//! The API of a kgate node: the types of `proto/kgate.proto` for gRPC and for frames on a Unix
//! socket, the same replies as JSON and in words, and the clock that measures leases.

mod clock;
mod codes;
mod estimate;
mod explain;
pub mod frames;
pub mod json;
mod printable;
mod secrets;

pub use clock::LeaseInstant;
pub use estimate::estimate;
pub use explain::{
    ago, count, explain, k_origin, note, omitted_text, slot_text, taken, unknown, waiting,
};
pub use printable::{printable, printable_lines, printable_status};

/// The file in the folder of a user's own node that clients lock (shared) from before they look for
/// the node until they are connected. The node locks it (exclusive) before it stops for lack of
/// clients, so it never stops between the two.
pub const CLIENTS_LOCK: &str = "clients.lock";

/// Version 1 of the API.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("kgate.v1");
}

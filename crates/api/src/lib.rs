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
pub use explain::{ago, explain, k_origin, note, slot_text, taken, unknown};
pub use printable::{printable, printable_lines, printable_status};

/// Version 1 of the API.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("kgate.v1");
}

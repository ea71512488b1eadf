//! The API of a kgate node: the types of `proto/kgate.proto` for gRPC, the same replies as JSON,
//! and the clock that measures leases.

mod clock;
mod codes;
mod explain;
pub mod json;
mod secrets;

pub use clock::LeaseInstant;
pub use explain::{ago, explain, taken, unknown};

/// Version 1 of the API.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("kgate.v1");
}

//! The API of a kgate node: the types of `proto/kgate.proto`, for gRPC, and the clock by which what
//! they say counts.

mod clock;
mod explain;
pub mod json;
mod secrets;

pub use clock::LeaseInstant;
pub use explain::{ago, explain, taken, unknown};

/// The first version of the API.
#[allow(missing_docs, clippy::all)]
pub mod v1 {
    tonic::include_proto!("kgate.v1");
}

//! What can go wrong, for people and for programs.

use kgate_api::v1;

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No node answers there.
    #[error("no kgate node at {address}: {why}")]
    NoNode {
        /// Where it should be.
        address: String,
        /// What happened.
        why: String,
    },
    /// The node says no.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// It took too long.
    #[error("no permit within {0:?}")]
    TimedOut(std::time::Duration),
    /// The address makes no sense.
    #[error(
        "`{0}` is no address of a node: write https://HOST:PORT, http://HOST:PORT or unix:PATH"
    )]
    Address(String),
    /// What this client was to show cannot be shown.
    #[error("{0}")]
    Credentials(String),
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

/// The node says no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What kind of reason.
    pub code: v1::ErrorCode,
    /// The reason.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(code: i32, message: String) -> Self {
        Self { code: v1::ErrorCode::try_from(code).unwrap_or_default(), message }
    }
}

//! The enums of the API by name, and the one mapping of error codes to the statuses of gRPC and
//! HTTP.

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use crate::v1::{ErrorCode, MemberRole, MemberState, Policy};

/// The metadata key of a gRPC error that carries its [`ErrorCode`], as a number. Several codes
/// share one gRPC status.
const KEY: &str = "kgate-error-code";

impl ErrorCode {
    /// Its name in JSON: without prefix, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::BadRequest => "bad_request",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::TooLarge => "too_large",
            Self::LimitExceeded => "limit_exceeded",
            Self::GateNotFound => "gate_not_found",
            Self::NodeNotFound => "node_not_found",
            Self::SessionNotFound => "session_not_found",
            Self::PermitNotFound => "permit_not_found",
            Self::NodeGone => "node_gone",
            Self::NoQuorum => "no_quorum",
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::TimedOut => "timed_out",
        }
    }

    /// The HTTP status and the gRPC status of an error.
    fn statuses(self) -> (u16, Code) {
        match self {
            Self::Unspecified => (500, Code::Internal),
            Self::BadRequest | Self::TooLarge => (400, Code::InvalidArgument),
            Self::Busy => (409, Code::ResourceExhausted),
            Self::Conflict => (409, Code::Aborted),
            Self::LimitExceeded => (429, Code::ResourceExhausted),
            Self::GateNotFound | Self::NodeNotFound => (404, Code::NotFound),
            // The ID was valid once.
            Self::SessionNotFound | Self::PermitNotFound => (410, Code::NotFound),
            Self::NodeGone => (503, Code::Unavailable),
            Self::NoQuorum => (503, Code::FailedPrecondition),
            Self::Unauthenticated => (401, Code::Unauthenticated),
            Self::PermissionDenied => (403, Code::PermissionDenied),
            Self::TimedOut => (504, Code::DeadlineExceeded),
        }
    }

    /// The HTTP status of an error.
    pub fn http_status(self) -> u16 {
        self.statuses().0
    }

    /// The gRPC error with this code and message.
    pub fn grpc_status(self, message: impl Into<String>) -> Status {
        let mut status = Status::new(self.statuses().1, message);
        status.metadata_mut().insert(KEY, MetadataValue::from(i32::from(self)));
        status
    }

    /// The code of a gRPC error, if a kgate node sent it. Errors of the transport have none.
    pub fn of_grpc_status(status: &Status) -> Option<Self> {
        let number: i32 = status.metadata().get(KEY)?.to_str().ok()?.parse().ok()?;
        Self::try_from(number).ok()
    }
}

impl Policy {
    /// Its name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Lease => "lease",
            Self::Hold => "hold",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Lease, Self::Hold].into_iter().find(|policy| policy.name() == name)
    }
}

impl MemberState {
    /// Its name in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Active => "active",
            Self::Suspected => "suspected",
            Self::Evicting => "evicting",
            Self::Gone => "gone",
            Self::Pending => "pending",
        }
    }
}

impl MemberRole {
    /// Its name in JSON and on the command line; empty without a role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "",
            Self::Leader => "leader",
            Self::Voter => "voter",
            Self::Follower => "follower",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every code survives the way through a gRPC error, and its name in JSON is that of the
    /// protocol file.
    #[test]
    fn every_error_code_has_a_name_and_a_status() {
        for code in (0..).map_while(|number| ErrorCode::try_from(number).ok()) {
            let status = code.grpc_status("text");
            assert_eq!(
                (ErrorCode::of_grpc_status(&status), status.message()),
                (Some(code), "text")
            );
            let name = format!("ERROR_CODE_{}", code.name().to_uppercase());
            assert_eq!(name, code.as_str_name());
            assert!(code.http_status() >= 400, "{code:?}");
        }
        assert_eq!(ErrorCode::of_grpc_status(&Status::unavailable("transport error")), None);
    }
}

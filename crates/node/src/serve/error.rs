//! Errors of the API: one type for gRPC and HTTP. The code decides the status of both
//! (`kgate_api`'s `codes.rs`).

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kgate_api::json;
use kgate_api::v1::ErrorCode;
use tonic::Status;

/// Why a request failed: a code for programs, a message for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// The node stops while it serves the request.
    pub(super) fn stopped() -> Self {
        Self::new(ErrorCode::NodeGone, "this node has stopped")
    }

    /// The reply of the core does not belong to the request: a defect of this node.
    pub(super) fn unexpected_reply() -> Self {
        Self::new(ErrorCode::Unspecified, "internal error: unexpected reply; see the node's log")
    }
}

impl From<ApiError> for Status {
    fn from(ApiError { code, message }: ApiError) -> Self {
        code.grpc_status(message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { code, message } = self;
        let status =
            StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(json::error(code, &message))).into_response();
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

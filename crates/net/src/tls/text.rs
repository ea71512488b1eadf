//! What an error of TLS means, for people.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// Whether an error of a connection comes from TLS.
pub(super) fn is_of_tls(error: &io::Error) -> bool {
    inner(error).is_some()
}

/// What it means; `expected` is the name that the other side's certificate should tolerate, if that
/// is known.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "not our enum, and it says itself what is wrong"
)]
pub(super) fn of(error: &io::Error, expected: Option<&str>) -> String {
    let Some(inner) = inner(error) else { return error.to_string() };
    match inner {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => format!(
            "its certificate does not tolerate the name {}",
            expected.unwrap_or("that it should")
        ),
        // A bad signature: an authority of the same name, with another key.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => "its certificate is not of the authority that this node trusts (`ca`)".into(),
        Error::InvalidCertificate(other) => format!("its certificate is not valid: {other}"),
        Error::NoCertificatesPresented => "it showed no certificate".into(),
        Error::InvalidMessage(_) => "it does not speak TLS: is it a node with plain links?".into(),
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::AccessDenied),
        ) => format!(
            "it does not accept this node's certificate ({alert:?}): are both of one authority?"
        ),
        other => other.to_string(),
    }
}

fn inner(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

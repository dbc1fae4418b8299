//! Why there is no connection.

use std::io;
use std::time::Duration;

use super::{ConnectionError, ConnectionErrorKind, Facts, Verdict, error_type, printable};
use crate::credential::CredentialError;
use crate::tls::TlsFileError;

/// Why a dial failed.
#[derive(Debug, Clone)]
pub struct DialError {
    kind: DialErrorKind,
    facts: Facts,
}

/// What a dial failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DialErrorKind {
    /// The capacity is not 1 to 32: nothing was dialled.
    Capacity,
    /// The provider gave no credential. Retriable unless the provider says otherwise.
    Credential,
    /// Our own TLS files can't be used, or the platform's certificate was refused: permanent. Or the handshake broke in
    /// a way that a faulty network explains too: retriable.
    Tls,
    /// The platform refused our client certificate, or its lack. Permanent.
    ClientCertificate,
    /// The name could not be resolved, or the transport failed.
    Network,
    /// The handshake took too long.
    Timeout,
    /// The platform answered with this HTTP status instead of an upgrade.
    Refused(u16),
    /// The platform broke the contract. Permanent.
    Protocol,
    /// The platform refused the registration with an error; see the code.
    Rejected,
    /// The platform closed before its welcome, with this code; 1006 where it went without a close.
    Closed(u16),
}

error_type!(DialError, DialErrorKind);

impl DialError {
    pub(crate) fn capacity() -> Self {
        let facts = Facts::new("the capacity is not 1 to 32", "CAPACITY", Verdict::Permanent);
        Self { kind: DialErrorKind::Capacity, facts }
    }

    pub(crate) fn credential(error: CredentialError) -> Self {
        let verdict = Verdict::retriable(!error.is_permanent());
        let facts = Facts::new("the credential can't be had", "CREDENTIAL", verdict).caused_by(error);
        Self { kind: DialErrorKind::Credential, facts }
    }

    pub(crate) fn tls_files(error: TlsFileError) -> Self {
        let facts = Facts::new("the TLS files can't be used", "TLS", Verdict::Permanent).caused_by(error);
        Self { kind: DialErrorKind::Tls, facts }
    }

    pub(crate) fn timed_out() -> Self {
        let facts = Facts::new("the handshake took too long", "TIMEOUT", Verdict::Retriable);
        Self { kind: DialErrorKind::Timeout, facts }
    }

    pub(crate) fn protocol(clause: &'static str) -> Self {
        Self { kind: DialErrorKind::Protocol, facts: Facts::breach(clause) }
    }

    pub(crate) fn network(clause: &'static str) -> Self {
        Self { kind: DialErrorKind::Network, facts: Facts::new(clause, "NETWORK", Verdict::Retriable) }
    }

    /// Sorts a failed read or write: TLS reports through them, too.
    pub(crate) fn io(error: io::Error) -> Self {
        let (kind, clause, code, verdict) = match tls_cause(&error) {
            Some(rustls::Error::AlertReceived(alert)) if is_about_us(*alert) => (
                DialErrorKind::ClientCertificate,
                "the platform refused the client certificate",
                "CLIENT_CERTIFICATE",
                Verdict::Permanent,
            ),
            Some(rustls::Error::AlertReceived(_)) | None => {
                (DialErrorKind::Network, "the connection failed", "NETWORK", Verdict::Retriable)
            }
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented) => {
                (DialErrorKind::Tls, "the platform's certificate was refused", "TLS", Verdict::Permanent)
            }
            Some(error) => {
                let verdict = Verdict::retriable(may_be_the_network(error));
                (DialErrorKind::Tls, "the TLS handshake failed", "TLS", verdict)
            }
        };
        Self { kind, facts: Facts::new(clause, code, verdict).caused_by(error) }
    }

    /// An answer other than 101. The status alone decides whether dialling again helps.
    pub(crate) fn refused(status: u16, code: Option<&str>, retry_after: Option<Duration>) -> Self {
        let code = code.map_or_else(|| format!("HTTP_{status}").into(), printable);
        let retriable = matches!(status, 408 | 429 | 500..=599);
        let mut facts = Facts::new("the platform refused the handshake", code, Verdict::retriable(retriable));
        facts.retry_after = retry_after;
        Self { kind: DialErrorKind::Refused(status), facts }
    }

    /// The HTTP status, where the platform answered with one instead of an upgrade.
    #[must_use]
    pub const fn status(&self) -> Option<u16> {
        match self.kind {
            DialErrorKind::Refused(status) => Some(status),
            _ => None,
        }
    }
}

impl From<ConnectionError> for DialError {
    fn from(error: ConnectionError) -> Self {
        let kind = match error.kind() {
            ConnectionErrorKind::Closed(code) => DialErrorKind::Closed(code),
            ConnectionErrorKind::Ended => DialErrorKind::Rejected,
            ConnectionErrorKind::Protocol => DialErrorKind::Protocol,
            ConnectionErrorKind::Timeout => DialErrorKind::Timeout,
            _ => DialErrorKind::Network,
        };
        Self { kind, facts: error.facts().clone() }
    }
}

/// The TLS error inside, if there is one.
fn tls_cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Whether bytes that were changed on their way, or somebody else's at that port for a while, explain the error as well.
/// Then the next dial may go well, as after any other failure of the network.
const fn may_be_the_network(error: &rustls::Error) -> bool {
    use rustls::Error;
    matches!(
        error,
        Error::DecryptError
            | Error::InvalidMessage(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::PeerMisbehaved(_)
            | Error::PeerSentOversizedRecord
    )
}

/// Whether the alert means that our certificate, or its lack, is what the platform did not like.
const fn is_about_us(alert: rustls::AlertDescription) -> bool {
    use rustls::AlertDescription as Alert;
    // A TLS 1.2 server says handshake_failure where a certificate is missing.
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
            | Alert::HandshakeFailure
    )
}

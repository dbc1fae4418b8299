//! What a relay hands its messages to.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::message::Outgoing;

/// Most characters of a failure's code.
const CODE_CHARS_MAX: usize = 64;

/// Sends messages somewhere: a webhook, a broker, a mail server.
///
/// A message may come more than once (a relay died after sending and before noting it), each time with the same
/// [`Outgoing::id`]: pass it on as the receiver's idempotency key. The future is made, polled and dropped on the relay's
/// thread and need not be `Send`; a panic in it counts as a failure. It is dropped when the relay's send timeout ends.
pub trait Sender: 'static {
    /// Sends one message. `Ok` only when the receiver has it.
    fn send(&self, message: &Outgoing) -> impl Future<Output = Result<(), SendFailure>>;

    /// What it means that the relay's send timeout has ended; by default a failure `TIMEOUT` that counts as an attempt.
    fn timed_out(&self, message: &Outgoing) -> SendFailure {
        let _any = message;
        SendFailure::retry("TIMEOUT")
    }
}

/// Why a message was not sent.
#[derive(Clone, PartialEq, Eq)]
pub struct SendFailure {
    code: String,
    remedy: Remedy,
}

/// What may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Trying again after the relay's backoff, and not before this.
    Retry(Duration),
    /// The same, as often as it takes: nothing was learnt about this message, so the attempt does not count.
    OutOfReach(Duration),
    /// Nothing: the receiver will never take this message. It is dead at once.
    None,
}

impl SendFailure {
    /// A failure that may pass. The code names its kind (`TIMEOUT`, `HTTP_503`), is kept with the message and shown to
    /// operators: no remote text, no payload. It is cut to 64 characters of `A-Z a-z 0-9 _ . -`.
    #[must_use]
    pub fn retry(code: &str) -> Self {
        Self { code: plain(code), remedy: Remedy::Retry(Duration::ZERO) }
    }

    /// A failure that says nothing about this message: its receiver takes none just now, or what is needed to send it is
    /// not at hand (a credential, a key, a database). It is tried again, as late as it is old and within the relay's
    /// backoff, and never dead. With an order key it holds back the later ones of its key all that time.
    #[must_use]
    pub fn out_of_reach(code: &str) -> Self {
        Self { code: plain(code), remedy: Remedy::OutOfReach(Duration::ZERO) }
    }

    /// A failure that will not pass.
    #[must_use]
    pub fn refused(code: &str) -> Self {
        Self { code: plain(code), remedy: Remedy::None }
    }

    /// Not before this long from now.
    #[must_use]
    pub const fn after(mut self, wait: Duration) -> Self {
        self.remedy = match self.remedy {
            Remedy::Retry(_) => Remedy::Retry(wait),
            Remedy::OutOfReach(_) => Remedy::OutOfReach(wait),
            Remedy::None => Remedy::None,
        };
        self
    }

    /// The failure's kind.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.code
    }

    /// What may help.
    #[must_use]
    pub const fn remedy(&self) -> Remedy {
        self.remedy
    }
}

fn plain(code: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    code.chars().filter(allowed).take(CODE_CHARS_MAX).collect()
}

impl fmt::Debug for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFailure").field("code", &self.code).field("remedy", &self.remedy).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_cut_to_plain_characters() {
        assert_eq!(SendFailure::retry("HTTP_503: <secret>\n").code(), "HTTP_503secret");
        assert_eq!(SendFailure::retry(&"x".repeat(100)).code().len(), 64);
    }

    #[test]
    fn a_refusal_has_no_remedy_however_long_one_waits() {
        assert_eq!(SendFailure::refused("X").after(Duration::from_secs(1)).remedy(), Remedy::None);
        assert_eq!(
            SendFailure::retry("X").after(Duration::from_secs(1)).remedy(),
            Remedy::Retry(Duration::from_secs(1))
        );
    }
}

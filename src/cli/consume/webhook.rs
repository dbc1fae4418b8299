//! The headers of Standard Webhooks: id, timestamp, signature.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::cli::exit::{Failure, Outcome};

/// The variable that holds the secret.
pub(crate) const SECRET_VARIABLE: &str = "PERILUNE_WEBHOOK_SECRET";
const PREFIX: &str = "whsec_";

/// Signs requests. Its key never prints and is wiped on drop.
#[derive(Clone)]
pub(crate) struct Signer(Zeroizing<Vec<u8>>);

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Signer {
    /// The signer of `PERILUNE_WEBHOOK_SECRET`; `None` where it is not set.
    ///
    /// # Errors
    /// A usage error for anything but `whsec_` and base64.
    pub(crate) fn from_variable() -> Outcome<Option<Self>> {
        let Some(text) = std::env::var_os(SECRET_VARIABLE) else { return Ok(None) };
        let signer = text.to_str().and_then(Self::read);
        signer.map(Some).ok_or_else(|| {
            Failure::usage(format!("{SECRET_VARIABLE} must be {PREFIX} followed by the secret's bytes in base64"))
        })
    }

    fn read(text: &str) -> Option<Self> {
        let key = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (!key.is_empty()).then(|| Self(Zeroizing::new(key)))
    }

    /// The value of `webhook-signature`: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("an HMAC key has no wrong length");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_specifications_example_has_its_signature() {
        let signer = Signer::read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let signature = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_whsec_and_base64() {
        for bad in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_*", "WHSEC_MfKQ"] {
            assert!(Signer::read(bad).is_none(), "{bad}");
        }
    }
}

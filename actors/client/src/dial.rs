//! The handshake: TCP, TLS, upgrade, `register` to `welcome`, all within its time.

mod failure;

use std::rc::Rc;
use std::sync::Arc;

use actix_codec::Framed;
use awc::http::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_PROTOCOL};
use awc::{BoxedSocket, ws};
use perilune_proto::limits;
use perilune_proto::scalar::{MessageId, SubscriptionId};
use perilune_proto::session::ClientSession;
use perilune_proto::wire::Register;
use tokio::time::Instant;

use crate::base_url::Plaintext;
use crate::connection::{Connection, Hold};
use crate::connector::Transport;
use crate::credential;
use crate::error::DialError;
use crate::message_id::NewMessageId as _;
use crate::options::Client;
use crate::pump::Pump;
use crate::refusal::Slot;
use crate::shared::Shared;
use crate::tcp::Reach;

/// What a session is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventRegistration {
    /// The subscription to consume.
    pub subscription_id: SubscriptionId,
    /// How many deliveries may be outstanding, and unread here: 1 to 32.
    pub capacity: u8,
}

impl Client {
    /// Opens a session. The whole handshake has 8 s, the credential's provider included; dropping the
    /// future ends the attempt.
    ///
    /// The provider is asked, TLS files are read and names resolved anew each time. No redirect is followed.
    ///
    /// # Errors
    /// See [`crate::DialErrorKind`]; [`DialError::is_retriable`] tells whether to dial again.
    pub async fn dial_events(&self, registration: EventRegistration) -> Result<Connection, DialError> {
        let EventRegistration { subscription_id, capacity } = registration;
        if !limits::CAPACITY.contains(&capacity) {
            return Err(DialError::capacity());
        }
        let timeouts = self.0.timeouts;
        let deadline = Instant::now() + timeouts.handshake;
        let slot = Slot::default();
        let socket = match tokio::time::timeout_at(deadline, self.upgrade(slot.clone())).await {
            Ok(upgraded) => upgraded?,
            // A refusal whose body stalls is a refusal all the same.
            Err(_) => return Err(slot.take().unwrap_or_else(DialError::timed_out)),
        };
        let parts = socket.into_parts();
        let register = Register { message_id: MessageId::new(), subscription_id, capacity };
        let session = ClientSession::open(register, deadline.into_std(), timeouts.request);
        let shared = Rc::new(Shared::new(session));
        // From here on dropping this future makes the pump close the socket.
        let hold = Hold(Rc::clone(&shared));
        actix_rt::spawn(Pump::new(shared, parts.io, parts.read_buf, timeouts).run());
        let welcome = hold.0.welcomed().await?;
        tracing::debug!(session_id = %welcome.session_id, %subscription_id, "session opened");
        Ok(Connection::new(hold, welcome))
    }

    async fn upgrade(&self, slot: Slot) -> Result<Framed<BoxedSocket, ws::Codec>, DialError> {
        let authorization = self.authorization().await?;
        let client = self.transport().await?.upgrade_client(slot.clone());
        let request = client.ws(self.0.base.events()).protocols([limits::SUBPROTOCOL]);
        match request.header(AUTHORIZATION, authorization).connect().await {
            Ok((response, socket)) => {
                check_answer(response.headers())?;
                Ok(socket)
            }
            Err(error) => Err(slot.take().unwrap_or_else(|| failure::sort(error))),
        }
    }

    /// A client for plain HTTP requests to the platform, with this client's TLS settings read afresh. It
    /// follows no redirect, since one could carry the credential elsewhere. Use it on this thread.
    ///
    /// # Errors
    /// [`crate::DialErrorKind::Tls`] where the TLS files can't be used.
    pub async fn http(&self) -> Result<awc::Client, DialError> {
        Ok(self.transport().await?.http_client())
    }

    /// The `Authorization` header for a request of [`Self::http`], from the credential's provider.
    ///
    /// # Errors
    /// [`crate::DialErrorKind::Credential`].
    pub async fn authorization(&self) -> Result<HeaderValue, DialError> {
        let asked = credential::ask(Arc::clone(&self.0.credential)).await;
        asked.map(|credential| credential.authorization()).map_err(DialError::credential)
    }

    async fn transport(&self) -> Result<Transport, DialError> {
        if !self.0.base.is_encrypted() {
            let reach = match self.0.plaintext {
                Plaintext::LoopbackOnly => Reach::LoopbackOnly,
                Plaintext::Anywhere => Reach::Anywhere,
            };
            return Ok(Transport { tls: None, reach });
        }
        let options = Arc::clone(&self.0);
        // Reading files, and the system's roots above all, takes its time.
        let loaded = tokio::task::spawn_blocking(move || options.tls.load()).await;
        match loaded {
            Ok(Ok(config)) => Ok(Transport { tls: Some(config), reach: Reach::Anywhere }),
            Ok(Err(error)) => Err(DialError::tls_files(error)),
            Err(_) => Err(DialError::network("the runtime is shutting down")),
        }
    }
}

/// awc takes any choice of the server's; the contract takes one subprotocol and no extension.
fn check_answer(headers: &HeaderMap) -> Result<(), DialError> {
    let mut chosen = headers.get_all(SEC_WEBSOCKET_PROTOCOL);
    if chosen.next().is_none_or(|protocol| protocol != limits::SUBPROTOCOL) || chosen.next().is_some() {
        return Err(DialError::protocol("the platform does not speak the subprotocol"));
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(DialError::protocol("the platform uses an extension that was not offered"));
    }
    Ok(())
}

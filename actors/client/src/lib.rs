//! One session of the `orbit.events.v1` contract: dial, read deliveries, acknowledge them. No policy.
//!
//! A [`Client`] holds the options; [`Client::dial_events`] makes a [`Connection`]. There is no reconnect,
//! heartbeat or handler here: `perilune-actors` has them. Dial within an actix system or arbiter, or a
//! tokio `LocalSet`: a connection stays on its thread, a client may go anywhere.
//!
//! ```no_run
//! # async fn consume(credential: String) -> Result<(), Box<dyn std::error::Error>> {
//! use perilune_client::{Client, Credential, EventRegistration, MessageId, NewMessageId as _};
//!
//! let client = Client::builder("https://platform.example").credential(Credential::new(credential)?).build()?;
//! let registration = EventRegistration { subscription_id: "00000000000000000000000000000001".parse()?, capacity: 4 };
//! let connection = client.dial_events(registration).await?;
//! loop {
//!     let received = connection.next().await?;
//!     println!("{} {}", received.event().event_id, received.event().event_type());
//!     connection.ack(MessageId::new(), received.proof()).await?;
//! }
//! # }
//! ```
//!
//! | module | owns |
//! | --- | --- |
//! | `options`, `base_url`, `credential`, `tls` | what a dial needs, checked early and read afresh |
//! | `tcp`, `connector`, `refusal`, `dial` | the handshake within its time |
//! | `connection`, `shared`, `requests`, `turns`, `bell` | what a caller holds, and waits for |
//! | `pump`, `codec`, `alarm` | the one task that reads the socket |
//! | `line`, `outgoing` | the socket, and what is written to it |
//! | `operation` | how an operation of an application stands |
//! | `error` | what can go wrong, and whether dialling again helps |

mod alarm;
mod base_url;
mod bell;
mod codec;
mod connection;
mod connector;
mod credential;
mod dial;
mod error;
mod line;
mod message_id;
mod operation;
mod options;
mod outgoing;
mod pump;
mod refusal;
mod requests;
mod shared;
mod tcp;
mod tls;
mod turns;

pub use connection::{Connection, Received};
pub use credential::{
    Credential, CredentialError, CredentialFile, CredentialFuture, CredentialProvider, credential_fn,
};
pub use dial::EventRegistration;
pub use error::{
    AckError, ConfigError, ConnectionError, ConnectionErrorKind, DialError, DialErrorKind, PingError, RequestError,
    RequestErrorKind,
};
pub use message_id::NewMessageId;
pub use operation::{OperationStatus, StatusAnswer, StatusError};
pub use options::{Client, ClientBuilder, Timeouts};
pub use tls::Roots;
pub use turns::TurnAnswered;

pub use perilune_proto::EventProof;
pub use perilune_proto::scalar::{MessageId, SubscriptionId};
pub use perilune_proto::wire::{Acked, Pong, Welcome};

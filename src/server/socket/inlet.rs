//! A client's messages, off the request's payload.

use actix_web::web::{Bytes, Payload};
use futures_util::StreamExt as _;

use super::read::{Breach, Incoming, Reader};

/// What comes from a client.
#[derive(Debug)]
pub(crate) enum Input {
    /// A whole message.
    Message(Incoming),
    /// The client broke RFC 6455 or the limit.
    Breach(Breach),
    /// The connection is gone.
    Lost,
}

/// The receiving half of one WebSocket. After a breach or a loss it gives [`Input::Lost`] for ever.
pub(crate) struct Inlet {
    payload: Payload,
    reader: Reader,
    /// Bytes that came and are still to be read.
    chunk: Bytes,
    lost: bool,
}

impl Inlet {
    /// Reads messages of at most `limit` bytes.
    pub(crate) fn new(payload: Payload, limit: usize) -> Self {
        Self { payload, reader: Reader::new(limit), chunk: Bytes::new(), lost: false }
    }

    /// The next input. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Input {
        while !self.lost {
            match self.reader.read(&mut self.chunk) {
                Ok(Some(message)) => return Input::Message(message),
                Err(breach) => {
                    self.lost = true;
                    return Input::Breach(breach);
                }
                Ok(None) => match self.payload.next().await {
                    Some(Ok(chunk)) => self.chunk = chunk,
                    Some(Err(_)) | None => self.lost = true,
                },
            }
        }
        Input::Lost
    }

    /// Reads and drops whatever comes until the client has closed or is gone.
    pub(crate) async fn drain(&mut self) {
        if self.lost {
            // After a breach nothing can be made out any more; wait for the end of the stream.
            while let Some(Ok(_)) = self.payload.next().await {}
            return;
        }
        loop {
            match self.next().await {
                Input::Message(Incoming::Close(_)) | Input::Lost => return,
                Input::Message(_) => {}
                Input::Breach(_) => {
                    while let Some(Ok(_)) = self.payload.next().await {}
                    return;
                }
            }
        }
    }
}

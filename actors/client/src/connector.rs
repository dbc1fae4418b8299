//! The HTTP client below a dial: one for each, so that names, certificates and sockets are fresh.

use std::sync::Arc;
use std::time::Duration;

use actix_rt::net::TcpStream;
use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use rustls::ClientConfig;

use crate::refusal::{Capture, Slot};
use crate::tcp::{Reach, Tcp};

/// Above any deadline of ours: time limits are set around the calls, where the status can be kept.
const OUT_OF_THE_WAY: Duration = Duration::from_secs(3_600);

/// What is settled before a client is made.
pub(crate) struct Transport {
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) reach: Reach,
}

impl Transport {
    /// A client for one upgrade. A refusal's status and body end up in `slot`.
    pub(crate) fn upgrade_client(self, slot: Slot) -> awc::Client {
        let builder = awc::Client::builder().connector(self.connector());
        builder.disable_redirects().disable_timeout().wrap(Capture(slot)).finish()
    }

    /// A client for plain requests.
    pub(crate) fn http_client(self) -> awc::Client {
        awc::Client::builder().connector(self.connector()).disable_redirects().finish()
    }

    fn connector(
        self,
    ) -> awc::Connector<
        impl Service<ConnectInfo<Uri>, Response = Connection<Uri, TcpStream>, Error = ConnectError> + Clone + 'static,
    > {
        // Without a limit of zero the hundred-and-first connection of a client waits for ever.
        let connector = awc::Connector::new().connector(Tcp::new(self.reach)).limit(0);
        let connector = connector.timeout(OUT_OF_THE_WAY).handshake_timeout(OUT_OF_THE_WAY);
        // `max_http_version` would throw this configuration away for the public roots: never call it.
        match self.tls {
            Some(config) => connector.rustls_0_23(config),
            None => connector,
        }
    }
}

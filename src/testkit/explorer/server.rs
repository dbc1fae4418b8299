//! Servers: their connections go through a link that can be cut.

use std::sync::Arc;
use std::time::Duration;

use super::ExploreError;
use super::engine::{Explorable, Opened};
use super::link;
use crate::inbox::OpenError;
use crate::sql::{DatabaseUrl, DatabaseUrlError, Engine, EngineName, PoolSettings};
use crate::testkit::gate::Gate;

/// A process's pool. A dead link refuses every connection, and nothing waits long for that.
fn settings() -> PoolSettings {
    PoolSettings { max_connections: 4, acquire_timeout: Duration::from_secs(2), ..PoolSettings::default() }
}

macro_rules! explorable {
    ($Db:ty, $Variant:ident, $Mode:ty, $($optional:ident)|+, $off:ident) => {
        impl Explorable for $Db {
            fn explorable(url: &DatabaseUrl) -> Result<(), ExploreError> {
                match url {
                    DatabaseUrl::$Variant(options) if options.get_socket().is_some() => Err(ExploreError::SocketFile),
                    _ => Ok(()),
                }
            }

            async fn open_gated(url: &DatabaseUrl, gate: Arc<Gate>) -> Result<Opened<Self>, ExploreError> {
                #[allow(irrefutable_let_patterns, reason = "with one engine compiled in there is no other")]
                let DatabaseUrl::$Variant(options) = url else {
                    let wanted = EngineName::$Variant;
                    return Err(DatabaseUrlError::OtherEngine { wanted, found: url.engine() }.into());
                };
                let server = (options.get_host().to_owned(), options.get_port());
                let link = link::to(EngineName::$Variant, server, Arc::clone(&gate)).await;
                let (port, carrier) = link.map_err(ExploreError::run)?;
                let mut linked = options.as_ref().clone().host("127.0.0.1").port(port);
                // Encrypted requests have no names. Where encryption is asked for, it is kept.
                if matches!(options.get_ssl_mode(), $(<$Mode>::$optional)|+) {
                    linked = linked.ssl_mode(<$Mode>::$off);
                }
                let url = DatabaseUrl::$Variant(Box::new(linked));
                let pool = <$Db as Engine>::open(&url, &settings()).await.map_err(OpenError::from)?;
                Ok(Opened { pool, gate, _link: Some(carrier) })
            }
        }
    };
}

#[cfg(feature = "postgres")]
explorable!(sqlx::Postgres, Postgres, sqlx::postgres::PgSslMode, Allow | Prefer, Disable);
#[cfg(feature = "mysql")]
explorable!(sqlx::MySql, MySql, sqlx::mysql::MySqlSslMode, Preferred, Disabled);

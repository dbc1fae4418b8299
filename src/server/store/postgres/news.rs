//! News between the servers of one database, by LISTEN and NOTIFY.
//!
//! A notice is sent after its commit and by a connection of its own, many at a time: a NOTIFY within a transaction
//! would let only one commit at a time proceed in the whole database. So a server that dies right after a commit takes
//! its notice along; the others' sweepers then find the queue's new head.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use perilune_proto::scalar::Name;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use tokio::sync::Notify;

use super::super::upkeep::Waker;
use super::super::{StoreError, Wake, Wakes, fresh};
use super::open::SchemaName;
use crate::sql::SqlError;

/// The least time between two rounds of notices.
const PAUSE: Duration = Duration::from_millis(50);
/// How long after a failure notices are sent again, and listened for again.
const RETRY: Duration = Duration::from_millis(500);
/// Notices of one round; beyond that everybody looks at everything.
const ROUND_MAX: usize = 1_000;

const SEND: &str = "SELECT pg_notify($1, text) FROM unnest($2::text[]) text";
const HEADS: &str = "SELECT name, head FROM queue";

/// The wakes of this server and, through the database, of the others.
#[derive(Debug)]
pub(super) struct News {
    waker: Waker,
    outgoing: Mutex<BTreeSet<Wake>>,
    pending: Notify,
    /// Each queue's head at the last look.
    heads: Mutex<BTreeMap<String, i64>>,
}

impl News {
    /// Starts to send and to listen, by tasks that end with the store's thread.
    pub(super) fn start(pool: &PgPool, schema: &SchemaName) -> Arc<Self> {
        let channel = format!("perilune_{schema}");
        let this_server = fresh::id();
        let news = Arc::new(Self {
            waker: Waker::new(),
            outgoing: Mutex::new(BTreeSet::new()),
            pending: Notify::new(),
            heads: Mutex::new(BTreeMap::new()),
        });
        tokio::spawn(listen(pool.clone(), channel.clone(), this_server, news.waker.clone()));
        tokio::spawn(Arc::clone(&news).send(pool.clone(), channel, this_server));
        news
    }

    async fn send(self: Arc<Self>, pool: PgPool, channel: String, this_server: u128) {
        loop {
            self.pending.notified().await;
            let wakes = std::mem::take(&mut *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner));
            let notices: Vec<_> = wakes.iter().map(|wake| notice(wake, this_server)).collect();
            match sqlx::query(SEND).bind(&channel).bind(&notices).execute(&pool).await {
                Ok(_) => {}
                Err(sqlx::Error::PoolClosed) => return,
                Err(error) => {
                    tracing::debug!(error = %SqlError::from(error), "notices were not sent");
                    // For all that went with them, once the database answers.
                    self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).insert(Wake::Everything);
                    self.pending.notify_one();
                    tokio::time::sleep(RETRY).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) fn wakes(&self) -> Wakes {
        self.waker.wakes()
    }

    /// Tells this server's sessions at once and the others' soon.
    pub(super) fn tell(&self, wakes: BTreeSet<Wake>) {
        if wakes.is_empty() {
            return;
        }
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        for wake in wakes {
            self.waker.wake(wake.clone());
            outgoing.insert(wake);
        }
        if outgoing.len() > ROUND_MAX {
            *outgoing = BTreeSet::from([Wake::Everything]);
        }
        drop(outgoing);
        self.pending.notify_one();
    }

    /// Wakes the readers of queues that have grown since the last look.
    pub(super) async fn look(&self, pool: &PgPool) -> Result<(), StoreError> {
        let found: Vec<(String, i64)> = sqlx::query_as(HEADS).fetch_all(pool).await?;
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, head) in found {
            let known = heads.entry(name.clone()).or_insert(0);
            if *known < head {
                *known = head;
                let name: Name = name.parse().map_err(|_| StoreError::Damaged("a name is none"))?;
                self.waker.wake(Wake::Queue(name));
            }
        }
        Ok(())
    }

    pub(super) fn close(&self) {
        self.waker.close();
    }
}

/// Passes on what other servers tell, and says that everything may have changed once it can hear them again.
async fn listen(pool: PgPool, channel: String, this_server: u128, waker: Waker) {
    loop {
        match hear(&pool, &channel, this_server, &waker).await {
            Err(sqlx::Error::PoolClosed) => return,
            Err(error) => tracing::warn!(error = %SqlError::from(error), "other servers can't be heard"),
            Ok(()) => {}
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn hear(pool: &PgPool, channel: &str, this_server: u128, waker: &Waker) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(channel).await?;
    // What was told before it listened.
    waker.wake(Wake::Everything);
    loop {
        match listener.try_recv().await? {
            Some(notice) => match heard(notice.payload(), this_server) {
                Some(wake) => waker.wake(wake),
                None => continue,
            },
            // The connection was lost and is made anew; what was told meanwhile is lost too.
            None => waker.wake(Wake::Everything),
        }
    }
}

/// A wake as a notice: the sending server, a letter, and what it is about.
fn notice(wake: &Wake, this_server: u128) -> String {
    match wake {
        Wake::Queue(name) => format!("{this_server:032x} q {name}"),
        Wake::Subscription(id) => format!("{this_server:032x} s {id}"),
        Wake::Stopped(id) => format!("{this_server:032x} x {id}"),
        Wake::Everything => format!("{this_server:032x} e"),
    }
}

/// Reads a notice; `None` for our own. What can't be read may mean anything.
fn heard(notice: &str, this_server: u128) -> Option<Wake> {
    let mut words = notice.split(' ');
    if words.next() == Some(&format!("{this_server:032x}")) {
        return None;
    }
    let wake = match (words.next(), words.next()) {
        (Some("q"), Some(name)) => name.parse().ok().map(Wake::Queue),
        (Some("s"), Some(id)) => id.parse().ok().map(Wake::Subscription),
        (Some("x"), Some(id)) => id.parse().ok().map(Wake::Stopped),
        _ => None,
    };
    Some(wake.unwrap_or(Wake::Everything))
}

#[cfg(test)]
mod tests {
    use perilune_proto::scalar::SubscriptionId;

    use super::*;

    #[test]
    fn a_notice_is_heard_by_others_as_it_was_told() {
        let id = SubscriptionId::from_u128(7);
        let queue = Wake::Queue("reports.v1".parse().expect("a name"));
        for wake in [queue, Wake::Subscription(id), Wake::Stopped(id), Wake::Everything] {
            assert_eq!(heard(&notice(&wake, 1), 1), None);
            assert_eq!(heard(&notice(&wake, 1), 2), Some(wake));
        }
        for strange in ["", "x", "00 q", "00 q not/a/name", "00 s 12"] {
            assert_eq!(heard(strange, 1), Some(Wake::Everything), "{strange}");
        }
    }
}

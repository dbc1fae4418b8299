//! `--faults`: a TCP proxy that cuts connections and loses what the server answers, as it goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use perilune_proto::rng::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};

/// How long a connection is left alone before something happens to it.
const PEACE: std::ops::RangeInclusive<Duration> = Duration::from_millis(150)..=Duration::from_millis(900);
/// How long the server's answers are lost before the connection is cut, so that requests arrive unanswered.
const DEAF: Duration = Duration::from_millis(40);

/// What the proxy has done to the connections so far. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Damage(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    cut: AtomicU64,
    deafened: AtomicU64,
}

impl Damage {
    /// Connections that were cut.
    pub(super) fn cut(&self) -> u64 {
        self.0.cut.load(Ordering::Relaxed)
    }

    /// Those of them whose server's last answers were swallowed first.
    pub(super) fn deafened(&self) -> u64 {
        self.0.deafened.load(Ordering::Relaxed)
    }
}

/// A proxy in front of a server. Its connections end with it.
pub(super) struct Faults {
    address: SocketAddr,
    damage: Damage,
    task: actix_rt::task::JoinHandle<()>,
}

impl Faults {
    /// Listens on a free port of this machine.
    pub(super) async fn start(server: SocketAddr, seed: u64) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.context("no port for the faults")?;
        let address = listener.local_addr()?;
        let damage = Damage::default();
        let task = actix_rt::spawn(accept(listener, server, Rng::new(seed), damage.clone()));
        Ok(Self { address, damage, task })
    }

    /// Where the proxy listens.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub(super) const fn damage(&self) -> &Damage {
        &self.damage
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mut rng: Rng, damage: Damage) {
    // Dropped with this task, and every connection with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (mut rng, damage) = (rng.fork(), damage.clone());
        connections.spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                suffer(client, server, &mut rng, &damage).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Carries bytes both ways until the peace is over, then cuts the connection.
async fn suffer(client: TcpStream, server: TcpStream, rng: &mut Rng, damage: &Damage) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let cut = Instant::now() + rng.duration_within(&PEACE);
    let ends = tokio::join!(
        carry(&mut from_client, Some(&mut to_server), cut),
        carry(&mut from_server, Some(&mut to_client), cut)
    );
    if ends == (End::Closed, End::Closed) {
        return;
    }
    if rng.chance(60) {
        // Requests still arrive and are carried out; their answers are lost.
        let cut = cut + DEAF;
        tokio::join!(carry(&mut from_client, Some(&mut to_server), cut), carry(&mut from_server, None, cut));
        damage.0.deafened.fetch_add(1, Ordering::Relaxed);
    }
    damage.0.cut.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed,
    Due,
}

/// Carries bytes one way, or into nowhere, until it is due. What was read is always written, so that nobody
/// gets half a frame for a whole one.
async fn carry(from: &mut OwnedReadHalf, mut to: Option<&mut OwnedWriteHalf>, due: Instant) -> End {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = match timeout_at(due, from.read(&mut buffer)).await {
            Ok(Ok(read @ 1..)) => read,
            Ok(_) => break,
            Err(_) => return End::Due,
        };
        if let Some(to) = &mut to
            && to.write_all(&buffer[..read]).await.is_err()
        {
            return End::Closed;
        }
    }
    if let Some(to) = to {
        let _ = to.shutdown().await;
    }
    End::Closed
}

//! Several relays, each on a thread of its own with a pool of its own as in another process, and one receiver over HTTP that
//! counts by idempotency key.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perilune::outbox::{HttpSender, Message, Relay, RelayOptions};

use super::{keyed, message, until_rows, write};
use crate::engines::{Site, TestEngine, on_every_engine};

on_every_engine! {
    four_relays_send_each_message_once_and_each_key_in_order,
}

const RELAYS: usize = 4;
const KEYS: usize = 5;
const PER_KEY: usize = 12;
const UNKEYED: usize = 60;

/// What a receiver took: idempotency key and body, in the order of arrival; and how often it said that it was busy.
#[derive(Default)]
struct Taken {
    messages: Vec<(String, String)>,
    refused: usize,
}

/// A receiver that answers every seventh request with 503.
struct Receiver {
    port: u16,
    taken: Arc<Mutex<Taken>>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let taken = Arc::<Mutex<Taken>>::default();
        let kept = Arc::clone(&taken);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for peer in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || serve(peer, &kept));
            }
        });
        Self { port, taken }
    }
}

/// Answers requests on one connection until it is closed.
fn serve(mut peer: TcpStream, taken: &Mutex<Taken>) -> Option<()> {
    let mut from = BufReader::new(peer.try_clone().ok()?);
    loop {
        let (key, body) = request(&mut from)?;
        let status = {
            let mut taken = taken.lock().expect("no panic");
            if (taken.messages.len() + taken.refused) % 7 == 6 {
                taken.refused += 1;
                "503 Busy"
            } else {
                taken.messages.push((key, body));
                "204 Fine"
            }
        };
        peer.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").as_bytes()).ok()?;
    }
}

fn request(from: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim().split_once(": ") {
            Some((name, value)) => drop(headers.insert(name.to_lowercase(), value.to_owned())),
            None if line.trim().is_empty() => break,
            // The request line.
            None => {}
        }
    }
    let mut body = vec![0; headers["content-length"].parse().expect("a length")];
    from.read_exact(&mut body).ok()?;
    Some((headers["idempotency-key"].clone(), String::from_utf8(body).expect("text")))
}

/// A relay on a thread of its own; ends when it is told, after what it sends.
fn relay<DB: TestEngine>(site: &Site<DB>, port: u16) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (tell, told) = mpsc::channel();
    let (url, settings, outbox) = (site.url.clone(), site.settings, site.outbox());
    let thread = std::thread::spawn(move || {
        actix_rt::System::new().block_on(async move {
            let pool = DB::open(&url.parse().expect("a URL"), &settings).await.expect("the database answers");
            let sender = HttpSender::new(move |_| Some(format!("http://127.0.0.1:{port}/"))).expect("a sender");
            let ms = Duration::from_millis;
            let options =
                RelayOptions::default().poll_every(ms(10)).and_then(|options| options.backoff(ms(10), ms(40)));
            let options = options.and_then(|options| options.in_flight(3)).expect("within the ranges");
            let relay = Relay::start(&outbox, pool.clone(), sender, options).expect("started");
            while told.try_recv() == Err(mpsc::TryRecvError::Empty) {
                tokio::time::sleep(ms(10)).await;
            }
            relay.drain().await;
            pool.close().await;
        });
    });
    (tell, thread)
}

async fn four_relays_send_each_message_once_and_each_key_in_order<DB: TestEngine>(site: Site<DB>) {
    let receiver = Receiver::start();
    let relays: Vec<_> = (0..RELAYS).map(|_| relay(&site, receiver.port)).collect();
    let mut ids = Vec::new();
    for n in 0..PER_KEY.max(UNKEYED / KEYS) {
        let of_keys = (0..KEYS).map(|key| keyed(&format!("k{key}"), &format!("k{key} {n:03}")));
        let free = (0..KEYS).map(|lane| message(&format!("free {lane} {n:03}")));
        let messages: Vec<Message> = of_keys.chain(free).collect();
        ids.extend(messages.iter().map(|message| message.id().to_string()));
        write(&site, messages).await;
    }
    until_rows(&site, 0).await;
    for (tell, thread) in relays {
        drop(tell);
        thread.join().expect("a relay ends in order");
    }
    {
        let taken = receiver.taken.lock().expect("no panic");
        assert!(taken.refused > 0, "some were refused and sent again");
        let mut counted: Vec<_> = taken.messages.iter().map(|(key, _)| key.clone()).collect();
        counted.sort_unstable();
        ids.sort_unstable();
        assert_eq!(counted, ids, "each once, by its idempotency key");
        for key in 0..KEYS {
            let prefix = format!("k{key} ");
            let of_key: Vec<_> = taken.messages.iter().filter(|(_, body)| body.starts_with(&prefix)).collect();
            assert!(of_key.is_sorted_by_key(|(_, body)| body), "{of_key:?}");
            assert_eq!(of_key.len(), PER_KEY);
        }
    }
    site.close().await;
}

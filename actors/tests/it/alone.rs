//! What has to be seen from outside: each test runs itself again as a process of its own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use perilune_actors::Consumer;

use crate::support::{Peer, client, soon, subscription_id, until};

const CHILD: &str = "PERILUNE_TEST_CHILD";

/// Runs the scenario in a child process and waits for its end.
fn in_a_child(test: &str, scenario: impl Future<Output = ()>) {
    if std::env::var_os(CHILD).is_some() {
        return actix::System::new().block_on(scenario);
    }
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", test])
        .env(CHILD, "1")
        .stdout(Stdio::null())
        .spawn()
        .expect("a process");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("our child") {
            break status;
        }
        if began.elapsed() > Duration::from_secs(40) {
            child.kill().expect("our child");
            panic!("it does not exit");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success());
}

#[test]
fn a_process_exits_with_handlers_blocked() {
    in_a_child("alone::a_process_exits_with_handlers_blocked", async {
        let mut peer = Peer::start().await;
        let consumer = Consumer::builder(client(&peer), subscription_id())
            .shutdown_timeout(Duration::from_millis(50))
            .handler(|_event, _context| async {
                loop {
                    std::thread::park();
                }
            })
            .build()
            .expect("in range");
        let handle = consumer.start().expect("an actix system");
        let mut session = peer.session().await;
        session.deliver(1, 1).await;
        until("blocked", || handle.stats().running == 1).await;
        handle.stop();
        assert!(handle.ended().await.expect_err("it runs").is_shutdown_timeout());
    });
}

/// Runs leave no thread behind, the sockets' and the handlers' included.
#[cfg(target_os = "linux")]
#[test]
fn a_run_takes_its_threads_along() {
    in_a_child("alone::a_run_takes_its_threads_along", async {
        let threads = || std::fs::read_dir("/proc/self/task").expect("procfs").count();
        let mut peer = Peer::start().await;
        let before = threads();
        for _ in 0..20 {
            let consumer = Consumer::builder(client(&peer), subscription_id())
                .handler(|_event, _context| async { Ok(()) })
                .build()
                .expect("in range");
            let handle = consumer.start().expect("an actix system");
            let mut session = peer.session().await;
            let sent = session.deliver(1, 1).await;
            session.settle(sent).await;
            assert!(threads() > before);
            handle.stop();
            session.closed().await;
            soon("the end", handle.ended()).await.expect("a clean stop");
        }
        // The runtime keeps a thread of its blocking pool, on which a credential was asked for, for another 10 s.
        let began = Instant::now();
        while threads() > before + 1 && began.elapsed() < Duration::from_secs(30) {
            actix_rt::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(threads() <= before + 1, "{} threads stayed", threads() - before);
    });
}

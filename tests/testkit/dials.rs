//! Faults of the handshake.

use std::time::Duration;

use perilune::client::{Client, Credential, EventRegistration};
use perilune::testkit::{DialFault, Platform, Record, Script, ScriptError, StartError, Terms, sample_event};

use crate::run::{LIMIT, calls, dial, ends, hasty, in_system, sessions, survives, survives_a_lost_lease};

#[test]
fn without_a_fault_one_session_and_one_call_do_it() {
    in_system(|| async {
        let (platform, event) = survives(Script::new()).await;
        assert_eq!((sessions(&platform), calls(&platform)), (1, 1));
        platform.journal().handled_once(event).expect("once");
        platform.journal().acknowledged(event, perilune_proto::scalar::Generation(1)).expect("the first lease");
    });
}

#[test]
fn a_refused_handshake_is_tried_again_where_the_status_says_so() {
    in_system(|| async {
        let (platform, _) = survives(Script::new().dial(1, DialFault::Refuse(503))).await;
        assert_eq!(platform.journal().records()[1], Record::HandshakeRefused { status: 503 });
        assert_eq!(sessions(&platform), 1);
        ends(Script::new().dial(1, DialFault::Refuse(403))).await;
    });
}

#[test]
fn a_handshake_that_hangs_is_given_up() {
    in_system(|| async {
        let (platform, _) = survives(Script::new().dial(1, DialFault::Hang)).await;
        assert_eq!(sessions(&platform), 1);
    });
}

#[test]
fn a_connection_may_be_cut_at_any_byte() {
    in_system(|| async {
        // In the answer's head.
        for bytes in [0, 1, 60] {
            survives(Script::new().dial(1, DialFault::CutAfter(bytes))).await;
        }
        // In the welcome, in the delivery.
        for bytes in [250, 700] {
            let (platform, event) = survives_a_lost_lease(Script::new().dial(1, DialFault::CutAfter(bytes))).await;
            platform.journal().handled_once(event).expect("what was cut off is no delivery");
        }
    });
}

#[test]
fn a_cut_connection_carries_nothing_beyond_its_bytes() {
    in_system(|| async {
        let platform = Platform::start(Script::new().dial(1, DialFault::CutAfter(700))).expect("a free port");
        platform.publish(sample_event());
        let connection = dial(&platform, &hasty(&platform)).await;
        connection.next().await.expect_err("the delivery is cut off");
    });
}

#[test]
fn whoever_has_another_credential_or_path_is_refused() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        let registration = EventRegistration { subscription_id: platform.subscription_id(), capacity: 1 };
        let stranger = Credential::new("another").expect("visible");
        let client = Client::builder(platform.url()).credential(stranger).build().expect("loopback");
        assert_eq!(client.dial_events(registration).await.expect_err("refused").status(), Some(401));
        let elsewhere = Client::builder(format!("{}/elsewhere", platform.url())).credential(platform.credential());
        let refused = elsewhere.build().expect("loopback").dial_events(registration).await.expect_err("refused");
        assert_eq!(refused.status(), Some(404));
    });
}

#[test]
fn another_subscription_is_not_found() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        let registration =
            EventRegistration { subscription_id: perilune_proto::scalar::SubscriptionId::from_u128(1), capacity: 1 };
        let refused = platform.client().dial_events(registration).await.expect_err("refused");
        assert_eq!(refused.code(), "SUBSCRIPTION_NOT_FOUND");
    });
}

#[test]
fn a_script_or_terms_that_mean_nothing_start_no_platform() {
    let zero = Platform::start(Script::new().dial(0, DialFault::Hang)).expect_err("counted from 1");
    assert!(matches!(zero, StartError::Script(ScriptError::Zero)));
    let terms = Terms { lease_ms: 30_001, ..Terms::default() };
    let error = Platform::start_with(Script::new(), terms).expect_err("too long a lease");
    assert_eq!(error.to_string(), "lease_ms is 30001 ms; the contract has 1000..=30000 ms");
    let terms = Terms { heartbeat_interval_ms: 999, ..Terms::default() };
    let error = Platform::start_with(Script::new(), terms).expect_err("too quick a heartbeat");
    assert!(error.to_string().starts_with("heartbeat_interval_ms is 999 ms"), "{error}");
}

#[test]
fn waiting_for_what_does_not_come_ends_and_says_what() {
    in_system(|| async {
        let platform = Platform::start(Script::new()).expect("a free port");
        platform.publish(sample_event());
        let limit = Duration::from_millis(20);
        let unmet = platform.journal().until("a session", limit, |_| false).await.expect_err("nobody dials");
        assert!(
            unmet.to_string().starts_with("expected a session, within 20ms; what happened:\n  Published"),
            "{unmet}"
        );
        platform.journal().until("the event", LIMIT, |records| records.len() == 1).await.expect("it is there");
    });
}

//! Guarantees about reports and the log.

use perilune::server::store::{CredentialId, Report, Verdict};
use perilune_proto::event::{Status, TaskError};
use perilune_proto::json::RawJson;
use perilune_proto::scalar::{Sequence, TaskVersion};
use perilune_proto::wire::decode_event;

use super::world::{DAY, SECOND, World, keyed, name, new_task, report, written};

pub(crate) async fn a_report_is_the_logs_next_event_and_its_tasks_next_version(world: World) {
    let task_id = new_task();
    let first = written(world.store.report(report("q", task_id, Status::Accepted)).await.expect("a verdict"));
    world.pass(SECOND).await;
    let other = written(world.store.report(report("r", new_task(), Status::Started)).await.expect("a verdict"));
    let second = written(world.store.report(report("q", task_id, Status::Succeeded)).await.expect("a verdict"));
    let places = [&first, &other, &second].map(|event| (event.sequence, event.task_version));
    assert_eq!(places, [(Sequence(1), TaskVersion(1)), (Sequence(2), TaskVersion(1)), (Sequence(3), TaskVersion(2))]);

    let (first_event, second_event) = (decode_event(&first.json), decode_event(&second.json));
    let (first_event, second_event) = (first_event.expect("an event"), second_event.expect("an event"));
    assert_eq!((second_event.event_id, second_event.sequence), (second.event_id, second.sequence));
    let snapshot = &second_event.snapshot;
    assert_eq!((snapshot.task_id, &snapshot.queue, snapshot.status), (task_id, &name("q"), Status::Succeeded));
    assert_eq!(snapshot.operation, name("GenerateReport"));
    assert_eq!(snapshot.version, TaskVersion(2));
    assert_eq!((snapshot.created_at, snapshot.updated_at), (first_event.occurred_at, second_event.occurred_at));
    assert!(snapshot.payload.is_null() && snapshot.result.is_null() && snapshot.error.is_none());
    let took = second_event.occurred_at.unix_micros() - first_event.occurred_at.unix_micros();
    assert!((1_000_000..60_000_000).contains(&took), "{took} µs between the two");
}

pub(crate) async fn opaque_json_comes_out_byte_for_byte(world: World) {
    let reader = world.reader().await;
    let payload = "{ \"n\" : 9007199254740993,\t\"big\":1e400, \"a\":[ ], \"u\":\"\\u0041\\u0000\\ud800é\u{0}\" }"
        .replace('\0', " ");
    let result = "0.1234567890123456789";
    let error = TaskError { code: "E\"\\".to_owned(), message: "line\nbreak \u{1f600}".to_owned() };
    let given = Report {
        payload: RawJson::parse(&payload, 61).expect("strict JSON"),
        result: RawJson::parse(result, 61).expect("strict JSON"),
        error: Some(error.clone()),
        ..report("q", new_task(), Status::Failed)
    };
    let task_id = given.task_id;
    let event = written(world.store.report(given).await.expect("a verdict"));
    let leased = world.lease_one(&reader).await;
    let task = world.store.task(task_id).await.expect("an answer").expect("known");
    assert_eq!(leased.event_json, event.json);
    assert!(event.json.contains(&*task.snapshot_json) && task.snapshot_json.contains(&payload));
    let decoded = decode_event(&event.json).expect("an event").snapshot;
    assert_eq!((decoded.payload.as_str(), decoded.result.as_str()), (&*payload, result));
    assert_eq!(decoded.error, Some(error));
}

pub(crate) async fn a_terminal_status_is_final(world: World) {
    for status in Status::ALL {
        let task_id = new_task();
        written(world.store.report(report("q", task_id, status)).await.expect("a verdict"));
        let next = world.store.report(report("q", task_id, Status::Started)).await.expect("a verdict");
        assert_eq!(next == Verdict::Terminal, status.is_terminal(), "{status}");
    }
}

pub(crate) async fn a_task_stays_in_its_first_queue(world: World) {
    let task_id = new_task();
    written(world.store.report(report("q", task_id, Status::Started)).await.expect("a verdict"));
    let foreign = world.store.report(report("r", task_id, Status::Succeeded)).await.expect("a verdict");
    assert_eq!(foreign, Verdict::OtherQueue);
    written(world.store.report(report("q", task_id, Status::Succeeded)).await.expect("a verdict"));
    let foreign = world.store.report(report("r", task_id, Status::Succeeded)).await.expect("a verdict");
    assert_eq!(foreign, Verdict::OtherQueue);
}

pub(crate) async fn a_task_is_its_latest_snapshot(world: World) {
    let task_id = new_task();
    assert_eq!(world.store.task(task_id).await.expect("an answer"), None);
    for status in [Status::Started, Status::NeedsReview, Status::Rejected] {
        let event = written(world.store.report(report("r", task_id, status)).await.expect("a verdict"));
        let task = world.store.task(task_id).await.expect("an answer").expect("known");
        assert_eq!(task.queue, name("r"));
        assert!(task.snapshot_json.contains(&format!("\"status\":\"{status}\"")));
        assert!(event.json.contains(&*task.snapshot_json));
    }
}

pub(crate) async fn the_same_key_and_body_get_the_first_answer(world: World) {
    let task_id = new_task();
    let send = || world.store.report(keyed(task_id, Status::Succeeded, "k1", "body"));
    let first = written(send().await.expect("a verdict"));
    assert_eq!(send().await.expect("a verdict"), Verdict::Seen(first.clone()));
    assert_eq!(send().await.expect("a verdict"), Verdict::Seen(first));
    assert_eq!(world.store.figures().await.expect("figures").head, Sequence(1));
}

pub(crate) async fn the_same_key_with_another_body_is_refused(world: World) {
    let task_id = new_task();
    let send = |body| world.store.report(keyed(task_id, Status::Started, "k1", body));
    let first = written(send("one").await.expect("a verdict"));
    assert_eq!(send("two").await.expect("a verdict"), Verdict::KeyReused);
    assert_eq!(send("one").await.expect("a verdict"), Verdict::Seen(first));
    assert_eq!(world.store.figures().await.expect("figures").head, Sequence(1));
}

pub(crate) async fn a_keys_scope_is_credential_and_task(world: World) {
    let (task_id, other) = (new_task(), new_task());
    let send = |credential, task_id, body| {
        let credential_id = CredentialId::from_u128(credential);
        world.store.report(Report { credential_id, ..keyed(task_id, Status::Started, "k1", body) })
    };
    for (credential, task_id) in [(1, task_id), (1, other), (2, task_id)] {
        written(send(credential, task_id, "body").await.expect("a verdict"));
    }
    assert_eq!(send(2, task_id, "other").await.expect("a verdict"), Verdict::KeyReused);
}

pub(crate) async fn a_key_is_forgotten_after_a_day_and_not_before(world: World) {
    let task_id = new_task();
    let send = |body| world.store.report(keyed(task_id, Status::Started, "k1", body));
    let first = written(send("one").await.expect("a verdict"));
    world.pass(DAY - SECOND).await;
    world.store.sweep().await.expect("a sweep");
    assert_eq!(send("one").await.expect("a verdict"), Verdict::Seen(first));
    world.pass(2 * SECOND).await;
    let second = written(send("two").await.expect("a verdict"));
    assert_eq!(second.task_version, TaskVersion(2), "forgotten although nothing swept it");
    assert_eq!(send("one").await.expect("a verdict"), Verdict::KeyReused);
    world.pass(2 * DAY).await;
    assert_eq!(world.store.sweep().await.expect("a sweep").forgotten, 1);
    written(send("three").await.expect("a verdict"));
}

pub(crate) async fn the_same_key_sent_at_once_is_written_once(world: World) {
    let task_id = new_task();
    let sent = (0..32).map(|_| world.store.report(keyed(task_id, Status::Succeeded, "k1", "body")));
    let verdicts = futures_util::future::join_all(sent).await;
    let mut first = None;
    let mut seen = Vec::new();
    for verdict in verdicts {
        match verdict.expect("a verdict") {
            Verdict::Written(event) => assert_eq!(first.replace(event), None, "written twice"),
            Verdict::Seen(event) => seen.push(event),
            other => panic!("{other:?}"),
        }
    }
    let first = first.expect("written once");
    assert_eq!(seen, vec![first; 31]);
}

pub(crate) async fn a_refused_report_leaves_no_key(world: World) {
    let task_id = new_task();
    written(world.store.report(report("q", task_id, Status::Failed)).await.expect("a verdict"));
    for body in ["one", "two"] {
        let refused = world.store.report(keyed(task_id, Status::Started, "k1", body)).await.expect("a verdict");
        assert_eq!(refused, Verdict::Terminal);
    }
}

pub(crate) async fn a_batch_gets_one_verdict_a_report_in_order(world: World) {
    let task_id = new_task();
    let mut reports: Vec<_> = (0..997).map(|_| report("q", new_task(), Status::Accepted)).collect();
    reports.insert(500, report("q", task_id, Status::Succeeded));
    reports.insert(501, report("q", task_id, Status::Started));
    reports.insert(502, report("r", task_id, Status::Started));
    let verdicts = world.store.report_batch(reports).await.expect("verdicts");
    assert_eq!(verdicts.len(), 1_000);
    assert_eq!((&verdicts[501], &verdicts[502]), (&Verdict::Terminal, &Verdict::OtherQueue));
    let accepted = verdicts.into_iter().enumerate().filter(|(place, _)| !(501..=502).contains(place));
    let sequences: Vec<_> = accepted.map(|(_, verdict)| written(verdict).sequence.0).collect();
    assert_eq!(sequences, (1..=998).collect::<Vec<_>>());
}

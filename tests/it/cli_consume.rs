//! From `publish` to `consume`, in processes of their own.

use std::process::{Command, Stdio};

use super::cli_platform::{Platform, field};
use super::cli_process::{Running, expect_dead, run};

/// What every layer between a reporter and a handler could change.
const PAYLOADS: [&str; 5] = [
    r#"{"n":9007199254740993,"big":1e400,"tiny":0.1234567890123456789,"max":18446744073709551615}"#,
    r#"{ "spaces" :  [ 1 ,2,	3 ] , "empty" : { } }"#,
    r#"{"text":"é 漢字 🦀 \u00e9 \ud83e\udd80 \/ \" \\ \n","lone":"\ud800"}"#,
    r#"[null,true,-0.0,1E+2,"a\u0000b"]"#,
    r#""just a string""#,
];

fn lines() -> String {
    PAYLOADS.iter().map(|payload| format!("{{\"payload\":{payload},\"result\":{payload}}}\n")).collect()
}

/// Each event's payload and result as they stand in its JSON.
fn data_of(line: &str) -> (String, String) {
    #[derive(serde::Deserialize)]
    struct Event<'a> {
        #[serde(borrow)]
        snapshot: Snapshot<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Snapshot<'a> {
        #[serde(borrow)]
        payload: &'a serde_json::value::RawValue,
        #[serde(borrow)]
        result: &'a serde_json::value::RawValue,
    }
    let event: Event<'_> = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    (event.snapshot.payload.get().to_owned(), event.snapshot.result.get().to_owned())
}

#[track_caller]
fn expect_every_payload(lines: impl Iterator<Item = String>) {
    let mut data = lines.map(|line| data_of(&line)).collect::<Vec<_>>();
    let mut expected = PAYLOADS.map(|payload| (payload.to_owned(), payload.to_owned()));
    data.sort();
    expected.sort();
    assert_eq!(data, expected);
}

#[test]
fn what_was_published_is_printed_byte_for_byte() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    let published = platform.publish(&lines()).expect_code(0);
    assert_eq!(published.stdout, "published 5, already there 0, refused 0\n");
    let again = platform.publish(&lines()).expect_code(0);
    assert_eq!(again.stdout, "published 0, already there 5, refused 0\n");

    let arguments = ["consume", "--subscription", &subscription, "--print", "--max-events", "5"];
    let printed = run(&mut platform.command(&arguments)).expect_code(0);
    expect_every_payload(printed.stdout.lines().map(str::to_owned));
    assert_eq!(platform.figure(&subscription, "acknowledged"), 5);

    let first = printed.stdout.lines().next().expect("a line");
    let keys = ["event_id", "sequence", "type", "queue", "task_id", "task_version", "occurred_at", "snapshot"];
    let at = keys.map(|key| first.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {first}")));
    assert!(at.is_sorted(), "{first}");
    assert_eq!((field(first, "type"), field(first, "queue")), ("task.succeeded".to_owned(), "reports".to_owned()));
}

#[test]
fn a_command_gets_the_event_on_stdin_and_its_ids_and_no_secret() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish(&lines()).expect_code(0);
    let folder = platform.path("events");
    std::fs::create_dir(&folder).expect("made");
    let script = format!(
        "cat > {folder}/$PERILUNE_EVENT_ID; echo to-stdout; echo to-stderr >&2; \
         env > {folder}.env; echo \"$PERILUNE_EVENT_TYPE $PERILUNE_TASK_ID\" > {folder}.ids"
    );
    let arguments = ["consume", "--subscription", &subscription, "--exec", &script, "--max-events", "5"];
    let mut command = platform.command(&arguments);
    let inbox = format!("sqlite:{}", platform.path("password.db"));
    command.env("PERILUNE_INBOX", &inbox).env("PERILUNE_CONSUMER", "test");
    command.env("PERILUNE_DATABASE", &inbox).env("PERILUNE_APPLICATION_DATABASE", &inbox);
    let done = run(command.env("PERILUNE_WEBHOOK_SECRET", "whsec_c2VjcmV0")).expect_code(0);
    assert_eq!(done.stdout, "", "a command's stdout is not ours");
    let done = done.expect_stderr(&["to-stdout", "to-stderr"]);
    assert_eq!(done.stderr.matches("to-stdout").count(), 5);

    let events = std::fs::read_dir(&folder).expect("there").map(|entry| entry.expect("a file").path());
    expect_every_payload(events.map(|path| std::fs::read_to_string(path).expect("UTF-8")));
    let environment = std::fs::read_to_string(platform.path("events.env")).expect("written");
    for secret in ["PERILUNE_CREDENTIAL", "whsec_", "password.db"] {
        assert!(!environment.contains(secret), "{secret}: {environment}");
    }
    let ids = std::fs::read_to_string(platform.path("events.ids")).expect("written");
    assert!(ids.starts_with("task.succeeded ") && ids.trim().len() == "task.succeeded ".len() + 32, "{ids}");
}

#[test]
fn an_event_whose_command_fails_comes_again() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let tries = platform.path("tries");
    let script = format!("echo x >> {tries}; [ $(wc -l < {tries}) -ge 2 ]");
    let arguments = ["consume", "--subscription", &subscription, "--exec", &script, "--max-events", "1", "--notices"];
    let done = run(&mut platform.command(&arguments)).expect_code(0);
    let kinds = |kind: &str| done.stderr.matches(&format!("\"kind\":\"{kind}\"")).count();
    assert_eq!((kinds("connected"), kinds("handler_failed"), kinds("acknowledged"), kinds("stopped")), (1, 1, 1, 1));
    assert!(done.stderr.contains("\"code\":\"HANDLER_FAILED\"") && done.stderr.contains("\"generation\":\"2\""));
    let first = done.stderr.lines().next().expect("a notice");
    assert!(
        first.starts_with("{\"at\":\"") && first.contains(&format!("\"subscription_id\":\"{subscription}\"")),
        "{first}"
    );
}

#[test]
fn a_finished_event_is_not_handled_again_after_a_restart() {
    let mut platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n{}\n").expect_code(0);
    let (runs, inbox) = (platform.path("runs"), format!("sqlite:{}", platform.path("inbox.db")));
    let script = format!("echo $PERILUNE_EVENT_ID >> {runs}");
    let consume = |platform: &Platform| {
        let arguments = ["consume", "--subscription", &subscription, "--exec", &script, "--max-events", "2"];
        let mut command = platform.command(&arguments);
        run(command.args(["--inbox", &inbox, "--consumer", "test"])).expect_code(0);
    };
    consume(&platform);
    // The platform delivers everything once more, by new deliveries.
    run(&mut platform.command(&["subscription", "seek", &subscription, "--to", "earliest"])).expect_code(0);
    platform.stop("TERM").expect_code(0);
    platform.serve();
    consume(&platform);
    assert_eq!(std::fs::read_to_string(&runs).expect("written").lines().count(), 2);
    assert_eq!(platform.figure(&subscription, "acknowledged"), 4);
}

#[test]
fn no_more_events_are_handled_than_were_asked_for() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish(&"{}\n".repeat(20)).expect_code(0);
    let arguments = ["consume", "--subscription", &subscription, "--print", "--capacity", "8", "--max-events", "3"];
    let printed = run(&mut platform.command(&arguments)).expect_code(0);
    assert_eq!(printed.stdout.lines().count(), 3, "{printed:?}");
    assert_eq!(platform.figure(&subscription, "acknowledged"), 3);
}

#[test]
fn a_first_signal_stops_in_order_and_reaches_the_command() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let script = "trap 'echo told; exit 0' TERM; echo begun; while :; do sleep 0.05; done";
    let consumer =
        Running::start(&mut platform.command(&["consume", "--subscription", &subscription, "--exec", script]));
    consumer.wait_for("begun");
    consumer.signal("TERM");
    consumer.wait_for("told");
    consumer.finish().expect_code(0);
    assert_eq!(platform.figure(&subscription, "acknowledged"), 1, "exit 0 is ok, even after the signal");
}

/// The same command, begun by another one that sets up what it inherits.
fn begun_by(launcher: &[&str], plain: &Command) -> Command {
    let mut command = Command::new(launcher[0]);
    command.args(&launcher[1..]).arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Whether these tests run under `nohup` or the like, so that whatever they start ignores SIGHUP, too.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask") & 1 != 0)
}

#[test]
fn a_lost_terminal_stops_in_order_unless_it_was_to_be_outlived() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let script = "trap 'echo told; exit 0' TERM; echo pid $$; while :; do sleep 0.05; done";
    let plain = platform.command(&["consume", "--subscription", &subscription, "--exec", script]);
    let hears: &[&str] = if is_hangup_ignored() { &["env", "--default-signal=HUP"] } else { &["env"] };
    let consumer = Running::start(&mut begun_by(hears, &plain));
    let pid = consumer.wait_for("pid ").trim_start_matches("pid ").to_owned();
    consumer.signal("HUP");
    consumer.wait_for("told");
    consumer.finish().expect_code(0);
    expect_dead(&pid);

    platform.publish("{\"payload\":2}\n").expect_code(0);
    // As `nohup` does it: the shell ignores the signal, and what it becomes inherits that.
    let outlives = ["/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""];
    let consumer = Running::start(&mut begun_by(&outlives, &plain));
    consumer.wait_for("pid ");
    consumer.signal("HUP");
    // It goes on: the next event is begun, too.
    platform.publish("{\"payload\":3}\n").expect_code(0);
    consumer.wait_for("pid ");
    consumer.signal("TERM");
    consumer.finish().expect_code(0);
    assert_eq!(platform.figure(&subscription, "acknowledged"), 3);
}

#[test]
fn a_stop_that_runs_out_of_time_names_what_runs_and_leaves_nothing_behind() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let script = "trap '' TERM; echo pid $$; while :; do sleep 0.05; done";
    let arguments = ["consume", "--subscription", &subscription, "--exec", script, "--shutdown-timeout", "300ms"];
    let consumer = Running::start(&mut platform.command(&arguments));
    let pid = consumer.wait_for("pid ").trim_start_matches("pid ").to_owned();
    consumer.signal("INT");
    consumer.finish().expect_code(4).expect_stderr(&["shutdown timeout: 1 unconfirmed, 1 running", "\n  running "]);
    expect_dead(&pid);
}

#[test]
fn a_second_interrupt_ends_at_once_and_kills_the_command() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let script = "trap 'echo deaf' TERM; echo pid $$; while :; do sleep 0.05; done";
    let consumer =
        Running::start(&mut platform.command(&["consume", "--subscription", &subscription, "--exec", script]));
    let pid = consumer.wait_for("pid ").trim_start_matches("pid ").to_owned();
    consumer.signal("INT");
    consumer.wait_for("deaf");
    consumer.signal("INT");
    consumer.finish().expect_code(130);
    expect_dead(&pid);
}

#[test]
fn a_permanent_error_ends_with_its_code() {
    let platform = Platform::start();
    let unknown = "0".repeat(32);
    run(&mut platform.command(&["consume", "--subscription", &unknown, "--print"]))
        .expect_code(3)
        .expect_stderr(&["SUBSCRIPTION_NOT_FOUND"]);
    let subscription = platform.subscribe();
    let mut command = platform.command(&["consume", "--subscription", &subscription, "--print"]);
    run(command.env("PERILUNE_CREDENTIAL", "prl_wrong")).expect_code(3).expect_stderr(&["UNAUTHENTICATED"]);
    let reporter = platform.create_credential("reporter", "report");
    let mut command = platform.command(&["consume", "--subscription", &subscription, "--print"]);
    run(command.env("PERILUNE_CREDENTIAL", reporter)).expect_code(3).expect_stderr(&["error: "]);
}

#[test]
fn a_closed_stdout_ends_the_command_and_acknowledges_nothing() {
    let platform = Platform::start();
    let subscription = platform.subscribe();
    platform.publish("{}\n").expect_code(0);
    let mut command = platform.command(&["consume", "--subscription", &subscription, "--print"]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    run(command.stdout(full)).expect_code(1).expect_stderr(&["can't write to standard output"]);
    assert_eq!(platform.figure(&subscription, "acknowledged"), 0);
}

#[test]
fn a_closed_stderr_changes_no_exit_code() {
    let platform = Platform::start();
    let unknown = "0".repeat(32);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = platform.command(&["consume", "--subscription", &unknown, "--print", "--notices"]);
    let status = command.stderr(writer).status().expect("the binary runs");
    assert_eq!(status.code(), Some(3));
}

//! Many results from NDJSON: batch after batch, each tried again until the platform has answered.

use super::super::api::{Api, ApiError, Problem};
use super::super::exit::{Failure, Outcome};
use super::super::progress::Progress;
use super::super::retry::Retry;
use super::super::signals::{self, Hangup, StopSignal};
use super::batch::{self, Verdict};
use super::line::Line;
use super::{Defaults, PublishArgs, reader};

/// How it went, line by line.
#[derive(Debug, Default, serde::Serialize)]
struct Tally {
    /// Written by this run.
    published: u64,
    /// Written by an earlier run of the same input.
    already_there: u64,
    /// Neither: reported on stderr.
    refused: u64,
}

pub(super) async fn run(args: &PublishArgs, file: &str) -> Outcome {
    let api = Api::open(&args.connect).await?;
    let stop = signals::listen(Hangup::Stops, || {})?;
    let defaults = Defaults { queue: args.queue.clone(), operation: args.operation.clone(), status: args.status };
    let mut batches = reader::start(file, defaults)?;
    let progress = Progress::start("publish", reader::count(file));
    let mut publisher = Publisher { api, retry: Retry::new(args.retry_for), stop, progress, tally: Tally::default() };
    let ended = loop {
        let batch = tokio::select! {
            batch = batches.recv() => batch,
            () = publisher.stop.wait() => break Err(Failure::failed("interrupted; publish the same input again to go on")),
        };
        match batch {
            None => break Ok(()),
            Some(Err(error)) => break Err(Failure::failed(format!("--ndjson {file} can't be read: {error}"))),
            Some(Ok(batch)) => {
                for (number, bad) in batch.bad {
                    publisher.refuse(number, &bad.to_string());
                }
                if let Err(error) = publisher.publish(batch.lines).await {
                    break Err(error);
                }
            }
        }
    };
    publisher.end(args, ended)
}

struct Publisher {
    api: Api,
    retry: Retry,
    stop: StopSignal,
    progress: Progress,
    tally: Tally,
}

impl Publisher {
    /// Reports the lines until the platform has judged each of them.
    async fn publish(&mut self, lines: Vec<Line>) -> Outcome {
        // Halves of a batch that was too large wait here; the front is always the earliest.
        let mut open = vec![lines];
        while let Some(mut lines) = open.pop() {
            if lines.is_empty() {
                continue;
            }
            let call = batch::send(&self.api, lines.iter().map(|line| line.text.as_str()));
            match self.retry.attempt(call).await {
                Ok(verdicts) => {
                    let (again, wait) = self.judge(lines, &verdicts)?;
                    match wait {
                        Some(error) => self.retry.wait(error, Some(&self.stop)).await?,
                        None => self.retry.reset(),
                    }
                    open.push(again);
                }
                Err(ApiError::Problem(problem)) if problem.status == 413 && lines.len() > 1 => {
                    self.retry.reset();
                    let back = lines.split_off(lines.len() / 2);
                    open.extend([back, lines]);
                }
                Err(ApiError::Problem(problem)) if problem.status == 413 => {
                    self.retry.reset();
                    self.refuse_by(&lines, &problem);
                }
                Err(error) => {
                    self.retry.wait(error, Some(&self.stop)).await?;
                    open.push(lines);
                }
            }
            self.show();
        }
        Ok(())
    }

    /// Counts the verdicts. Gives back the lines that the platform could not take now, and why.
    fn judge(&mut self, lines: Vec<Line>, verdicts: &[Verdict]) -> Outcome<(Vec<Line>, Option<ApiError>)> {
        let (mut again, mut why) = (Vec::new(), None);
        for (line, verdict) in lines.into_iter().zip(verdicts) {
            match verdict.status {
                201 => self.tally.published += 1,
                200 => self.tally.already_there += 1,
                _ => {
                    let problem = verdict.problem();
                    if problem.is_retriable() {
                        again.push(line);
                        why.get_or_insert(ApiError::Problem(problem));
                    } else {
                        self.refuse_by(&[line], &problem);
                    }
                }
            }
        }
        Ok((again, why))
    }

    fn refuse_by(&mut self, lines: &[Line], problem: &Problem) {
        for line in lines {
            self.refuse(line.number, &format!("{}: {}", problem.code, problem.reason));
        }
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.tally.refused += 1;
        self.progress.note(&format!("line {number}: {why}"));
    }

    fn show(&mut self) {
        let done = self.tally.published + self.tally.already_there + self.tally.refused;
        let message = if self.tally.refused > 0 { format!("{} refused", self.tally.refused) } else { String::new() };
        self.progress.at(done, &message);
    }

    /// Says how it went, whether it went well or not.
    fn end(self, args: &PublishArgs, ended: Outcome) -> Outcome {
        self.progress.finish();
        let Tally { published, already_there, refused } = self.tally;
        if args.output.json {
            args.output.object(&self.tally, &[])?;
        } else {
            let line = format!("published {published}, already there {already_there}, refused {refused}");
            super::super::output::print_text(&line)?;
        }
        match ended {
            Ok(()) if refused > 0 => Err(Failure::failed(format!("{refused} lines were refused"))),
            other => other,
        }
    }
}

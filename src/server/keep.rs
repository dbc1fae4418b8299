//! Tasks that must not end silently.

use std::future::Future;
use std::time::Duration;

/// The pause before a task that panicked is started again.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs a task, and again where it panicked: a defect then costs a moment and an error line, not the server.
pub(crate) async fn keep<F>(name: &'static str, start: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match tokio::spawn(start()).await {
            Err(error) if error.is_panic() => {
                tracing::error!(task = name, "a task panicked and is started again");
                tokio::time::sleep(PAUSE).await;
            }
            // Done, or the runtime ends.
            Ok(()) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[actix_web::test]
    async fn a_task_that_panics_is_started_again_and_one_that_ends_is_not() {
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&starts);
        keep("test", move || {
            let nth = counted.fetch_add(1, Ordering::SeqCst);
            async move { assert!(nth == 1, "the first start panics") }
        })
        .await;
        assert_eq!(starts.load(Ordering::SeqCst), 2);
    }
}

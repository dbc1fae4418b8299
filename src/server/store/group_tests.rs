use super::*;

/// Does nothing, and its questions have little time.
#[derive(Default)]
struct Idle(BTreeSet<Wake>, Lapses);

impl Unit for Idle {
    const QUESTION_MAX: Duration = Duration::from_millis(10);

    async fn begin(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn settle(&mut self, _failure: Option<&StoreError>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn abandon(&mut self) {}

    fn wakes(&mut self) -> &mut BTreeSet<Wake> {
        &mut self.0
    }

    fn lapses(&mut self) -> &mut Lapses {
        &mut self.1
    }

    fn tell(&mut self, _wakes: BTreeSet<Wake>, _lapses: Lapses) {}

    async fn close(self) {}
}

/// Its transactions begin when the test says whether they may.
struct Locked {
    idle: Idle,
    begins: mpsc::Receiver<Result<(), StoreError>>,
    begun: mpsc::Sender<()>,
}

impl Unit for Locked {
    async fn begin(&mut self) -> Result<(), StoreError> {
        self.begun.send(()).await.expect("the test listens");
        self.begins.recv().await.expect("the test speaks")
    }

    async fn turn(&mut self) -> Result<(), StoreError> {
        self.idle.turn().await
    }

    async fn settle(&mut self, failure: Option<&StoreError>) -> Result<(), StoreError> {
        self.idle.settle(failure).await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.idle.commit().await
    }

    async fn abandon(&mut self) {}

    fn wakes(&mut self) -> &mut BTreeSet<Wake> {
        self.idle.wakes()
    }

    fn lapses(&mut self) -> &mut Lapses {
        self.idle.lapses()
    }

    fn tell(&mut self, _wakes: BTreeSet<Wake>, _lapses: Lapses) {}

    async fn close(self) {}
}

#[actix_web::test]
async fn all_that_came_while_a_transaction_could_not_begin_fail_with_it() {
    let ((begin, begins), (begun, mut began)) = (mpsc::channel(1), mpsc::channel(1));
    let (lane, questions) = lane();
    let served = tokio::spawn(serve(questions, Locked { idle: Idle::default(), begins, begun }));
    let ask = || lane.ask(0, |_| Box::pin(async { Ok(7) }));
    let first = ask();
    let others = async {
        began.recv().await.expect("it begins");
        let others = futures_util::future::join_all((0..QUEUE_MAX).map(|_| ask()));
        let refused = async { begin.send(Err(StoreError::silent())).await.expect("it waits") };
        // Asked in this order: the others are in the queue by then.
        tokio::join!(others, refused).0
    };
    let (first, others) = tokio::join!(first, others);
    for answer in others.iter().chain([&first]) {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    begin.send(Ok(())).await.expect("it waits");
    assert_eq!(ask().await.expect("an answer"), 7);
    assert_eq!(began.recv().await, Some(()));
    assert!(began.try_recv().is_err(), "one transaction failed for all");
    lane.close().await.expect("closed");
    served.await.expect("it ends");
}

#[actix_web::test]
async fn a_question_that_nobody_answers_fails_alone_and_the_lane_goes_on() {
    let (lane, questions) = lane();
    let served = tokio::spawn(serve(questions, Idle::default()));
    let silent = lane.ask::<(), _>(1, |_| Box::pin(std::future::pending())).await;
    assert!(matches!(silent, Err(StoreError::Unavailable(_))), "{silent:?}");
    assert_eq!(lane.ask(1, |_| Box::pin(async { Ok(7) })).await.expect("an answer"), 7);
    lane.close().await.expect("closed");
    served.await.expect("it ends");
}

#[tokio::test]
async fn a_question_that_panics_takes_nobody_along() {
    let (lane, questions) = lane::<Idle>();
    let serving = tokio::spawn(serve(questions, Idle::default()));
    let broken = lane.ask(0, |_unit| Box::pin(async { panic!("a fault of this question's own") }));
    let answer: Result<(), StoreError> = broken.await;
    assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
    assert!(lane.ask(0, |_unit| Box::pin(async { Ok(7) })).await.is_ok_and(|seven| seven == 7));
    drop(lane);
    serving.await.expect("the lane went on to its end");
}

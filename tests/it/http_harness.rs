//! A real server on loopback, in this process, and a plain HTTP client.

use std::sync::Arc;
use std::time::Duration;

use awc::http::Method;
use perilune::server::store::{CredentialSecret, HostClock, NewCredential, Role, Scope, Scopes, SqliteStore, Store};
use perilune::server::{RunningServer, Server, ServerConfig, ServerConfigBuilder};
use perilune::sql::DatabaseUrl;
use perilune_proto::scalar::TaskId;
use serde_json::{Value, json};

/// Longer than any answer takes on a busy machine; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until it holds; fails when that takes too long.
#[track_caller]
pub(crate) fn eventually(mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let (caller, begun) = (std::panic::Location::caller(), std::time::Instant::now());
    async move {
        while !holds().await {
            assert!(begun.elapsed() < PATIENCE, "it does not come to hold at {caller}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A server with a credential that may do everything on the queues `reports` and `mail`.
pub(crate) struct TestServer {
    pub(crate) running: RunningServer,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) credential: String,
    /// Where the database is, until the test ends.
    _folder: tempfile::TempDir,
}

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no json in {self:?}"))
    }

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Fails unless it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Fails unless it is a problem document of this status and code.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)), "{self:?}");
        for member in ["type", "title", "detail"] {
            assert!(problem[member].is_string(), "no {member} in {self:?}");
        }
        self
    }

    /// The pointers of a problem's bad fields.
    #[track_caller]
    pub(crate) fn pointers(&self) -> Vec<String> {
        let problem = self.json();
        let errors = problem["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
    }
}

impl TestServer {
    /// A server with the defaults.
    pub(crate) async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    /// A server with other settings than the defaults, on an SQLite file of its own.
    pub(crate) async fn start_with(set: impl FnOnce(ServerConfigBuilder) -> ServerConfigBuilder) -> Self {
        Self::start_on(|store| store, set).await
    }

    /// A server whose store is made of one on an SQLite file.
    pub(crate) async fn start_on(
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
        set: impl FnOnce(ServerConfigBuilder) -> ServerConfigBuilder,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = wrap(sqlite(folder.path()).await);
        let config = ServerConfig::builder().listen("127.0.0.1:0".parse().expect("an address")).workers(1);
        let config = set(config).build().expect("a valid configuration");
        let running = Server::start(config, Arc::clone(&store)).await.expect("the server starts");
        let credential = credential(&*store, "all", &["reports", "mail"], &Scope::ALL).await;
        Self { running, store, credential, _folder: folder }
    }

    /// Another credential.
    pub(crate) async fn credential(&self, name: &str, queues: &[&str], scopes: &[Scope]) -> String {
        credential(&*self.store, name, queues, scopes).await
    }

    /// A path of this server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.addr())
    }

    /// Calls with the server's own credential.
    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        Request::new(method, &self.url(path)).bearer(&self.credential).json(body).send().await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Reports a status of a task on `reports` and gives the written event.
    pub(crate) async fn report(&self, task: u128, status: &str) -> Value {
        let path = format!("/v1/queues/reports/tasks/{}/events", TaskId::from_u128(task));
        self.post(&path, json!({"operation": "GenerateReport", "status": status})).await.expect(201).json()
    }

    /// Creates a subscription on `reports` with settings besides, and gives its id.
    pub(crate) async fn subscribe(&self, more: Value) -> String {
        let mut settings = json!({"name": "invoices", "queues": ["reports"], "start": "latest"});
        for (name, value) in more.as_object().expect("settings") {
            settings[name] = value.clone();
        }
        let created = self.post("/v1/subscriptions", settings).await.expect(201).json();
        created["subscription_id"].as_str().expect("an id").to_owned()
    }

    /// A figure or setting of a subscription.
    pub(crate) async fn figure(&self, subscription: &str, name: &str) -> Value {
        self.get(&format!("/v1/subscriptions/{subscription}")).await.expect(200).json()[name].clone()
    }

    /// The value of a metric without labels, or with the labels as they stand in the text.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = Request::new(Method::GET, &self.url("/metrics")).send().await.expect(200).text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }
}

async fn sqlite(folder: &std::path::Path) -> Arc<dyn Store> {
    let url = format!("sqlite:{}", folder.join("perilune.db").display());
    let DatabaseUrl::Sqlite(url) = url.parse().expect("a url") else { panic!("not sqlite: {url}") };
    Arc::new(SqliteStore::open(&url, Role::Server, Arc::new(HostClock::new())).await.expect("opened"))
}

async fn credential(store: &dyn Store, name: &str, queues: &[&str], scopes: &[Scope]) -> String {
    let secret = CredentialSecret::generate();
    let new = NewCredential {
        name: name.parse().expect("a name"),
        queues: queues.iter().map(|queue| queue.parse().expect("a queue")).collect(),
        scopes: scopes.iter().copied().collect::<Scopes>(),
        secret: secret.hash(),
        expires_in: None,
    };
    store.create_credential(new).await.expect("created");
    secret.expose().to_owned()
}

/// A request in the making.
pub(crate) struct Request {
    request: awc::ClientRequest,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: Method, url: &str) -> Self {
        // A connection of its own, so that no test meets another's.
        let request = awc::Client::builder().timeout(PATIENCE).disable_redirects().finish().request(method, url);
        Self { request, body: Vec::new() }
    }

    pub(crate) fn bearer(self, credential: &str) -> Self {
        Self { request: self.request.bearer_auth(credential), ..self }
    }

    pub(crate) fn header(self, name: &'static str, value: &str) -> Self {
        Self { request: self.request.append_header((name, value)), ..self }
    }

    pub(crate) fn json(self, body: Option<Value>) -> Self {
        match body {
            Some(body) => self.header("content-type", "application/json").body(body.to_string()),
            None => self,
        }
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(crate) async fn send(self) -> Answer {
        let mut response = self.request.send_body(self.body).await.expect("an answer");
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or("?").to_owned())).collect();
        let body = response.body().limit(64 << 20).await.expect("a body");
        let text = String::from_utf8(body.to_vec()).expect("utf-8");
        Answer { status: response.status().as_u16(), headers, text }
    }
}

//! Where a run takes place: a fresh file, a server that the environment names, or an instance of the test's own that may
//! be killed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A database for one run.
pub(crate) struct Place {
    engine: &'static str,
    url: String,
    prefix: String,
    server: Option<Server>,
    _folder: Option<tempfile::TempDir>,
}

/// A database server of the test's own.
struct Server {
    child: Child,
    program: PathBuf,
    arguments: Vec<String>,
    port: u16,
}

impl Place {
    pub(crate) const fn engine(&self) -> &'static str {
        self.engine
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether the server is the test's own, so that it may be killed.
    pub(crate) const fn is_own(&self) -> bool {
        self.server.is_some()
    }

    /// Kills the server with SIGKILL and starts it again.
    pub(crate) fn kill_server(&mut self) {
        let server = self.server.as_mut().expect("a server of the test's own");
        server.child.kill().expect("killed");
        server.child.wait().expect("ended");
        // PostgreSQL's children notice by themselves and keep a successor waiting until they have.
        let until = Instant::now() + ANSWERS_WITHIN;
        loop {
            server.child = start(&server.program, &server.arguments);
            if answers(server.port, &mut server.child) {
                return;
            }
            assert!(Instant::now() < until, "the server does not come back");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A fresh folder's database needs no orderly end. It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The place of one engine's run, with a server of the test's own or not, or why there is none.
pub(crate) fn place(engine: &str, own: bool) -> Result<Place, String> {
    let named_or = |own_server: fn() -> Result<Place, String>, engine, variable| {
        if own { own_server().map_err(required) } else { named(engine, variable) }
    };
    match engine {
        "SQLite" => file(),
        "PostgreSQL" => named_or(own_postgres, "PostgreSQL", "PERILUNE_TEST_POSTGRES_URL"),
        "MySQL" => named_or(own_mariadb, "MySQL", "PERILUNE_TEST_MYSQL_URL"),
        _ => panic!("ENGINES: {engine} is none of SQLite, PostgreSQL, MySQL"),
    }
}

/// Where the databases must be there, a missing one is a failure.
fn required(skipped: String) -> String {
    assert!(std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_none(), "{skipped}");
    skipped
}

fn fresh_prefix() -> String {
    format!("c{}_", std::process::id())
}

fn file() -> Result<Place, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("crash.db").display());
    Ok(Place { engine: "SQLite", url, prefix: fresh_prefix(), server: None, _folder: Some(folder) })
}

fn named(engine: &'static str, variable: &str) -> Result<Place, String> {
    match std::env::var(variable) {
        Ok(url) => Ok(Place { engine, url, prefix: fresh_prefix(), server: None, _folder: None }),
        Err(_) if std::env::var_os("PERILUNE_TEST_DATABASES_REQUIRED").is_some() => panic!("{variable} is not set"),
        Err(_) => Err(format!(
            "\n{engine} skipped: {variable} is not set; `.ci/databases cargo test --all-features --test crash` runs it"
        )),
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// A command that the server's own user runs: neither server runs as root.
fn as_user(user: &str, program: &Path) -> (PathBuf, Vec<String>) {
    if is_root() {
        // `setpriv` becomes the program, so that the child's id is the server's.
        let arguments = [format!("--reuid={user}"), format!("--regid={user}"), "--init-groups".to_owned()];
        let mut arguments = arguments.to_vec();
        arguments.push(program.display().to_string());
        (PathBuf::from("setpriv"), arguments)
    } else {
        (program.to_path_buf(), Vec::new())
    }
}

fn run(user: &str, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let (program, mut all) = as_user(user, program);
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let output =
        Command::new(&program).args(&all).output().map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}: {text}", program.display())) }
}

fn start(program: &Path, arguments: &[String]) -> Child {
    Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server")
}

/// Waits until the port answers or the process ends.
fn answers(port: u16, child: &mut Child) -> bool {
    let until = Instant::now() + ANSWERS_WITHIN;
    while Instant::now() < until && child.try_wait().expect("a child").is_none() {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// A folder that the server's user owns.
fn folder_of(user: &str) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().expect("a folder");
    if is_root() {
        let path = folder.path().display().to_string();
        let status = Command::new("chown").args([user, &path]).status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("there is no user {user}"));
        }
    }
    Ok(folder)
}

fn own_server(
    engine: &'static str,
    user: &str,
    program: &Path,
    arguments: &[String],
    (port, url): (u16, String),
    folder: tempfile::TempDir,
) -> Result<Place, String> {
    let (program, mut all) = as_user(user, program);
    all.extend_from_slice(arguments);
    let mut server = Server { child: start(&program, &all), program, arguments: all, port };
    if !answers(port, &mut server.child) {
        return Err(format!("\n{engine} skipped: a server of the test's own does not start"));
    }
    Ok(Place { engine, url, prefix: fresh_prefix(), server: Some(server), _folder: Some(folder) })
}

fn own_postgres() -> Result<Place, String> {
    let missing = || "\nPostgreSQL skipped: no initdb below /usr/lib/postgresql".to_owned();
    let versions = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| missing())?;
    let newest = versions.filter_map(Result::ok).map(|entry| entry.path().join("bin")).max().ok_or_else(missing)?;
    let folder = folder_of("postgres")?;
    let data = folder.path().join("data").display().to_string();
    run("postgres", &newest.join("initdb"), &["-D", &data, "-U", "root", "--auth=trust", "-E", "UTF8"])?;
    let port = free_port();
    let port_text = port.to_string();
    let socket = folder.path().display().to_string();
    let arguments = ["-D", &data, "-p", &port_text, "-k", &socket, "-c", "listen_addresses=127.0.0.1"];
    let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let url = format!("postgres://root@127.0.0.1:{port}/postgres");
    own_server("PostgreSQL", "postgres", &newest.join("postgres"), &arguments, (port, url), folder)
}

fn own_mariadb() -> Result<Place, String> {
    let program = ["/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"].iter().map(Path::new).find(|path| path.exists());
    let program = program.ok_or_else(|| "\nMariaDB skipped: no mariadbd below /usr/sbin".to_owned())?;
    let folder = folder_of("mysql")?;
    let data = format!("--datadir={}", folder.path().join("data").display());
    let install = Path::new("/usr/bin/mariadb-install-db");
    run("mysql", install, &["--no-defaults", &data, "--auth-root-authentication-method=normal"])?;
    let port = free_port();
    let arguments = [
        "--no-defaults".to_owned(),
        data,
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        format!("--socket={}", folder.path().join("socket").display()),
        format!("--pid-file={}", folder.path().join("pid").display()),
    ];
    let url = format!("mysql://root@127.0.0.1:{port}/test");
    own_server("MySQL", "mysql", program, &arguments, (port, url), folder)
}

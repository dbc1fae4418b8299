//! Database servers of a test's own, in a temporary folder each: they may be killed, filled and made read-only.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer, or to end.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A running server; it ends with its value.
pub(crate) struct OwnServer {
    url: String,
    port: u16,
    program: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
    _folder: tempfile::TempDir,
}

impl OwnServer {
    /// The URL of its administrator and of a database that it begins with.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Starts the process and tells whether it answers.
    pub(crate) fn start(&mut self) -> bool {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.child.insert(command.spawn().expect("a server"));
        let until = Instant::now() + ANSWERS_WITHIN;
        while Instant::now() < until && child.try_wait().expect("a child").is_none() {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ended = child.kill();
            let _reaped = child.wait();
        }
    }

    /// Ends the process at once, but so that it takes its shared memory along.
    fn end(&mut self) {
        let Some(child) = &mut self.child else { return };
        let _ending = Command::new("kill").args(["-QUIT", &child.id().to_string()]).status();
        let until = Instant::now() + ANSWERS_WITHIN;
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        self.end();
        self.kill();
    }
}

/// A command and its arguments, run by the server's own user: neither server runs as root.
pub(crate) fn as_user(user: &str, program: &Path) -> Vec<String> {
    let program = program.display().to_string();
    if is_root() {
        // `setpriv` becomes the program, so that the child's id is the server's.
        let setpriv = ["setpriv".to_owned(), format!("--reuid={user}"), format!("--regid={user}")];
        setpriv.into_iter().chain(["--init-groups".to_owned(), program]).collect()
    } else {
        vec![program]
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Runs a command to its end, by the server's own user.
pub(crate) fn run(user: &str, program: &Path, arguments: &[&str]) -> Result<(), String> {
    let command = as_user(user, program);
    let output = Command::new(&command[0])
        .args(&command[1..])
        .args(arguments)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}: {text}", program.display())) }
}

/// A folder that the server's user owns.
pub(crate) fn folder_of(user: &str) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().expect("a folder");
    if is_root() {
        let status = Command::new("chown").arg(user).arg(folder.path()).status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("there is no user {user}"));
        }
    }
    Ok(folder)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

fn started(
    command: Vec<String>,
    arguments: &[&str],
    (port, url): (u16, String),
    folder: tempfile::TempDir,
) -> Result<OwnServer, String> {
    let mut words = command.into_iter();
    let program = PathBuf::from(words.next().expect("a program"));
    let arguments = words.chain(arguments.iter().map(|argument| (*argument).to_owned())).collect();
    let mut server = OwnServer { url, port, program, arguments, child: None, _folder: folder };
    if server.start() { Ok(server) } else { Err("a server of the test's own does not start".to_owned()) }
}

/// The newest PostgreSQL's programs.
pub(crate) fn postgres_programs() -> Result<PathBuf, String> {
    let missing = || "no initdb below /usr/lib/postgresql".to_owned();
    let versions = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| missing())?;
    let programs = versions.filter_map(Result::ok).map(|entry| entry.path().join("bin"));
    programs.filter(|folder| folder.join("initdb").exists()).max().ok_or_else(missing)
}

/// A fresh PostgreSQL's folder, its files below `data`.
pub(crate) fn postgres_files() -> Result<tempfile::TempDir, String> {
    let folder = folder_of("postgres")?;
    let data = folder.path().join("data").display().to_string();
    let arguments = ["-D", &data, "-U", "root", "--auth=trust", "-E", "UTF8", "--no-sync"];
    run("postgres", &postgres_programs()?.join("initdb"), &arguments)?;
    Ok(folder)
}

/// Serves the files below `data` in a folder. `within` are the words of a command that becomes the server.
pub(crate) fn postgres(folder: tempfile::TempDir, within: &[String], more: &[&str]) -> Result<OwnServer, String> {
    let port = free_port();
    let port_text = port.to_string();
    let data = folder.path().join("data").display().to_string();
    let socket = folder.path().display().to_string();
    let mut arguments = vec!["-D", &data, "-p", &port_text, "-k", &socket, "-c", "listen_addresses=127.0.0.1"];
    arguments.extend(more);
    let command = [within, &as_user("postgres", &postgres_programs()?.join("postgres"))].concat();
    started(command, &arguments, (port, format!("postgres://root@127.0.0.1:{port}/postgres")), folder)
}

/// The server's program.
pub(crate) fn mariadb_program() -> Result<&'static Path, String> {
    let mut places = ["/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"].into_iter().map(Path::new);
    places.find(|path| path.exists()).ok_or_else(|| "no mariadbd below /usr/sbin".to_owned())
}

/// A fresh MariaDB. `more` are options of its files and of the server.
pub(crate) fn mariadb(more: &[&str]) -> Result<OwnServer, String> {
    let program = mariadb_program()?;
    let folder = folder_of("mysql")?;
    let data = format!("--datadir={}", folder.path().join("data").display());
    let mut install = vec!["--no-defaults", &data, "--auth-root-authentication-method=normal"];
    install.extend(more);
    run("mysql", Path::new("/usr/bin/mariadb-install-db"), &install)?;
    let port = free_port();
    let port_option = format!("--port={port}");
    let socket = format!("--socket={}", folder.path().join("socket").display());
    let pid_file = format!("--pid-file={}", folder.path().join("pid").display());
    let mut arguments = vec!["--no-defaults", &data, "--bind-address=127.0.0.1", &port_option, &socket, &pid_file];
    arguments.extend(more);
    let url = format!("mysql://root@127.0.0.1:{port}/test");
    started(as_user("mysql", program), &arguments, (port, url), folder)
}

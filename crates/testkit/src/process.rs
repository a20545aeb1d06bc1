//! Programs that a test starts: the gateway, `redis-server`, `postgres`.

use std::{
    collections::VecDeque,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};

/// How long a test waits for what it expects a program to say or do.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running program. It is killed when dropped.
///
/// Its stdout is read all the time, so that it never blocks on it; its stderr is the test's.
///
/// ```no_run
/// use testkit::{Process, workspace_binary};
///
/// # async fn example() {
/// let mut gateway = Process::start(workspace_binary("gateway"), ["--listen", "127.0.0.1:0"]);
/// let url = gateway.line_after("listening on ").await;
/// // … talk to it …
/// gateway.terminate();
/// assert!(gateway.exit().await.success());
/// # }
/// ```
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
    /// Read from the channel and not yet asked for.
    unread: VecDeque<String>,
    name: String,
}

impl Process {
    /// Starts a program with these arguments.
    ///
    /// # Panics
    /// When it does not start, or outside of a runtime.
    pub fn start<A: AsRef<OsStr>>(program: impl AsRef<Path>, args: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(program.as_ref());
        command.args(args);
        Self::spawn(command)
    }

    /// Starts a command that was prepared, with its environment or folder.
    ///
    /// # Panics
    /// When it does not start, or outside of a runtime.
    pub fn spawn(mut command: Command) -> Self {
        let name = command.as_std().get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let stdout = child.stdout.take().expect("stdout is piped");
        let (said, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut stdout = BufReader::new(stdout).lines();
            // Reads on when nobody listens: the program must not block.
            while let Ok(Some(line)) = stdout.next_line().await {
                let _ = said.send(line);
            }
        });
        Self {
            child,
            lines,
            unread: VecDeque::new(),
            name,
        }
    }

    /// The next line of its stdout; `None` when it has closed it.
    ///
    /// # Panics
    /// When there is none within 30 s.
    pub async fn line(&mut self) -> Option<String> {
        if let Some(line) = self.unread.pop_front() {
            return Some(line);
        }
        match timeout(PATIENCE, self.lines.recv()).await {
            Ok(line) => line,
            Err(_) => panic!("{} says nothing more for {PATIENCE:?}", self.name),
        }
    }

    /// The rest of the first line that begins with `prefix`. The lines before it can still be read.
    ///
    /// # Panics
    /// When there is none within 30 s, or before its stdout ends.
    pub async fn line_after(&mut self, prefix: &str) -> String {
        let mut passed = VecDeque::new();
        loop {
            let Some(line) = self.line().await else {
                panic!(
                    "{} ended before a line that begins with {prefix:?}; it said {passed:#?}",
                    self.name
                );
            };
            if let Some(rest) = line.strip_prefix(prefix) {
                let rest = rest.to_owned();
                passed.append(&mut self.unread);
                self.unread = passed;
                return rest;
            }
            passed.push_back(line);
        }
    }

    /// Its process id, until it has exited.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Asks it to end (SIGTERM), as a service manager does.
    ///
    /// # Panics
    /// When the signal cannot be sent.
    pub fn terminate(&self) {
        if let Some(id) = self.id() {
            let kill = std::process::Command::new("kill")
                .args(["-TERM", &id.to_string()])
                .status();
            assert!(
                kill.is_ok_and(|status| status.success()),
                "{} cannot be signalled",
                self.name
            );
        }
    }

    /// Waits until it has exited.
    ///
    /// # Panics
    /// When that takes longer than 30 s.
    pub async fn exit(&mut self) -> ExitStatus {
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => {
                status.unwrap_or_else(|error| panic!("{} cannot be waited for: {error}", self.name))
            }
            Err(_) => panic!("{} still runs after {PATIENCE:?}", self.name),
        }
    }
}

/// The path of an installed program.
///
/// # Panics
/// When it is not installed; the message is the command that installs it.
pub fn which_or_explain(program: &str, install: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("`{program}` is not installed. Install it: {install}"))
}

/// The path of a binary of this workspace, built with the profile of the running test.
///
/// # Panics
/// When it is not built; the message is the command that builds it.
pub fn workspace_binary(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows where it is");
    // target/debug/deps/test-hash
    let folder = test
        .parent()
        .and_then(Path::parent)
        .expect("a test lies in a target folder");
    let binary = folder.join(name).with_extension(env::consts::EXE_EXTENSION);
    assert!(
        binary.is_file(),
        "{} is not built. Build it: cargo build --bin {name}",
        binary.display()
    );
    binary
}

//! Starts the binary and talks to it.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use std::{fs, process::Output, time::Duration};
use tempfile::{NamedTempFile, TempPath};
use testkit::{FaultUpstream, Process};
use tokio::{process::Command, time::timeout};

/// How long anything may take that has to happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway process; killed when dropped.
pub(crate) struct Gateway {
    pub(crate) process: Process,
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    /// What it printed on stdout when it started, line by line.
    pub(crate) greeting: Vec<String>,
    /// Holds its stderr.
    terminal: TempPath,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The error code, in whichever dialect.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let code = [&body["error"]["code"], &body["error"]["details"]["error_code"]];
        code.iter()
            .find_map(|code| code.as_str())
            .unwrap_or_default()
            .to_owned()
    }
}

impl Gateway {
    pub(crate) async fn demo() -> Self {
        Self::start(&[], None).await
    }

    pub(crate) async fn with_config(config: &str) -> Self {
        Self::start(&[], Some(config)).await
    }

    pub(crate) async fn start(args: &[&str], config: Option<&str>) -> Self {
        let config = config.map(file);
        let terminal = NamedTempFile::new().unwrap();
        let mut command = command();
        command
            .args(["--listen", "127.0.0.1:0"])
            .args(args)
            .stderr(terminal.reopen().unwrap());
        if let Some(file) = &config {
            command.arg("--config").arg(file);
        }
        let mut process = Process::spawn(command);
        let mut greeting = Vec::new();
        while !greeting
            .last()
            .is_some_and(|line: &String| line.starts_with("curl "))
        {
            match process.line().await {
                Some(line) => greeting.push(line),
                None => panic!("the gateway ended: {}", fs::read_to_string(terminal).unwrap()),
            }
        }
        let url = greeting[0]
            .strip_prefix("listening on ")
            .expect("the first line is the address")
            .to_owned();
        Self {
            process,
            url,
            greeting,
            terminal: terminal.into_temp_path(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// What it wrote on the terminal so far, once that contains `text`.
    pub(crate) async fn terminal_with(&self, text: &str) -> String {
        let so_far = || fs::read_to_string(&self.terminal).unwrap();
        let seen = until(async || Some(so_far()).filter(|terminal| terminal.contains(text))).await;
        seen.unwrap_or_else(|| panic!("{text:?} does not appear on the terminal: {}", so_far()))
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let answered = timeout(PATIENCE, self.client.request(request)).await;
        answered
            .expect("the gateway answers in time")
            .expect("the gateway answers")
    }

    /// The head of the answer to a chat call; the body is read as the test likes.
    pub(crate) async fn chat(&self, key: &str, body: impl Into<Bytes>) -> Response<Incoming> {
        let request = Request::post(format!("{}/v1/chat/completions", self.url))
            .header("authorization", format!("Bearer {key}"))
            .header("content-type", "application/json");
        self.send(request.body(Full::new(body.into())).unwrap()).await
    }

    /// The whole answer to a chat call.
    pub(crate) async fn ask(&self, key: &str, body: impl Into<Bytes>) -> Answer {
        whole(self.chat(key, body).await).await
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::get(format!("{}{path}", self.url));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        whole(self.send(request.body(Full::default()).unwrap()).await).await
    }

    /// `GET /v1/usage` of this key.
    pub(crate) async fn usage(&self, key: &str) -> Value {
        let answer = self.get("/v1/usage", &[("x-api-key", key)]).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// `GET /v1/usage` of this key, once nothing of it is reserved any more.
    pub(crate) async fn settled_usage(&self, key: &str) -> Value {
        let settled =
            until(async || Some(self.usage(key).await).filter(|usage| usage["reserved_cents"] == 0)).await;
        settled.expect("every reservation settles")
    }
}

/// Asks again and again until there is an answer; `None` when there is none in time.
async fn until<T>(ask: impl AsyncFn() -> Option<T>) -> Option<T> {
    let asking = async {
        loop {
            match ask().await {
                Some(answer) => return answer,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    timeout(PATIENCE, asking).await.ok()
}

pub(crate) async fn whole(response: Response<Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let body = timeout(PATIENCE, body.collect())
        .await
        .expect("the body ends in time")
        .expect("the body is whole");
    Answer {
        status: head.status,
        headers: head.headers,
        body: body.to_bytes(),
    }
}

/// The output of a gateway that is not expected to run.
pub(crate) async fn refused(config: &str) -> Output {
    let file = file(config);
    let run = command()
        .args(["--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .output();
    timeout(PATIENCE, run).await.expect("it ends by itself").unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A configuration with this upstream for the models `m` (1 USD a million tokens in, 10 out) and `dear` (a dollar for
/// 1,000 tokens out), and one key, `sk-ann`.
pub(crate) fn config(upstream: &FaultUpstream) -> String {
    let url = upstream.url();
    format!(
        r#"
        keys = [{{ key = "sk-ann", tenant = "acme", user = "ann", plan = "free" }}]

        [[upstreams]]
        id = "one"
        base_url = "{url}/v1"
        key = "sk-upstream"
        first_byte_ms = 60000

        [[upstreams]]
        id = "one-anthropic"
        dialect = "anthropic"
        base_url = "{url}/v1"
        key = "sk-upstream"
        first_byte_ms = 60000

        [prices]
        m = {{ input_usd_per_million = "1.00", output_usd_per_million = "10.00" }}
        dear = {{ input_usd_per_million = "1.00", output_usd_per_million = "1000.00" }}
        "#
    )
}

/// The binary, without the developer's own environment in the way.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    command
        .env_remove("RUST_LOG")
        .env("NO_COLOR", "1")
        .kill_on_drop(true);
    command
}

fn file(text: &str) -> TempPath {
    let file = NamedTempFile::new().unwrap().into_temp_path();
    fs::write(&file, text).unwrap();
    file
}

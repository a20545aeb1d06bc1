//! Real answers, errors and requests of many providers against what is known about each.
//!
//! The samples live outside the project: `WIRE_SAMPLES` names their folder, whose `expected.json` describes every file.
//! Samples of dialects that are not built yet are counted, not tried.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
};
use tower_ai_core::{ErrorClass, Operation, TokenCounts};
use tower_ai_wire::{Ending, EventKind, Framing, Scanner, WireError, classify, read_request};

#[test]
fn every_sample_is_read_as_its_description_says() {
    let Some(folder) = env::var_os("WIRE_SAMPLES").map(PathBuf::from) else {
        println!("NOT RUN: WIRE_SAMPLES is unset, so no corpus was tried");
        return;
    };
    let samples = samples(&folder);
    let mut faults = Vec::new();
    let (mut tried, mut not_yet) = (0, 0);
    for sample in &samples {
        match sample.check(&folder) {
            Some(found) => {
                tried += 1;
                faults.extend(
                    found
                        .into_iter()
                        .map(|fault| format!("{}: {fault}", sample.file())),
                );
            }
            None => not_yet += 1,
        }
    }
    println!("tried {tried} files, {not_yet} of other dialects not yet");
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert!(tried > 0, "no sample of a dialect that is built");
}

/// The descriptions, of exactly the files that are there.
fn samples(folder: &Path) -> Vec<Sample> {
    let list = folder.join("expected.json");
    let list = fs::read(&list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let samples: Vec<Value> = serde_json::from_slice(&list).expect("expected.json is a list");
    let samples: Vec<_> = samples.into_iter().map(Sample).collect();
    let listed: BTreeSet<_> = samples.iter().map(|sample| sample.file().to_owned()).collect();
    let mut present = BTreeSet::new();
    collect_files(folder, folder, &mut present);
    for about in ["expected.json", "README.md"] {
        present.remove(about);
    }
    let missing: Vec<_> = listed.difference(&present).collect();
    let unlisted: Vec<_> = present.difference(&listed).collect();
    assert!(missing.is_empty(), "listed, but missing: {missing:?}");
    assert!(unlisted.is_empty(), "present, but not listed: {unlisted:?}");
    samples
}

fn collect_files(root: &Path, folder: &Path, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("an entry is readable").path();
        if path.is_dir() {
            collect_files(root, &path, files);
        } else {
            let relative = path.strip_prefix(root).expect("inside the folder");
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            files.insert(parts.join("/"));
        }
    }
}

struct Sample(Value);

type Faults = Vec<String>;

impl Sample {
    fn file(&self) -> &str {
        self.0["file"].as_str().expect("a description names its file")
    }

    /// What is not as described; `None` when the dialect is not built yet.
    fn check(&self, folder: &Path) -> Option<Faults> {
        let bytes = || fs::read(folder.join(self.file())).expect("listed files are there");
        match self.0["api"].as_str().expect("a description names its API") {
            "chat" => Some(self.check_answer(Operation::ChatCompletions, &bytes())),
            "messages" => Some(self.check_answer(Operation::Messages, &bytes())),
            "request:chat" => Some(self.check_request(Operation::ChatCompletions, &bytes())),
            "request:messages" => Some(self.check_request(Operation::Messages, &bytes())),
            "error" => Some(self.check_error(&bytes())),
            _ => None,
        }
    }

    fn check_answer(&self, operation: Operation, bytes: &[u8]) -> Faults {
        let is_stream = self.0["stream"] == true;
        let framing = if is_stream { Framing::Sse } else { Framing::Json };
        let answer = Answer::read(operation, framing, bytes);
        let mut faults = Faults::new();
        let mut expect = |what: &str, expected: Value, found: Value| {
            if expected != found {
                faults.push(format!("{what}: expected {expected}, found {found}"));
            }
        };
        for (name, found) in answer.counts() {
            expect(name, self.0["expected"][name].clone(), found);
        }
        expect("terminal", self.0["terminal"].clone(), answer.terminal().into());
        // A cut stream's description does not name its model.
        if self.0["model"].is_string() {
            expect("model", self.0["model"].clone(), answer.scanner.model().into());
        }
        expect(
            "service_tier",
            self.0["service_tier"].clone(),
            answer.scanner.service_tier().into(),
        );
        if is_stream {
            expect(
                "first_content_offset",
                self.0["first_content_offset"].clone(),
                answer.first_content.into(),
            );
            expect(
                "error_offset",
                self.0["error_offset"].clone(),
                answer.error_at().into(),
            );
            let class = answer
                .error
                .as_ref()
                .map_or(ErrorClass::Truncated, |(_, error)| error.class);
            let fails_over = answer.first_content.is_none()
                && answer.terminal() == "error"
                && another_upstream_may_do_better(class);
            expect("failover", self.0["failover"].clone(), fails_over.into());
        }
        let class = answer.error.as_ref().map(|(_, error)| error.class.as_str());
        if class.is_some() {
            expect("error_class", self.0["error_class"].clone(), class.into());
        }
        faults
    }

    fn check_error(&self, body: &[u8]) -> Faults {
        let status = self.0["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok());
        let status = StatusCode::from_u16(status.expect("an error has a status")).expect("a status");
        let headers = self.0["headers"].as_object().into_iter().flatten();
        let headers: HeaderMap = headers
            .map(|(name, value)| {
                let value = value.as_str().expect("a header's value is a string");
                (
                    HeaderName::try_from(name).expect("a name"),
                    HeaderValue::try_from(value).expect("a value"),
                )
            })
            .collect();
        let error = classify(status, &headers, body);
        let mut faults = Faults::new();
        if self.0["error_class"] != error.class.as_str() {
            faults.push(format!(
                "class: expected {}, found {}",
                self.0["error_class"],
                error.class.as_str()
            ));
        }
        if self.0["failover"] != another_upstream_may_do_better(error.class) {
            faults.push(format!("failover: expected {}", self.0["failover"]));
        }
        let retry_after = error.retry_after.map(|wait| wait.as_millis() as u64);
        if self.0["retry_after_ms"] != Value::from(retry_after) {
            faults.push(format!(
                "retry_after_ms: expected {}, found {retry_after:?}",
                self.0["retry_after_ms"]
            ));
        }
        faults
    }

    fn check_request(&self, operation: Operation, body: &[u8]) -> Faults {
        let request = match read_request(operation, body) {
            Ok(request) => request,
            Err(error) => return vec![error.to_string()],
        };
        let expected = &self.0["expected"]["max_output_tokens_bound"];
        let mut faults = Faults::new();
        if *expected != Value::from(request.output_bound) {
            faults.push(format!(
                "bound: expected {expected}, found {:?}",
                request.output_bound
            ));
        }
        if self.0["stream"] != request.stream {
            faults.push(format!(
                "stream: expected {}, found {}",
                self.0["stream"], request.stream
            ));
        }
        faults
    }
}

/// What failover reads from a class.
fn another_upstream_may_do_better(class: ErrorClass) -> bool {
    use ErrorClass::*;
    !matches!(
        class,
        ContextLength | InvalidRequest | ContentFilter | PayloadTooLarge
    )
}

/// What a scanner made of an answer.
struct Answer {
    scanner: Scanner,
    first_content: Option<usize>,
    error: Option<(usize, WireError)>,
}

impl Answer {
    fn read(operation: Operation, framing: Framing, bytes: &[u8]) -> Self {
        let mut scanner = Scanner::new(operation, framing);
        let (mut first_content, mut error) = (None, None);
        let mut start = 0;
        scanner.push(bytes, |event| {
            match event.kind {
                EventKind::Content => first_content = first_content.or(Some(start)),
                EventKind::Error(found) => error = error.take().or(Some((start, found))),
                _ => {}
            }
            start = event.end;
        });
        scanner.finish(|event| match event.kind {
            EventKind::Content => first_content = first_content.or(Some(start)),
            EventKind::Error(found) => error = error.take().or(Some((start, found))),
            _ => {}
        });
        Self {
            scanner,
            first_content,
            error,
        }
    }

    fn terminal(&self) -> &'static str {
        match self.scanner.ending() {
            Ending::Complete => "complete",
            Ending::Incomplete => "incomplete",
            // A cut stream is an error by its description.
            _ => "error",
        }
    }

    fn error_at(&self) -> Option<usize> {
        self.error.as_ref().map(|(at, _)| *at)
    }

    fn counts(&self) -> Vec<(&'static str, Value)> {
        let count = |read: fn(&TokenCounts) -> u64| self.scanner.usage().map(read).into();
        vec![
            ("input_tokens", count(|counts| counts.input)),
            ("input_uncached_tokens", count(TokenCounts::input_uncached)),
            ("output_tokens", count(|counts| counts.output)),
            ("cached_read_tokens", count(|counts| counts.cached_read)),
            ("cache_write_tokens", count(TokenCounts::cache_write)),
            ("cache_write_5m_tokens", count(|counts| counts.cache_write_5m)),
            ("cache_write_1h_tokens", count(|counts| counts.cache_write_1h)),
            ("reasoning_tokens", count(|counts| counts.reasoning)),
            ("audio_in", count(|counts| counts.audio_in)),
            ("audio_out", count(|counts| counts.audio_out)),
            ("image_in", count(|counts| counts.image_in)),
            ("image_out", count(|counts| counts.image_out)),
            ("web_searches", count(|counts| counts.web_searches)),
        ]
    }
}

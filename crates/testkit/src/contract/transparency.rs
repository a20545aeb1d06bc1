//! Transparency: what a layer has no business with passes as it is.

use super::{Contract, answered, within};
use crate::{Answer, ProbeService, ScriptedBody};
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, SizeHint};
use http_body_util::BodyExt;
use std::{future::poll_fn, pin::pin, time::Duration};
use tower_ai_core::BoxError;

/// An extension and a header that no layer knows.
#[derive(Clone, Debug, PartialEq)]
struct Marker(&'static str);
const MARKER: &str = "x-testkit-marker";

/// Method, unknown headers, unknown extensions and the body reach the inner service.
///
/// # Panics
/// When the layer does otherwise.
pub async fn the_request_passes_unchanged(contract: &Contract) {
    let probe = ProbeService::new(|_| Answer::ok(ScriptedBody::new()));
    let mut request = contract.fresh_request();
    request
        .headers_mut()
        .insert(MARKER, "down".parse().expect("a value"));
    request.extensions_mut().insert(Marker("down"));
    let method = request.method().clone();
    answered(&mut contract.stack(&probe), request).await;

    let sent = contract
        .fresh_request()
        .into_body()
        .collect()
        .await
        .expect("the request's body is sound");
    let seen = &probe.seen()[0];
    assert_eq!(seen.method, method);
    assert_eq!(
        seen.headers.get(MARKER).map(|value| value.as_bytes()),
        Some(&b"down"[..]),
        "a header was lost"
    );
    assert_eq!(
        seen.extensions.get(),
        Some(&Marker("down")),
        "an extension of the request was lost"
    );
    assert_eq!(
        seen.trailers.as_ref(),
        sent.trailers(),
        "the request's trailers were changed"
    );
    assert_eq!(seen.body, sent.to_bytes(), "the request's body was changed");
}

/// Status, unknown headers and unknown extensions of the response reach the caller.
///
/// # Panics
/// When the layer does otherwise.
pub async fn the_head_passes_unchanged(contract: &Contract) {
    for status in [200, 404] {
        let answer = move |_| {
            Answer::status(status, ScriptedBody::of(["hello"]))
                .header(MARKER, "up")
                .extension(Marker("up"))
        };
        let response = answered(
            &mut contract.stack(&ProbeService::new(answer)),
            contract.fresh_request(),
        )
        .await;
        assert_eq!(response.status(), status, "the status was changed");
        let header = response.headers().get(MARKER).map(|value| value.as_bytes());
        assert_eq!(header, Some(&b"up"[..]), "a header of a {status} was lost");
        assert_eq!(
            response.extensions().get(),
            Some(&Marker("up")),
            "an extension of a {status} was lost"
        );
    }
}

/// Data, trailers, errors, order, `size_hint` and `is_end_stream` of the inner body reach the caller.
///
/// # Panics
/// When the layer does otherwise.
pub async fn bodies_pass_unchanged(contract: &Contract) {
    for (name, script) in SCRIPTS {
        if *name == "an error" && !contract.errors_pass {
            continue;
        }
        let probe = ProbeService::new(move |_| Answer::ok(script()));
        let response = answered(&mut contract.stack(&probe), contract.fresh_request()).await;
        let actual = within("the body ends", Transcript::of(response.into_body())).await;
        let expected = within("the script ends", Transcript::of(script())).await;
        actual.assert_like(&expected, name, contract);
    }
}

type Script = (&'static str, fn() -> ScriptedBody);

const SCRIPTS: &[Script] = &[
    ("nothing", ScriptedBody::new),
    ("nothing, announced", || ScriptedBody::new().exact_length()),
    ("data", || {
        ScriptedBody::of(["one ", "two "])
            .pending()
            .data("three ")
            .after(MOMENT)
            .data("four")
    }),
    ("data of a known length", || {
        ScriptedBody::of(["one ", "two "])
            .pending()
            .data("three")
            .exact_length()
    }),
    ("data and trailers", || {
        ScriptedBody::of(["one ", "two"])
            .after(MOMENT)
            .trailers([("x-sum", "7"), ("x-b", "2")])
    }),
    ("trailers alone", || {
        ScriptedBody::new().trailers([("grpc-status", "0")])
    }),
    ("an error", || ScriptedBody::of(["one ", "two"]).error("cut here")),
];

const MOMENT: Duration = Duration::from_millis(5);

/// All that can be seen of a body by reading it.
#[derive(Debug)]
struct Transcript {
    /// Before each poll: `size_hint` and `is_end_stream`.
    hints: Vec<(u64, Option<u64>, bool)>,
    frames: Vec<Bytes>,
    trailers: Option<HeaderMap>,
    error: Option<String>,
}

impl Transcript {
    async fn of<B>(body: B) -> Self
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let mut body = pin!(body);
        let mut seen = Self {
            hints: Vec::new(),
            frames: Vec::new(),
            trailers: None,
            error: None,
        };
        loop {
            let hint: SizeHint = body.size_hint();
            seen.hints
                .push((hint.lower(), hint.upper(), body.is_end_stream()));
            match poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                None => return seen,
                Some(Err(error)) => {
                    seen.error = Some(error.into().to_string());
                    return seen;
                }
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        assert!(seen.trailers.is_none(), "data after the trailers");
                        seen.frames.push(data);
                    }
                    Err(frame) => seen.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }

    fn bytes(&self) -> Bytes {
        self.frames
            .iter()
            .fold(BytesMut::new(), |mut all, frame| {
                all.extend_from_slice(frame);
                all
            })
            .freeze()
    }

    fn assert_like(&self, expected: &Self, name: &str, contract: &Contract) {
        assert_eq!(self.bytes(), expected.bytes(), "{name}: the bytes were changed");
        assert_eq!(
            self.trailers, expected.trailers,
            "{name}: the trailers were changed"
        );
        assert_eq!(self.error, expected.error, "{name}: the error was changed");
        if contract.same_frames {
            assert_eq!(self.frames, expected.frames, "{name}: the frames were cut anew");
        }
        if contract.same_frames && contract.exact_size {
            assert_eq!(
                self.hints, expected.hints,
                "{name}: size_hint or is_end_stream was changed"
            );
        }
        if contract.exact_size {
            assert_eq!(
                self.hints[0], expected.hints[0],
                "{name}: size_hint or is_end_stream was changed"
            );
        }
        let (length, (lower, upper, _)) = (self.bytes().len() as u64, self.hints[0]);
        let is_right = lower <= length && upper.is_none_or(|upper| length <= upper);
        assert!(
            is_right || self.error.is_some(),
            "{name}: size_hint was wrong: {lower}..{upper:?} for {length} bytes"
        );
    }
}

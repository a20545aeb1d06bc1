//! A reply taken apart into steps that both versions of HTTP can do.

use super::{
    Gate,
    reply::{Cut, Decision, Reply},
};
use crate::Sample;
use bytes::Bytes;
use std::time::Duration;

/// How to handle one request: first read, then do the steps.
pub(super) struct Plan {
    pub(super) reading: Reading,
    pub(super) steps: Vec<Step>,
}

/// How much of the request is read before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    Nothing,
    Head,
    Whole,
    Slowly { bytes: usize, every: Duration },
}

pub(super) enum Step {
    Wait(Duration),
    Gate(Gate),
    /// Go on as it says.
    Decide(Decision),
    Head(Head),
    Data(Bytes),
    End,
    /// Bytes with no regard to HTTP.
    Raw(Bytes),
    /// Nothing more, and no close.
    Silence,
    Fin,
    Rst,
    /// Close our side, and take what the client still sends.
    Linger,
}

pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Plan {
    pub(super) fn of(reply: Reply) -> Self {
        match reply {
            Reply::SlowRead { bytes, every, then } => Self {
                reading: Reading::Slowly { bytes, every },
                ..Self::of(*then)
            },
            Reply::After(delay, then) => Self::of(*then).first(Step::Wait(delay)),
            Reply::Gate(gate, then) => Self::of(*then).first(Step::Gate(gate)),
            Reply::AcceptSilent => Self {
                reading: Reading::Nothing,
                steps: vec![Step::Silence],
            },
            Reply::CloseAtOnce => Self {
                reading: Reading::Nothing,
                steps: vec![Step::Fin],
            },
            Reply::ReadHeadSilent => Self {
                reading: Reading::Head,
                steps: vec![Step::Silence],
            },
            Reply::EarlyStatus(sample) => {
                let mut steps = answer(sample.header("connection", "close"));
                steps.push(Step::Linger);
                Self {
                    reading: Reading::Head,
                    steps,
                }
            }
            reply => Self {
                reading: Reading::Whole,
                steps: steps(reply),
            },
        }
    }

    fn first(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self
    }
}

/// The steps of a reply for which the whole request is read.
fn steps(reply: Reply) -> Vec<Step> {
    match reply {
        Reply::Answer(sample) => answer(sample),
        Reply::Stream(chunks) => {
            let chunks = chunks
                .into_iter()
                .flat_map(|(delay, data)| [Step::Wait(delay), Step::Data(data)]);
            stream(Framing::Chunked, chunks, [Step::End])
        }
        Reply::HeadersSilent => stream(Framing::Chunked, [], [Step::Silence]),
        Reply::StreamThenSilent(chunks) => stream(Framing::Chunked, data(chunks), [Step::Silence]),
        Reply::StreamThenCut(chunks, cut) => match cut {
            Cut::Fin => {
                let announced = Bytes::from_static(b"40\r\ndata: this chunk announces 64 bytes");
                stream(Framing::Chunked, data(chunks), [Step::Raw(announced), Step::Fin])
            }
            Cut::Rst => stream(Framing::Chunked, data(chunks), [Step::Rst]),
            Cut::NoFinalChunk => stream(Framing::Chunked, data(chunks), [Step::Fin]),
            Cut::CloseDelimited => stream(Framing::UntilClose, data(chunks), [Step::End, Step::Fin]),
        },
        Reply::ShortContentLength { body, missing } => {
            let headers = vec![("content-type".into(), "application/json".into())];
            let framing = Framing::Length(body.len() + missing);
            vec![
                Step::Head(Head {
                    status: 200,
                    headers,
                    framing,
                }),
                Step::Data(body),
                Step::Fin,
            ]
        }
        Reply::InformationalSilent(status) => {
            vec![
                Step::Raw(format!("HTTP/1.1 {status} Wait\r\n\r\n").into()),
                Step::Silence,
            ]
        }
        Reply::Garbage => vec![
            Step::Raw(Bytes::from_static(b"\x16\x03\x01 no HTTP at all\r\n\r\n")),
            Step::Fin,
        ],
        Reply::By(decision) => vec![Step::Decide(decision)],
        // `ReadSilent`; the replies that read less never come here, except decided on too late: the request is read.
        _ => vec![Step::Silence],
    }
}

fn answer(sample: Sample) -> Vec<Step> {
    let framing = if sample.is_stream() {
        Framing::Chunked
    } else {
        Framing::Length(sample.bytes().len())
    };
    let head = Step::Head(Head {
        status: sample.status,
        headers: sample.headers,
        framing,
    });
    std::iter::once(head)
        .chain(data(sample.frames))
        .chain([Step::End])
        .collect()
}

fn stream<const N: usize>(
    framing: Framing,
    data: impl IntoIterator<Item = Step>,
    end: [Step; N],
) -> Vec<Step> {
    let headers = vec![("content-type".into(), "text/event-stream; charset=utf-8".into())];
    let head = Step::Head(Head {
        status: 200,
        headers,
        framing,
    });
    std::iter::once(head).chain(data).chain(end).collect()
}

fn data(chunks: Vec<Bytes>) -> impl Iterator<Item = Step> {
    chunks.into_iter().map(Step::Data)
}

//! One call: its states, and what moves it from one to the next.
//!
//! ```text
//! Admit ─▶ Idle ─▶ Ready ─▶ Call ─▶ Held ─▶ the answer
//!           ▲ │      │       │  └─▶ Rejected
//!           │ └▶ Wait│       │        │
//!           └────────┴───────┴────────┴──── the next candidate, or exhausted
//! ```
//!
//! `poll_event` waits for what the state waits for: first for the thing itself, second for its limit, so that what is there
//! beats a late timer. `on` makes the step. A state is left, and what it holds is dropped, before the next attempt starts:
//! no two attempts are ever alive.

use crate::{
    FailoverBody,
    admit::admit,
    answer::{Answer, Verdict},
    body::Source,
    classify::{self, Failure, Head},
    dispatch::Dispatch,
    layer::Settings,
    prepare::{is_grpc, prepare, strip_headers},
    select::Next,
    share::Time,
};
use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode, header::CONTENT_LENGTH, request, response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    convert::Infallible,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};
use tower_ai_core::{
    BoxError, Buffered, Buffering, Call, Deadline, LayerKind, Reason, Refusable, Refusal, RefusalFormat,
    RefusalKind, RefusedBy,
};
use tower_service::Service;

/// The most that is read of the body of an answer that is failed over: it may tell how long to wait.
const REJECTION_BYTES: usize = 64 * 1024;
/// The longest that it is waited for.
const REJECTION_LIMIT: Duration = Duration::from_secs(1);

pin_project! {
    /// The answer to one call, from the first candidate that gives one.
    ///
    /// Dropping it drops the attempt that is under way, which cancels the request at the upstream.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<S, B, RB>
    where
        S: Service<Request<Buffered<B>>, Response = Response<RB>>,
    {
        // Dropped before the dispatch: an attempt ends first and is booked then.
        #[pin]
        state: State<S, S::Future, B, RB>,
        dispatch: Option<Dispatch>,
        #[pin]
        timer: Sleep,
        inner: S,
        original: request::Parts,
        // The caller's body: whole, and sent to each candidate; or not, and gone with the first.
        body: Option<Buffered<B>>,
        format: RefusalFormat,
        call: Call,
        time: Time,
        settings: Arc<Settings>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, F, B, RB> {
        /// The request's body is read, so that it can be sent more than once.
        Admit { buffering: Option<Buffering<B>> },
        /// Nothing is under way.
        Idle { next: Next },
        /// A candidate that failed is tried again at this time.
        Wait { candidate: usize, until: Instant },
        /// The inner service gets ready.
        Ready { service: S },
        /// The request is sent.
        Call { #[pin] future: F },
        /// The head says no; the body may say more.
        Rejected { head: response::Parts, body: Pin<Box<RB>>, read: BytesMut, until: Instant },
        /// The head says yes; the answer is held back until it has begun.
        Held { held: Held<RB> },
        /// The answer is given.
        Done,
    }
}

struct Held<RB> {
    head: response::Parts,
    source: Pin<Box<Source<RB>>>,
    answer: Answer,
}

/// What a state waited for.
enum Event<B, RB> {
    Admitted(Buffered<B>),
    BrokenBody,
    SlowBody,
    Next(Next),
    Ready,
    Response(Response<RB>),
    /// A held answer has begun; all of it is there if `is_whole`.
    Begun {
        is_whole: bool,
    },
    Failed(Failure),
}

type Answered<RB> = Response<Refusable<FailoverBody<RB>>>;

impl<S, B, RB> ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>>,
    B: Body<Data = Bytes> + Unpin,
{
    pub(crate) fn new(inner: S, request: Request<B>, settings: Arc<Settings>) -> Self {
        let (mut original, body) = request.into_parts();
        let call = Call::of(&mut original.extensions);
        call.enter(LayerKind::Failover);
        let now = Instant::now();
        let Deadline(end) = call.deadline_or(|| Deadline((now + settings.deadline).into_std()));
        let time = Time::new(now, Instant::from_std(end), settings.waiting);
        // The body of a gRPC call may be half of a conversation: it is not waited for, unless the method is known.
        let may_converse = is_grpc(&original.headers) && !settings.is_unary_grpc(original.uri.path());
        let (buffering, body) = if may_converse {
            (None, Some(Buffered::unread(body)))
        } else {
            (Some(Buffering::new(body, settings.replay_limit)), None)
        };
        Self {
            state: State::Admit { buffering },
            dispatch: None,
            timer: sleep_until(time.end),
            inner,
            format: RefusalFormat::of(&original),
            original,
            body,
            call,
            time,
            settings,
        }
    }
}

impl<S, B, RB> Future for ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    RB: Body<Data = Bytes>,
    RB::Error: Into<BoxError>,
{
    type Output = Result<Answered<RB>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let event = ready!(self.as_mut().poll_event(cx));
            if let Some(answer) = self.as_mut().on(event) {
                return Poll::Ready(Ok(answer));
            }
        }
    }
}

impl<S, B, RB> ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Unpin,
    RB: Body<Data = Bytes>,
    RB::Error: Into<BoxError>,
{
    /// Waits for what the state waits for.
    fn poll_event(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Event<B, RB>> {
        let this = self.project();
        let (timer, dispatch) = (this.timer, &*this.dispatch);
        Poll::Ready(match this.state.project() {
            StateProj::Admit { buffering: None } => Event::Admitted(this.body.take().expect(UNREAD)),
            StateProj::Admit {
                buffering: Some(buffering),
            } => match buffering.poll(cx) {
                Poll::Ready(Ok(body)) => Event::Admitted(body),
                Poll::Ready(Err(_)) => Event::BrokenBody,
                Poll::Pending => {
                    ready!(poll_until(timer, this.time.end, cx));
                    Event::SlowBody
                }
            },
            StateProj::Idle { next } => Event::Next(*next),
            StateProj::Wait { candidate, until } => {
                ready!(poll_until(timer, *until, cx));
                Event::Next(Next::Try(*candidate))
            }
            StateProj::Ready { service } => match service.poll_ready(cx) {
                Poll::Ready(Ok(())) => Event::Ready,
                Poll::Ready(Err(_)) => Event::Failed(classify::failure(Reason::NotReady)),
                Poll::Pending => {
                    ready!(poll_until(timer, admitted(dispatch).ready_by(), cx));
                    Event::Failed(classify::failure(Reason::NotReady))
                }
            },
            StateProj::Call { future } => match future.poll(cx) {
                Poll::Ready(Ok(response)) => Event::Response(response),
                Poll::Ready(Err(error)) => failed(classify::fault(&error.into())),
                Poll::Pending => {
                    ready!(poll_until(timer, admitted(dispatch).start_by(), cx));
                    failed(admitted(dispatch).too_late())
                }
            },
            StateProj::Rejected {
                head,
                body,
                read,
                until,
            } => {
                while read.len() < REJECTION_BYTES {
                    match body.as_mut().poll_frame(cx) {
                        Poll::Ready(Some(Ok(frame))) => {
                            let data = frame.data_ref().map_or(&[][..], |data| data);
                            let room = REJECTION_BYTES - read.len();
                            read.extend_from_slice(&data[..data.len().min(room)]);
                        }
                        Poll::Ready(None | Some(Err(_))) => break,
                        Poll::Pending => {
                            ready!(poll_until(timer, *until, cx));
                            break;
                        }
                    }
                }
                let error = tower_ai_wire::classify(head.status, &head.headers, read);
                Event::Failed(classify::rejection(head.status, &error))
            }
            StateProj::Held { held } => loop {
                match held.source.as_mut().poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => {
                        let is_whole = frame.is_trailers();
                        match held.answer.hold(frame) {
                            Verdict::Fail(failure) => break Event::Failed(failure),
                            Verdict::Hold if !this.settings.commit_at_first_byte => {}
                            Verdict::Hold | Verdict::Commit => break Event::Begun { is_whole },
                        }
                    }
                    Poll::Ready(None) => match held.answer.hold_end() {
                        Verdict::Fail(failure) => break Event::Failed(failure),
                        Verdict::Hold | Verdict::Commit => break Event::Begun { is_whole: true },
                    },
                    Poll::Ready(Some(Err(error))) => break failed(classify::fault(&error.into())),
                    Poll::Pending => {
                        ready!(poll_until(timer, admitted(dispatch).start_by(), cx));
                        if held.answer.is_under_way() {
                            break Event::Begun { is_whole: false };
                        }
                        break failed(admitted(dispatch).too_late());
                    }
                }
            },
            StateProj::Done => panic!("a response future is not polled after it was ready"),
        })
    }

    /// Makes the step that an event asks for. With an answer, the call is over.
    fn on(mut self: Pin<&mut Self>, event: Event<B, RB>) -> Option<Answered<RB>> {
        let now = Instant::now();
        match event {
            Event::Admitted(body) => return self.admitted(body, now),
            Event::BrokenBody => {
                let message = "the request's body broke off";
                let kind = RefusalKind::InvalidRequest;
                return Some(self.refuse(Refusal::new(
                    LayerKind::Failover,
                    kind,
                    "invalid_request",
                    message,
                )));
            }
            Event::SlowBody => {
                let message = "the request's body took too long to arrive";
                let refusal = Refusal::new(
                    LayerKind::Failover,
                    RefusalKind::Timeout,
                    "request_timeout",
                    message,
                );
                return Some(self.refuse(refusal.status(StatusCode::REQUEST_TIMEOUT)));
            }
            Event::Next(Next::Try(candidate)) => {
                let mut this = self.project();
                running(this.dispatch).start(candidate, now);
                let service = this.inner.clone();
                this.state.set(State::Ready { service });
            }
            Event::Next(Next::Wait(candidate, wait)) => {
                let until = now + wait;
                self.project().state.set(State::Wait { candidate, until });
            }
            Event::Next(Next::Nobody) => return Some(self.exhausted(now)),
            Event::Ready => self.send(now),
            Event::Response(response) => return self.head(response, now),
            Event::Begun { is_whole } => {
                if let StateOwned::Held { held } = self.as_mut().project().state.project_replace(State::Done)
                {
                    let source = (!is_whole).then_some(held.source);
                    return Some(self.commit(held.head, source, held.answer, now));
                }
            }
            Event::Failed(failure) => self.fail(&failure, now),
        }
        None
    }

    fn admitted(mut self: Pin<&mut Self>, body: Buffered<B>, now: Instant) -> Option<Answered<RB>> {
        let mut this = self.as_mut().project();
        match admit(
            &this.settings.table,
            this.call,
            this.original,
            *this.format,
            body.bytes(),
        ) {
            Err(refusal) => Some(self.refuse(*refusal)),
            Ok((candidates, operation)) => {
                let settings = this.settings.clone();
                let mut dispatch =
                    Dispatch::new(settings, this.call.clone(), candidates, operation, *this.time);
                let next = dispatch.next(now);
                *this.dispatch = Some(dispatch);
                *this.body = Some(body);
                this.state.set(State::Idle { next });
                None
            }
        }
    }

    /// Hands the attempt to the inner service, which is ready.
    fn send(mut self: Pin<&mut Self>, now: Instant) {
        let mut this = self.as_mut().project();
        let dispatch = running(this.dispatch);
        let again = this.body.as_ref().and_then(Buffered::again);
        let body = again.or_else(|| this.body.take()).expect(UNREAD);
        let Ok(mut request) = prepare(dispatch.candidate(), this.original, dispatch.operation(), body) else {
            return self.fail(&classify::failure(Reason::Unprepared), now);
        };
        request.extensions_mut().insert(dispatch.attempt().clone());
        dispatch.sent();
        if let StateProj::Ready { service } = this.state.as_mut().project() {
            let future = service.call(request);
            this.state.set(State::Call { future });
        }
    }

    fn head(mut self: Pin<&mut Self>, response: Response<RB>, now: Instant) -> Option<Answered<RB>> {
        let (head, body) = response.into_parts();
        let mut this = self.as_mut().project();
        let dispatch = running(this.dispatch);
        let deadline = this.settings.deadline_ends_streams.then_some(this.time.end);
        match classify::head(&head) {
            Head::Refused(failure) => self.fail(&failure, now),
            Head::Rejected => {
                let until = dispatch.start_by().min(now + REJECTION_LIMIT);
                this.state.set(State::Rejected {
                    head,
                    body: Box::pin(body),
                    read: BytesMut::new(),
                    until,
                });
            }
            Head::Success => {
                let answer = Answer::new(&head, dispatch.operation());
                let source = Source::new(body, deadline);
                // What cannot be sent again is not held back either: nothing would be gained.
                if this.body.is_none() {
                    return Some(self.commit(head, Some(source), answer, now));
                }
                let held = Held { head, source, answer };
                this.state.set(State::Held { held });
            }
            Head::Pass => {
                let source = Source::new(body, deadline);
                return Some(self.commit(head, Some(source), Answer::passing(), now));
            }
        }
        None
    }

    /// Drops the attempt, then books it and decides what is next.
    fn fail(self: Pin<&mut Self>, failure: &Failure, now: Instant) {
        let mut this = self.project();
        this.state.set(State::Idle { next: Next::Nobody });
        let next = running(this.dispatch).failed(failure, this.body.is_some(), now);
        this.state.set(State::Idle { next });
    }

    /// Gives the caller the answer of the attempt that is under way, and drops what was kept for another.
    fn commit(
        self: Pin<&mut Self>,
        mut head: response::Parts,
        source: Option<Pin<Box<Source<RB>>>>,
        answer: Answer,
        now: Instant,
    ) -> Answered<RB> {
        let mut this = self.project();
        this.state.set(State::Done);
        *this.body = None;
        let dispatch = running(this.dispatch);
        let candidate = dispatch.attempt().candidate.clone();
        if head.extensions.get::<RefusedBy>().is_some() {
            dispatch.refused(head.status, now);
        } else {
            head.extensions.insert(dispatch.served(head.status, now));
        }
        head.extensions.insert(dispatch.trace());
        strip_headers(&mut head.headers);
        if !answer.keeps_length() {
            head.headers.remove(CONTENT_LENGTH);
        }
        let body = FailoverBody::new(source, answer, candidate);
        Response::from_parts(head, Refusable::inner(body))
    }

    fn exhausted(mut self: Pin<&mut Self>, now: Instant) -> Answered<RB> {
        let this = self.as_mut().project();
        let dispatch = running(this.dispatch);
        let (refusal, trace) = (dispatch.exhausted(now), dispatch.trace());
        let mut answer = self.refuse(refusal);
        answer.extensions_mut().insert(trace);
        answer
    }

    fn refuse(self: Pin<&mut Self>, refusal: Refusal) -> Answered<RB> {
        let mut this = self.project();
        this.state.set(State::Done);
        *this.body = None;
        refusal.into_response(*this.format)
    }
}

const UNREAD: &str = "a body that is not whole is sent once";

fn failed<B, RB>(reason: Reason) -> Event<B, RB> {
    Event::Failed(classify::failure(reason))
}

fn running(dispatch: &mut Option<Dispatch>) -> &mut Dispatch {
    dispatch.as_mut().expect("the call was admitted")
}

fn admitted(dispatch: &Option<Dispatch>) -> &Dispatch {
    dispatch.as_ref().expect("the call was admitted")
}

fn poll_until(mut timer: Pin<&mut Sleep>, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
    if timer.deadline() != at {
        timer.as_mut().reset(at);
    }
    timer.poll(cx)
}

impl<S, B, RB> fmt::Debug for ResponseFuture<S, B, RB>
where
    S: Service<Request<Buffered<B>>, Response = Response<RB>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture")
            .field("dispatch", &self.dispatch)
            .finish_non_exhaustive()
    }
}

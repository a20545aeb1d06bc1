//! The future of a response.

use crate::{
    ResponseBody, Store,
    ask::Ask,
    decision::{Admitted, Decision, Refused, answer_undecided},
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_ai_core::{Refusal, RefusalFormat};
use tower_service::Service;

pin_project! {
    /// Decides, calls the inner service, and tells the caller of its limits. Dropped, it settles.
    pub struct ResponseFuture<S: Service<Request<B>>, B, St: Store> {
        #[pin]
        state: State<S, B, St>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S: Service<Request<B>>, B, St: Store> {
        Deciding {
            #[pin]
            verdict: St::Future,
            waiting: Option<(S, Request<B>, Ask<St>)>,
        },
        Calling {
            // Dropped in this order: what the inner call settles comes before our own settlement.
            #[pin]
            call: S::Future,
            admitted: Option<Admitted<St>>,
        },
        Refused {
            refused: Option<(Refused, RefusalFormat)>,
        },
    }
}

impl<S: Service<Request<B>>, B, St: Store> ResponseFuture<S, B, St> {
    pub(crate) fn deciding(verdict: St::Future, polled: S, request: Request<B>, ask: Ask<St>) -> Self {
        let waiting = Some((polled, request, ask));
        Self {
            state: State::Deciding { verdict, waiting },
        }
    }

    pub(crate) fn calling(call: S::Future, admitted: Option<Admitted<St>>) -> Self {
        Self {
            state: State::Calling { call, admitted },
        }
    }

    pub(crate) fn refused(refused: Refused, format: RefusalFormat) -> Self {
        let refused = Some((refused, format));
        Self {
            state: State::Refused { refused },
        }
    }
}

impl<S, B, St, R> Future for ResponseFuture<S, B, St>
where
    S: Service<Request<B>, Response = Response<R>>,
    St: Store,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R, St>>, S::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match self.as_mut().project().state.project() {
                StateProj::Deciding { verdict, waiting } => {
                    let verdict = ready!(verdict.poll(cx));
                    let (mut polled, request, ask) = waiting.take().expect(POLLED_AGAIN);
                    match Decision::of(ask, verdict) {
                        Decision::Pass(admitted) => Self::calling(polled.call(request), admitted),
                        Decision::Refuse(refused) => {
                            Self::refused(refused, RefusalFormat::of(&request.into_parts().0))
                        }
                    }
                }
                StateProj::Calling { call, admitted } => {
                    let answer = ready!(call.poll(cx));
                    let admitted = admitted.take();
                    return Poll::Ready(match answer {
                        Ok(response) => Ok(answered(response, admitted)),
                        Err(error) => {
                            admitted.into_iter().for_each(Admitted::fail);
                            Err(error)
                        }
                    });
                }
                StateProj::Refused { refused } => {
                    let (refused, format) = refused.take().expect(POLLED_AGAIN);
                    return Poll::Ready(Ok(refusal(refused, format)));
                }
            };
            self.set(next);
        }
    }
}

const POLLED_AGAIN: &str = "a future is not polled after it was ready";

fn answered<R: Body<Data = Bytes>, St: Store>(
    response: Response<R>,
    admitted: Option<Admitted<St>>,
) -> Response<ResponseBody<R, St>> {
    let (mut head, body) = response.into_parts();
    let reservation = match admitted {
        Some(admitted) => admitted.answer(&mut head),
        None => {
            answer_undecided(&mut head);
            None
        }
    };
    Response::from_parts(head, ResponseBody::tapped(body, reservation))
}

fn refusal<R: Body<Data = Bytes>, St: Store>(
    Refused { refusal, told }: Refused,
    format: RefusalFormat,
) -> Response<ResponseBody<R, St>> {
    let (mut head, body) = Refusal::into_response(refusal, format).into_parts();
    if let Some(told) = told {
        told.tell(&mut head);
    }
    Response::from_parts(head, ResponseBody::new(body))
}

impl<S: Service<Request<B>>, B, St: Store> fmt::Debug for ResponseFuture<S, B, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Deciding { .. } => "ResponseFuture(deciding)",
            State::Calling { .. } => "ResponseFuture(calling)",
            State::Refused { .. } => "ResponseFuture(refused)",
        })
    }
}

//! The contract lets right layers pass, and catches every way of being wrong that it is for.

mod specimen;

use specimen::{Fault, contract};
use testkit::{Contract, in_paused_time};

testkit::contract!(no_layer: Contract::new(tower_layer::Identity::new()));
testkit::contract!(a_right_layer: contract(Fault::None));

macro_rules! caught {
    ($($test:ident: $fault:ident by $check:ident, $message:literal;)+) => {
        $(
            #[test]
            #[should_panic(expected = $message)]
            fn $test() {
                in_paused_time(async { testkit::contract::$check(&contract(Fault::$fault)).await });
            }
        )+
    };
}

caught! {
    readiness_is_ignored: IgnoresReadiness by the_polled_instance_is_called, "not polled ready";
    readiness_is_not_awaited: IgnoresReadiness by readiness_of_the_inner_service_is_awaited, "not polled ready";
    a_clone_is_called: CallsAClone by the_polled_instance_is_called, "not polled ready";
    the_readied_instance_is_left_behind: WaitsForAClone by the_polled_instance_is_called, "stalled";
    readiness_is_carried_over_to_a_clone: CarriesReadinessOver by a_clone_becomes_ready_by_itself, "not polled ready";
    a_permit_is_lost: TakesAPermitForGood by a_ready_service_that_is_dropped_leaks_nothing, "stalled";
    a_failed_readiness_is_hidden: HidesFailedReadiness by a_failed_readiness_is_not_hidden, "not polled ready";
    a_refused_caller_keeps_a_permit: KeepsReadinessWhenRefusing by a_refusal_gives_the_readiness_back, "a refusal kept the readiness";
    a_request_that_passes_is_declared_refused: RefusesNothing by a_refusal_gives_the_readiness_back, "not refused by the layer";
    poll_ready_is_a_busy_loop: SpinsInPollReady by nothing_is_polled_while_the_inner_service_is_not_ready, "a busy loop";
    a_future_is_a_busy_loop: SpinsInTheFuture by nothing_is_polled_while_the_answer_is_pending, "a busy loop";
    a_future_is_a_busy_loop_while_the_request_comes: SpinsInTheFuture by nothing_is_polled_while_the_request_body_is_pending, "a busy loop";
    a_body_is_a_busy_loop: SpinsInTheBody by nothing_is_polled_while_the_body_is_pending, "a busy loop";
    request_extensions_are_lost: LosesRequestExtensions by the_request_passes_unchanged, "an extension of the request was lost";
    the_request_body_is_changed: RewritesTheRequestBody by the_request_passes_unchanged, "the request's body was changed";
    response_extensions_are_lost: LosesResponseExtensions by the_head_passes_unchanged, "an extension of a 200 was lost";
    trailers_are_dropped: DropsTrailers by bodies_pass_unchanged, "the trailers were changed";
    the_size_hint_is_lost: LosesTheSizeHint by bodies_pass_unchanged, "size_hint or is_end_stream was changed";
    the_end_of_stream_is_lost: LosesTheEndOfStream by bodies_pass_unchanged, "size_hint or is_end_stream was changed";
    frames_are_joined: JoinsFrames by bodies_pass_unchanged, "the frames were cut anew";
    body_errors_are_hidden: HidesBodyErrors by bodies_pass_unchanged, "the error was changed";
    errors_are_hidden: HidesErrors by a_failed_call_settles_once, "the error of the inner service was hidden";
    a_call_is_settled_twice: SettlesTwice by each_end_of_a_body_settles_once, "end Complete: settled 2 times";
    four_ends_are_forgotten: SettlesAtNoneOnly by each_end_of_a_body_settles_once, "end Trailers: settled 0 times";
    a_call_is_settled_at_its_head_and_end: SettlesAtTheHead by each_end_of_a_body_settles_once, "settled 2 times";
    a_drop_skips_the_settlement: SettlesAfterAnAwait by a_future_dropped_after_any_poll_settles_once, "settled 0 times";
    a_failure_is_settled_twice: SettlesTwice by a_failed_call_settles_once, "settled 2 times";
    a_reservation_stays_open: ForgetsAReservation by each_end_of_a_body_settles_once, "reservations are left open";
    the_call_goes_on_without_its_caller: GoesOnDetached by a_future_dropped_after_any_poll_settles_once, "the inner call goes on";
}

#[test]
fn a_layer_that_joins_frames_may_say_so() {
    in_paused_time(async {
        let contract = contract(Fault::JoinsFrames).other_frames();
        testkit::contract::bodies_pass_unchanged(&contract).await;
    });
}

#[test]
fn a_layer_that_rewrites_bytes_may_announce_no_length() {
    in_paused_time(async {
        let contract = contract(Fault::LosesTheSizeHint).inexact_size();
        testkit::contract::bodies_pass_unchanged(&contract).await;
    });
}

#[test]
#[should_panic(expected = "answered 200 OK by a failed service")]
fn a_layer_that_handles_errors_may_not_call_them_a_success() {
    in_paused_time(async {
        let contract = contract(Fault::HidesErrors).handles_errors();
        testkit::contract::a_failed_call_settles_once(&contract).await;
    });
}

"""Stop requests: the first signal is a request, the second ends the process."""

from __future__ import annotations

import signal
import threading

import pytest

from seq2see.training.loop import StopRequest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_a_request_and_the_second_ends_the_process(number):
    with StopRequest() as stop:
        assert not stop
        signal.raise_signal(number)
        assert stop
        assert stop.number == number
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(number)
    assert caught.value.code == 128 + number


def test_afterwards_signals_have_their_previous_handlers():
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with StopRequest():
        assert signal.getsignal(signal.SIGTERM) not in before
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_thread_without_signals_can_train_all_the_same():
    """Python passes signals to the main thread alone, and refuses handlers from any other."""
    states = []

    def work():
        with StopRequest() as stop:
            states.append(bool(stop))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert states == [False]

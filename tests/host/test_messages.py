"""Bytes and JSON between processes."""

import socket

import pytest

from hcam.host import messages


def test_numbers_and_json_arrive_in_order_and_an_end_is_noticed():
    one, two = socket.socketpair()
    messages.send(one, 5)
    messages.send(one, messages.ERROR, {"text": "x" * 100_000})
    one.close()
    assert messages.receive(two) == (5, {})
    assert messages.receive(two) == (messages.ERROR, {"text": "x" * 100_000})
    with pytest.raises(messages.GoneError):
        messages.receive(two)
    with pytest.raises(messages.GoneError):
        messages.send(two, 1)
    two.close()

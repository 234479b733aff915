import io

import pytest

from gc_net.progress import track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """A second passes at each look at the clock."""
    seconds = iter(range(10**6))
    monkeypatch.setattr("time.monotonic", lambda: next(seconds))


def test_items_pass_through_and_a_log_stays_clean():
    stream = io.StringIO()
    assert list(track(iter("abc"), 3, "Reading", stream)) == ["a", "b", "c"]
    assert stream.getvalue() == ""


def test_a_terminal_shows_how_far_it_is_and_is_cleared():
    stream = Terminal()
    assert list(track(range(7200), 7200, "Reading", stream)) == list(range(7200))
    updates = stream.getvalue().split("\r")
    assert updates[1].startswith("Reading 1/7,200, 1:59:59 left")
    assert updates[7140].startswith("Reading 7,140/7,200, 1:00 left")
    assert updates[-1] == "\x1b[K"


def test_the_line_is_cleared_when_the_work_fails():
    def work():
        yield 1
        raise ValueError("broken")

    stream = Terminal()
    with pytest.raises(ValueError, match="broken"):
        list(track(work(), 5, "Reading", stream))
    assert stream.getvalue().endswith("\r\x1b[K")

"""Names of files that terminals, spreadsheets and file systems stumble over."""

import os

import pytest

from gc_net.data.cells import neutralized, restored
from gc_net.data.decode import IMAGE_EXTENSIONS, read_size
from gc_net.data.listing import list_folder
from gc_net.data.loading import Unreadable
from gc_net.data.names import printable
from gc_net.data.splits import ImageError
from tests.data import encoded


@pytest.mark.parametrize(
    "name, shown",
    [
        ("a b.jpg", "a b.jpg"),
        ("ä日.jpg", "ä日.jpg"),
        ("a\nb.jpg", r"a\nb.jpg"),
        ("\x1b[2Ja.jpg", r"\x1b[2Ja.jpg"),
        ("a\u202egpj.exe", r"a\u202egpj.exe"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_escaped(name, shown):
    assert printable(name) == shown
    unreadable = Unreadable()
    unreadable.add(name, "damaged")
    assert unreadable.summary().splitlines()[1:] == [f"  {shown}: damaged"]


@pytest.mark.parametrize("start", "=+-@")
def test_cells_that_look_like_formulas_are_neutral_and_come_back(start):
    for text in (f"{start}1+1", f"'{start}1", f"''{start}1", start):
        assert neutralized(text) == f"'{text}"
        assert restored(neutralized(text)) == text


@pytest.mark.parametrize("text", ["", "a", "'", "'a", "a=b", "1-2"])
def test_other_cells_stay_as_they_are(text):
    assert neutralized(text) == restored(text) == text


def test_a_link_to_itself_is_an_image_that_cannot_be_opened_and_ends_nothing(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded.encode(".png", encoded.picture()))
    for name in ("loop.jpg", "loop", "loop.txt"):
        os.symlink(name, tmp_path / name)
    listing = list_folder(tmp_path, IMAGE_EXTENSIONS)
    assert listing.files.tolist() == [b"a.png", b"loop.jpg"]
    with pytest.raises(ImageError, match="cannot be opened"):
        read_size(tmp_path / "loop.jpg")

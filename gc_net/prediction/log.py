"""Predictions that are written to disk at once, so that an interrupted run can resume."""

import json
import os
from collections.abc import Mapping
from typing import Any

from gc_net.atomic_files import remove_partial
from gc_net.locks import try_lock
from gc_net.prediction.prediction import Prediction

LOG_FILE = "predictions.jsonl"


class PredictionLog:
    """A file with a line of JSON for each image, after a first line with the settings.

    An image that is predicted again, because its file has changed, gets another line, which counts.

    While it is open, no other process can open the log of the same folder and write to it.

    Args:
        folder: Output folder. It is made if necessary; a folder with other content is refused.
        header: Dict that predictions in the log depend on; a log with another header is refused.

    Example:
        with PredictionLog("out", {"model": "..."}) as log:
            log.append("a.jpg", prediction, os.path.getsize("a.jpg"))
        for file, prediction in log:
            ...
    """

    def __init__(self, folder: str, header: Mapping[str, Any]):
        self.path = os.path.join(folder, LOG_FILE)
        self.header = {"gc_net_predictions": 1, **header}
        self._last: dict[str, int] | None = None  # the line of each file, while none is added
        os.makedirs(folder, exist_ok=True)
        names = os.listdir(folder)
        if names and LOG_FILE not in names:
            raise ValueError(
                f"The output folder {folder} is not empty and holds no {LOG_FILE} to continue. "
                "Choose a new folder."
            )
        self._file = open(self.path, "ab")  # noqa: SIM115, closed by __exit__
        try:
            self._begin(folder)
        except BaseException:
            self._file.close()
            raise

    def _begin(self, folder):
        # Before the log is read: another process may be writing to it.
        if not try_lock(self._file):
            raise ValueError(
                f"The output folder {folder} is in use: another process is writing predictions to "
                "it. Wait for it or stop it, then run the same command again, which continues from "
                "what is there; or choose another output folder."
            )
        remove_partial(folder)
        end = self._check()
        # A line that was incomplete when the run ended is written again.
        self._file.truncate(end)
        if end == 0:
            self._write([json.dumps(self.header, ensure_ascii=False)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def append(self, file: str, prediction: Prediction, num_bytes: int | None = None) -> None:
        """Add the `Prediction` of a file of so many bytes; it is on disk when this returns."""
        self._last = None
        source = json.dumps({"file": file, "bytes": num_bytes}, ensure_ascii=False)
        self._write([f"{source[:-1]}, {prediction.to_json()[1:]}"])

    def files(self) -> dict[str, int | None]:
        """Return the files that have been predicted: {name: bytes}, None if unknown."""
        return {fields["file"]: fields.get("bytes") for fields in self._records()}

    def __iter__(self):
        """Iterate over (file, `Prediction`)."""
        if self._last is None:
            self._last = {fields["file"]: at for at, fields in enumerate(self._records())}
        last = self._last
        for number, fields in enumerate(self._records()):
            file = fields.pop("file")
            fields.pop("bytes", None)  # not in logs from before it was recorded
            if last[file] == number:
                try:
                    yield file, Prediction.from_json(fields)
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    raise self._damaged(number, error) from error

    def _records(self):
        with open(self.path, "rb") as file:
            next(file)
            for number, line in enumerate(file):
                try:
                    fields = json.loads(line)
                    if not isinstance(fields["file"], str):
                        raise TypeError("its file is no text")
                except (KeyError, TypeError, ValueError, RecursionError) as error:
                    raise self._damaged(number, error) from error
                yield fields

    def _damaged(self, number, error):
        # The first line is the header, and people count from 1.
        return ValueError(
            f"{self.path}, line {number + 2}: damaged ({error!r:.200}). Delete that line and run "
            "the same command again, which predicts its image again; or choose another output "
            "folder."
        )

    def _write(self, lines):
        self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        self._file.flush()

    def _check(self):
        """Return where the last whole line ends; 0 where not even the first is whole."""
        with open(self.path, "rb") as file:
            first = file.readline()
            if not first.endswith(b"\n"):
                return 0
            self._compare(first)
            end = file.tell()
            for line in file:
                if line.endswith(b"\n"):
                    end += len(line)
            return end

    def _compare(self, first):
        try:
            found = json.loads(first)
        except ValueError:
            found = {}
        different = [key for key in self.header if found.get(key) != self.header[key]]
        if different:
            raise ValueError(
                f"{self.path} was made with other settings: "
                + "; ".join(
                    f"{key} was {found.get(key)!r}, now {self.header[key]!r}" for key in different
                )
                + ". Choose a new output folder, or delete this one to start again."
            )

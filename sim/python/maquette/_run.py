# SPDX-License-Identifier: Apache-2.0
"""Runs the program and reads what it prints: arguments, results, exceptions."""
from __future__ import annotations

import html
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Union

PathLike = Union[str, "os.PathLike[str]"]
#: A model: a name, a file, a configuration of Hugging Face as a dictionary or as transformers has it.
Model = Union[PathLike, "Mapping[str, Any]", Any]
#: A repeatable option: one value, several, or a mapping of keys to values (fix={"tp": 8}).
Many = Union[PathLike, "Sequence[PathLike]", "Mapping[str, Any]"]
#: A study: a file, or its keys (a list is an axis).
StudyLike = Union[PathLike, "Mapping[str, Any]"]


class Error(Exception):
    """The program could not answer; the text is its own message. `code` is its exit code."""

    code = 0

    def __init__(self, message: str, result: Optional["Result"] = None):
        super().__init__(message)
        #: what was printed all the same, or None
        self.result = result


class NoPlanError(Error):
    """No plan is feasible, or the one asked about is not: `result` says what was tried."""
    code = 1


class InputError(Error, ValueError):
    """An option, a file or a value is wrong."""
    code = 2


class MissingError(Error):
    """A device or a library is not there."""
    code = 3


class StoppedError(Error):
    """A time-out, a dead rank or a simulator that died."""
    code = 4


class ThresholdError(Error):
    """An error is above the threshold that was given."""
    code = 5


class ProgramError(Error):
    """A bug of the program."""
    code = 70


class Interrupted(KeyboardInterrupt):
    """Stopped by the keyboard; `result` has the plans so far, or is None."""

    def __init__(self, result: Optional["Result"]):
        super().__init__("interrupted")
        self.result = result


ERRORS = {kind.code: kind for kind in (NoPlanError, InputError, MissingError, StoppedError, ThresholdError)}


def program(name: str = "maquette") -> str:
    """The path of the program that runs: $MAQUETTE, the one in this package, or the one in $PATH."""
    asked = os.environ.get("MAQUETTE")
    if asked:
        found = shutil.which(asked)
        if not found:
            raise MissingError(f"MAQUETTE={asked}: no such program; name the one to run, or unset it")
        return str(Path(found).with_name(name))
    own = Path(__file__).parent / "prefix" / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if not found:
        raise MissingError(f"no program '{name}' in this package or in PATH; install the wheel that `make wheel` makes")
    return found


def main() -> NoReturn:
    """The program itself, as a script of the environment."""
    path = program(Path(sys.argv[0]).name)
    os.execv(path, [path] + sys.argv[1:])


def version() -> str:
    """What `maquette --version` says."""
    out = subprocess.run([program(), "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout
    return out.split(maxsplit=1)[1].strip()


class _Folder:
    """A folder for results: the caller's, or one that goes when the last result does that needs it."""

    def __init__(self, path: Optional[PathLike] = None):
        self.path = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="maquette-"))
        if path is None:
            self._end = weakref.finalize(self, shutil.rmtree, str(self.path), True)

    def write(self, name: str, text: str) -> str:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"output {self.path}: {error.strerror}; give a folder that can be written")
        return str(self.path / name)


def _frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    try:
        import pandas
    except ImportError:
        raise MissingError("a data frame needs pandas, which is not installed; rows() gives a list of dictionaries")
    return pandas.DataFrame([dict(row) for row in rows])


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    keys = list(dict.fromkeys(key for row in rows for key in row if not isinstance(row[key], (dict, list))))
    cell = lambda v: f"{v:.6g}" if isinstance(v, float) else "" if v is None else str(v)
    head = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell(row.get(key)))}</td>" for key in keys) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class _Printed:
    """What a command printed with --json."""

    def __init__(self, data: Any, messages: str, folder: Optional[_Folder], command: List[str]):
        #: the parsed JSON
        self.data = data
        #: what the program said beside it: notes and warnings
        self.messages = messages
        #: the command line that ran
        self.command = command
        self._folder = folder

    @property
    def folder(self) -> Optional[Path]:
        """Tables, plans and the report; a folder of its own lasts as long as this object."""
        return self._folder.path if self._folder else None

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.data!r})"

    def rows(self) -> List[Dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(self.data)] if isinstance(self.data, dict) else list(self.data)

    def to_frame(self) -> Any:
        """The rows as a pandas.DataFrame; MissingError where pandas is not installed."""
        return _frame(self.rows())

    def report(self) -> Optional[str]:
        """The report, a page that fetches nothing; None where the command wrote none."""
        path = self.folder / "report.html" if self.folder else None
        return path.read_text() if path and path.exists() else None

    def _repr_html_(self) -> str:
        page = self.report()
        if page is None:
            return _table(self.rows())
        return (f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 40em; border: 0" '
                'sandbox="allow-scripts"></iframe>')


class Result(_Printed, Mapping):
    """An object, read like a dictionary."""


class Rows(_Printed, Sequence):
    """Rows: a sequence of dictionaries."""


class Tables(Result):
    """Tables by name, each a list of rows; rows() and to_frame() are those of the first, or of `name`."""

    def rows(self, name: Optional[str] = None) -> List[Dict[str, Any]]:
        return list(self.data[name if name is not None else next(iter(self.data))]) if self.data else []

    def to_frame(self, name: Optional[str] = None) -> Any:
        """One table as a pandas.DataFrame; MissingError where pandas is not installed."""
        return _frame(self.rows(name))


class Study(Tables):
    """The points of a what-if study."""


class Simulation(Result):
    """One plan simulated: step time, memory, what bounds it."""


class Text(str):
    """What a command printed that has no JSON; `messages` is what it said beside it."""
    messages = ""
    folder: Optional[Path] = None


class Plan(Result):
    """A plan that a search kept: its row, and its file."""

    @property
    def path(self) -> Path:
        """The plan's file, which simulate(), export() and diff() take."""
        return self.folder / f"plan-{self['rank']}.json"

    def __fspath__(self) -> str:
        return str(self.path)

    def export(self, to: str, output: Optional[PathLike] = None, **options: Any) -> "Text":
        """Launch settings for a software: export(plan, to=...)."""
        return call("export", dict(plan=self.path, to=to, output=output, **options), ["plan"])

    def simulate(self, **options: Any) -> "Simulation":
        """This plan again, with other options: a trace, a timeline, jitter ..."""
        return call("simulate", dict(plan=self.path, **options), prints_json=True)

    def _repr_html_(self) -> str:
        return _table([self.data])


class Search(Result):
    """The plans that a search kept, best first."""

    @property
    def plans(self) -> List[Plan]:
        """The plans kept, best first."""
        return [Plan(row, self.messages, self._folder, self.command) for row in self.data.get("plans", [])]

    @property
    def best(self) -> Plan:
        """The best plan; NoPlanError where none is feasible."""
        if not self.data.get("plans"):
            raise NoPlanError("no feasible plan", self)
        return self.plans[0]

    def rows(self) -> List[Dict[str, Any]]:
        return list(self.data.get("plans", []))

    def export(self, to: str, plan: int = 1, output: Optional[PathLike] = None, **options: Any) -> "Text":
        """The best plan, or number `plan`, as launch settings of a software."""
        if not 1 <= plan <= len(self.rows()):
            raise InputError(f"plan {plan}: give a number from 1 to {len(self.rows())}")
        return self.plans[plan - 1].export(to, output, **options)


# What a command's JSON is.
RESULTS = {"search": Search, "simulate": Simulation, "whatif": Study, "recommend": Tables, "score": Tables, "fit": Tables,
           "validate": Tables, "support": Rows, "list": Rows, "diff": Rows}
NEED_FOLDER = {"search", "whatif", "recommend"}


def _model_file(model: Any, folder: _Folder, name: str = "config.json") -> str:
    """A configuration as a dictionary, or an object of transformers, becomes a file."""
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if hasattr(model, "to_dict"):
        model = model.to_dict()
    if not isinstance(model, Mapping):
        raise InputError(f"model {type(model).__name__}: give a name, a file, a dictionary or a transformers configuration")
    for key, value in model.items():
        if isinstance(value, float) and math.isnan(value):
            raise InputError(f"model: {key!r} is NaN; give a number, or leave it out")
    return folder.write(name, json.dumps(dict(model), default=str))


def _study_file(study: Any, folder: _Folder) -> str:
    if isinstance(study, (str, os.PathLike)):
        return os.fspath(study)
    lines = []
    for key, value in study.items():
        if key == "gpus":
            key = "platform"
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if key == "model":
            values = [_model_file(v, folder, f"config-{i}.json" if i else "config.json") for i, v in enumerate(values)]
        lines.append(f"{key} = {('; ' if key == 'model' else ', ').join(_text(v) for v in values)}\n")
    return folder.write("study.ini", "".join(lines))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _arguments(options: Mapping[str, Any]) -> List[str]:
    """--key=value for each keyword that was given; a list or a mapping is the option several times."""
    argv = []
    for key, value in options.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        if isinstance(value, Mapping):
            argv += [f"{name}={k}={_text(v)}" for k, v in value.items()]
        elif isinstance(value, (list, tuple)):
            argv += [f"{name}={_text(v)}" for v in value]
        elif value is True:
            argv.append(name)
        elif value is not None and value is not False:
            argv.append(f"{name}={_text(value)}")
    return argv


def _execute(argv: List[str]) -> "tuple[int, str, str, bool]":
    """Exit code, standard output, standard error, and whether the keyboard stopped it: it then ends by itself."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    stopped = False
    while True:
        try:
            out, err = process.communicate()
            return process.returncode, out, err, stopped
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            stopped = True
        except BaseException:
            process.kill()
            raise


def _message(command: str, err: str) -> str:
    """The line that names the error."""
    lines = [line for line in err.splitlines() if line.startswith(f"maquette {command}: ")]
    return lines[-1].split(": ", 1)[1] if lines else err.strip() or "the program died without a word"


def call(command: str, options: Mapping[str, Any], words: Sequence[str] = (), prints_json: bool = False) -> Any:
    """Runs a command: `options` as keywords of its function, of which `words` are those without `--`."""
    given = {key: value.path if isinstance(value, Plan) else value for key, value in options.items()
             if value is not None and value is not False}
    if "gpus" in given and command != "platform":  # there it is a machine's number of them
        if "platform" in given:
            raise InputError("gpus and platform are the same: give one")
        given["platform"] = given.pop("gpus")
    output = given.get("output")
    is_folder = command in NEED_FOLDER or (command == "simulate" and output is not None)
    # A question that is no file yet is written where the results are: they refer to it.
    own = command in NEED_FOLDER or not isinstance(given.get("model", ""), (str, os.PathLike)) or \
        isinstance(given.get("study"), Mapping)
    folder = _Folder(output if is_folder else None) if own or is_folder else None
    if "model" in given and folder:
        given["model"] = _model_file(given["model"], folder)
    if "study" in given and folder:
        given["study"] = _study_file(given["study"], folder)
    if command in NEED_FOLDER:
        given["output"] = folder.path
    argv = [program(), command] + [word for word in words if word == "generate"]
    for word in words:
        value = given.pop(word, None)
        if value is not None:
            many = value if isinstance(value, (list, tuple)) else \
                [f"{k}={_text(v)}" for k, v in value.items()] if isinstance(value, Mapping) else [value]
            argv += [_text(v) for v in many]
    kind = RESULTS.get(command, Result) if prints_json and not given.get("check") else None
    argv += _arguments(given) + (["--json"] if kind else [])
    code, out, err, stopped = _execute(argv)
    result: Any
    if kind:
        try:
            result = kind(json.loads(out), err, folder, argv) if out.strip() else None
        except ValueError:
            result = None
    else:
        result = Text(out)
        result.messages = err
        result.folder = Path(output) if output is not None else None
    if stopped:
        raise Interrupted(result)
    for line in err.splitlines():
        if line.startswith("note: ") and ("model" in given or "different questions" in line):
            warnings.warn(line[len("note: "):], stacklevel=3)
    if code:
        reason = result.data.get("reason", "").strip() if isinstance(result, Search) else \
            result.strip() if given.get("check") else ""
        raise ERRORS.get(code, ProgramError)("\n".join(filter(None, [_message(command, err), reason])), result)
    if kind and result is None:
        raise ProgramError(f"maquette {command} printed no JSON: {out[:200]!r}")
    return result

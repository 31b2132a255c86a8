"""The command-line program: its commands and exit codes.

Exit codes: 0 success, 1 failure, 2 usage error, 3 if `drift` found any, 130 interrupted. A failure
is reported in one line with a hint; ``--debug`` shows the traceback.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from tanager import __version__
from tanager.cli.options import AUDIT_REMEDY, as_command, written_here
from tanager.errors import ColumnWarning, ConfigurationError, TanagerError
from tanager.escaping import visible
from tanager.registry import describe_plugin, load_plugin, plugin_names

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

# Each command's module and the first line of its help, so that ``tanager --help`` imports none.
COMMANDS = {
    "audit": ("fit", "Inspect a table's columns, and show how a fit reads each of them."),
    "fit": ("fit", "Learn a classifier from a table and write it to a model file."),
    "predict": ("predict", "Classify the rows of a table."),
    "decide": ("predict", "Choose the action with the lowest expected cost for each row."),
    "score": ("predict", "Evaluate a model on rows with known classes."),
    "show": ("show", "Show what a model has learned: structure, features, tables."),
    "explain": ("ask", "Explain a prediction: each feature's contribution to the log-odds."),
    "ask": ("ask", "Query the network: any features or the class, given any others."),
    "sample": ("ask", "Sample rows from the network, with the training data's columns."),
    "draw": ("export", "Plot the network, or one of its probability tables."),
    "export": ("export", "Export a model to SQL, ONNX, JSON, JavaScript, C, BIF or Graphviz."),
    "import": ("export", "Import another program's network as a classifier."),
    "report": ("export", "Write an HTML report of a model."),
    "drift": ("export", "Detect drift: compare new rows with a model's training data."),
    "demo": ("show", "Train on an example dataset and show the result."),
    "compare": ("laboratory", "Compare classifiers on several datasets, with significance tests."),
    "evaluate": ("laboratory", "Estimate a classifier's performance by cross-validation."),
}
CONTEXT = {"help_option_names": ["-h", "--help"]}


class Program(typer.core.TyperGroup):
    """The built-in commands and those that installed packages add, loaded lazily."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, built-in ones first."""
        return [*COMMANDS, *(n for n in plugin_names("tanager.commands") if n not in COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a command by its name, or None."""
        if cmd_name in COMMANDS:
            module = import_module(f"tanager.cli.{COMMANDS[cmd_name][0]}")
            function = getattr(module, "import_network" if cmd_name == "import" else cmd_name)
        else:
            function = load_plugin("tanager.commands", cmd_name)
        if function is None:
            return None
        alone = typer.Typer(add_completion=False, context_settings=CONTEXT)
        alone.command(cmd_name)(as_command(function))
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without importing any."""
        names = self.list_commands(ctx)
        added = {n: describe_plugin("tanager.commands", n) for n in names if n not in COMMANDS}
        lines = {name: line for name, (_, line) in COMMANDS.items()} | added
        with formatter.section("Commands"):
            formatter.write_dl(list(lines.items()))


app = typer.Typer(
    name="tanager",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
    rich_markup_mode=None,  # the boxes in the commands' own help are slow to import
)


def _version(asked: bool) -> None:
    if asked:
        print(f"tanager {__version__}")
        raise typer.Exit


@app.callback()
def tanager(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback on errors.")
    ] = False,
) -> None:
    """Bayesian network classifiers: calibrated, explainable probabilities from any table.

    A first look: tanager demo. Then: tanager fit train.csv --target y -o model.tanager
    """


def main() -> NoReturn:
    """Run the program on the arguments it was called with, and exit."""
    # Clean up on termination as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or bool(os.environ.get("TANAGER_DEBUG"))
    given = [argument for argument in given if argument != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ColumnWarning)
            warnings.showwarning = _show_warning  # type: ignore[assignment]
            with _notes():
                result = typer.main.get_command(app).main(given, "tanager", standalone_mode=False)
        if result == INTERRUPTED:  # the parser turns Ctrl-C into this code
            raise KeyboardInterrupt
        return result if isinstance(result, int) else DONE
    except BaseException as error:
        usage = hasattr(error, "format_message") or isinstance(error, ConfigurationError)
        if debug and not usage:
            raise
        return _tell(error)


@contextmanager
def _notes() -> Iterator[None]:
    """Print the library's log messages the same way as its warnings."""
    handler = logging.Handler(logging.WARNING)

    def emit(record: logging.LogRecord) -> None:
        slow = record.name == "tanager.progress" and record.args
        # The slow-work notice, without its hint for Python users.
        _say(f"note: {next(iter(slow))}." if slow else f"note: {record.getMessage()}")

    handler.emit = emit  # type: ignore[method-assign]
    log = logging.getLogger("tanager")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _show_warning(message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Print Tanager's own warnings in one line, and others as Python does."""
    if category.__module__.partition(".")[0] == "tanager":
        if findings := getattr(message, "findings", ()):
            from tanager.classifiers.fitting import tell_findings

            message = tell_findings(findings, AUDIT_REMEDY)
        _say(f"note: {message}")
    else:
        print(warnings.formatwarning(message, category, *place[:2]), end="", file=sys.stderr)


def _tell(error: BaseException) -> int:
    """Print what went wrong in one line, and return the exit code."""
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        _say("interrupted; no partial files were left behind.")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
        # The reader of our output closed the pipe, as `head` does, which the parser turns into
        # exit code 1. Python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    if hasattr(error, "format_message"):  # a usage error from the parser
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message())
            return USAGE
        command = getattr(getattr(error, "ctx", None), "command_path", "tanager")
        text = error.format_message().rstrip()
        text += "" if text.endswith((".", "?", "!")) else "."
        _say(f"{text}{_hint(error)} Try '{command} --help'.")
        return USAGE
    match error:
        case SystemExit():
            return error.code if isinstance(error.code, int) else FAILED
        case TanagerError():
            text = written_here(error)
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            why = f"{where}{error.strerror or error}"
            text = f"{why}. Check the path, its permissions and the disk."
        case MemoryError():
            text = "out of memory. Use fewer parents, fewer columns, or files instead of one table."
        case ModuleNotFoundError():
            name = str(error.name).partition(".")[0]
            text = f"this needs {name}, which is not installed. Install it: pip install {name}"
        case _:
            text = f"{type(error).__name__}: {error}. Run again with --debug to see where."
    _say(text)
    return USAGE if isinstance(error, ConfigurationError) else FAILED


def _hint(error: BaseException) -> str:
    """Return a hint where a missing command or option can be found."""
    if "No such command 'reproduce'" in str(error):
        return " It is part of the package tanager-papers: run pip install ./papers in a checkout."
    option = getattr(error, "option_name", None)
    if option in ("--categorical", "--dates", "--ordered", "--monotonic"):
        return " The model file records how to read its columns; this option belongs to fit."
    return ""


def _say(text: str) -> None:
    print("tanager:", visible(" ".join(text.split())), file=sys.stderr)

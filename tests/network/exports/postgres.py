"""A PostgreSQL server of the test's own, where the program is installed."""

from __future__ import annotations

import csv
import io
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pyarrow as pa

TYPES = {pa.float64(): "float8", pa.string(): "text", pa.int64(): "bigint", pa.bool_(): "boolean"}


def find_programs() -> Path | None:
    """Return the folder of initdb and pg_ctl, which Debian keeps out of the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "psql").exists()), None)


def find_user() -> str | None:
    """Return who runs the server: it refuses to be run by root. None: there is nobody."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


class Server:
    """Started in a folder of its own, reached by a socket there; no network."""

    def __init__(self) -> None:
        self.programs = find_programs()
        self.user = find_user()
        self.folder = Path(tempfile.mkdtemp(prefix="tanager_pg_"))
        shutil.chown(self.folder, self.user)
        self.run("initdb", "-D", "data", "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync")
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self.run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        """Run a program as the server's user; returns what it prints."""
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self.folder,
            user=self.user if os.geteuid() == 0 else None,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": str(self.folder)},
            input=text.encode(),
            capture_output=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return done.stdout.decode()

    def query(self, table: pa.Table, statement: str) -> list[list[str]]:
        """Load a table as ``rows`` and return the statement's result, cells as text."""
        quoted = ['"' + name.replace('"', '""') + '"' for name in table.column_names]
        types = [TYPES[kind] for kind in table.schema.types]
        columns = ", ".join(map(" ".join, zip(quoted, types, strict=True)))
        lines = zip(*(column.to_pylist() for column in table.columns), strict=True)
        content = "\n".join(",".join(map(_cell, line)) for line in lines)
        script = (
            f"CREATE TEMP TABLE rows ({columns});\n"
            f"COPY rows FROM STDIN WITH (FORMAT csv);\n{content}\n\\.\n"
            f"COPY (\n{statement}\n) TO STDOUT WITH (FORMAT csv);\n"
        )
        options = (
            "-h",
            str(self.folder),
            "-U",
            "tester",
            "-d",
            "postgres",
            "-v",
            "ON_ERROR_STOP=1",
        )
        shown = self.run("psql", "-X", "-q", *options, "-f", "-", text=script)
        return list(csv.reader(io.StringIO(shown)))

    def stop(self) -> None:
        """Stop the server and remove its folder."""
        try:
            self.run("pg_ctl", "-D", "data", "-m", "immediate", "stop")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _cell(value: object) -> str:
    """Return a cell of CSV: NULL is nothing at all, an empty text is two quotes."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "NaN" if value != value else repr(value)
    return '"' + str(value).replace('"', '""') + '"'

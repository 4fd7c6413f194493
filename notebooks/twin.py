"""Call kvtwin from a notebook and get its JSON back. No model logic lives here or in the notebooks."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("KVTWIN", str(ROOT / "build" / "kvtwin"))
KEPT = ROOT / "build" / "notebooks"


def config(name):
    """Path of a shipped configuration."""
    return str(ROOT / "configs" / name)


def keep(name):
    """Path for a file that a notebook makes."""
    KEPT.mkdir(parents=True, exist_ok=True)
    return str(KEPT / name)


def kvtwin(command, *arguments, settings=(), as_text=False):
    """Run `kvtwin COMMAND ARGUMENT... --set S...`; its JSON as a dict, or its text.

    A negative answer (exit code 1) is a result like others; anything above raises with what the
    program said.
    """
    line = [PROGRAM, command, *arguments]
    for setting in settings:
        line += ["--set", setting]
    if not as_text:
        line += ["--format", "json"]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode > 1:
        raise RuntimeError(done.stderr.strip())
    return done.stdout if as_text else json.loads(done.stdout)

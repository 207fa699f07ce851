"""What other distributions add to the command, and what happens where nobody adds anything."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from binaryrelax.cli import run
from binaryrelax.cli.plugins import COMMANDS, NETWORKS, Plugins


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A stranger's module with one command that works, and one that cannot be loaded."""
    (tmp_path / "stranger.py").write_text(
        "def hello():\n    'Say hello.'\n    print('hello')\n\n"
        "def nothing_known(path):\n    return None\n\n"
        "number = 3\n\n"
        "def odd(x: 'NoSuchType'):\n    pass\n\n"
        "def fails(path):\n    return 1 / 0\n\n"
        "def gives_a_number(path):\n    return 3\n\n"
        "def refuses(path):\n    raise ValueError('not finished')\n"
    )
    (tmp_path / "broken.py").write_text("raise RuntimeError('line one\\nline two')")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit('need a GPU')")
    (tmp_path / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def invoke(monkeypatch, capsys, plugins, *arguments):
    """Exit status, output and errors of the command."""
    monkeypatch.setattr(sys, "argv", ["binaryrelax", *map(str, arguments)])
    try:
        status = run(plugins)
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_command_of_a_stranger_is_offered(module, monkeypatch, capsys):
    plugins = Plugins((EntryPoint("hello", "stranger:hello", COMMANDS),))
    assert invoke(monkeypatch, capsys, plugins, "hello") == (0, "hello\n", "")
    assert "Say hello." in invoke(monkeypatch, capsys, plugins, "--help")[1]


@pytest.mark.parametrize(
    "value",
    ["broken:x", "stranger:absent", "nowhere:x", "stranger:number", "stranger:odd", "leaving:x"],
)
def test_a_broken_plugin_is_one_line_and_takes_nobody_down(value, module, monkeypatch, capsys):
    broken = EntryPoint("train", value, COMMANDS)
    plugins = Plugins((broken, EntryPoint("hello", "stranger:hello", COMMANDS)))
    status, said, errors = invoke(monkeypatch, capsys, plugins, "hello")
    assert (status, said, errors.count("\n")) == (0, "hello\n", 1)
    assert "cannot provide 'train'" in errors and "repair or remove it" in errors
    status, _, errors = invoke(monkeypatch, capsys, plugins, "train")
    assert status == 1
    assert errors.endswith("binaryrelax: train cannot be loaded, see above\n")


def test_a_command_of_the_lab_says_what_to_install(monkeypatch, capsys):
    status, said, errors = invoke(monkeypatch, capsys, Plugins(()), "train", "demo-float")
    assert (status, said, errors.count("\n")) == (1, "", 1)
    assert "train is a command of binaryrelax-lab, which is not installed" in errors
    assert "pip install ./lab" in errors
    status, _, errors = invoke(monkeypatch, capsys, Plugins(()), "nonsense")
    assert status == 2 and "No such command 'nonsense'" in errors


def test_the_first_who_knows_a_network_is_asked(module, tmp_path, capsys):
    strangers = [
        EntryPoint("broken", "broken:x", NETWORKS),
        EntryPoint("none", "stranger:nothing_known", NETWORKS),
    ]
    assert Plugins(tuple(strangers)).find_network(tmp_path) is None
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["fails", "gives_a_number"])
def test_a_plugin_that_fails_is_named_and_the_next_one_asked(name, module, tmp_path, capsys):
    strangers = [
        EntryPoint("first", f"stranger:{name}", NETWORKS),
        EntryPoint("second", "stranger:refuses", NETWORKS),
    ]
    with pytest.raises(ValueError, match="not finished"):
        Plugins(tuple(strangers)).find_network(tmp_path)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "cannot provide 'first'" in said


def test_an_interrupt_while_plugins_load_is_one_line(module):
    """In a process of its own, which it ends."""
    code = (
        "from importlib.metadata import EntryPoint\nimport sys\nimport binaryrelax_command\n"
        "from binaryrelax.cli.plugins import Plugins\nsys.argv = ['binaryrelax', '--help']\n"
        f"slow = Plugins((EntryPoint('slow', 'slow:x', {COMMANDS!r}),))\n"
        "binaryrelax_command.main(lambda: slow)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=module, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, "binaryrelax: interrupted\n")


def test_installed_plugins_are_found():
    entries = Plugins.installed().entries
    assert {entry.group for entry in entries} <= {COMMANDS, NETWORKS}

"""The examples of docstrings and pages run, and print what they say."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

import esker
import esker._esker
import esker.aio
import esker.errors
import esker.plyvel

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "docs/guide/python.md", ROOT / "bindings/python/README.md"]


def documented():
    """Names and docstrings of all that have an example."""
    for module in (esker, esker._esker, esker.aio, esker.errors, esker.plyvel):
        places = {module.__name__: module}
        for name, thing in vars(module).items():
            if inspect.isclass(thing) or inspect.isroutine(thing):
                places[name] = thing
            if inspect.isclass(thing):
                places |= {f"{name}.{inner}": it for inner, it in vars(thing).items()}
        for name, thing in places.items():
            text = getattr(thing, "__doc__", None)
            if isinstance(text, str) and ">>>" in text:
                yield name, text


EXAMPLES = dict(documented())


def test_the_examples_are_found():
    assert len(EXAMPLES) > 25
    assert {"Keyspace", "Db.backup", "esker.aio", "esker.plyvel"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name, db, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example").mkdir()
    monkeypatch.chdir(tmp_path / "example")
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], {"db": db}, name, None, 0)
    found = []
    doctest.DocTestRunner().run(example, out=found.append)
    assert "".join(found) == ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def public(module):
    for name, thing in vars(module).items():
        if not name.startswith("_") and inspect.isclass(thing):
            yield name, thing
            for inner, it in vars(thing).items():
                if not inner.startswith("_") and callable(it):
                    yield f"{name}.{inner}", it


def test_all_exceptions_are_exported():
    assert set(esker.errors.__all__) < set(esker.__all__)
    assert set(esker.__all__) <= set(vars(esker))


def test_everything_public_is_documented():
    undocumented = [name for name, thing in public(esker) if not thing.__doc__]
    assert undocumented == []

"""What counts as the same code of users' modules, between processes and from run to run."""

from __future__ import annotations

import functools
import importlib
import pickle
import sys

import numpy as np
import pytest

from framefold.common._user_code import differing, facts, facts_of
from framefold.exceptions import UnsupportedError
from framefold.executor._wire.code import Code
from framefold.run.described import described

MODULE = """
import contextlib
import functools
import typing
from types import MappingProxyType

import numpy as np

def base(x):
    return x * {k}
def other(x):
    return x
def scaled(k):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) * k
        return wrapper
    return decorator
def bare(options):
    def decorator(function):
        def wrapper(*args):
            return function(*args) * options["k"]
        return wrapper
    return decorator
def counted(function):
    n, cache = 0, {{}}
    @functools.wraps(function)
    def wrapper(*args):
        nonlocal n
        n += 1
        cache[args] = function(*args)
        return cache[args]
    return wrapper
class Decorator:
    def __init__(self, function):
        functools.update_wrapper(self, function)
    def __call__(self, x):
        return self.__wrapped__(x) * {k}
class Class:
    @functools.cached_property
    def cached(self):
        return {k}
    times = functools.partialmethod(other, {k})
    def through(self):
        return self.cached
class Property:
    @property
    def level(self):
        return {k}
class Registered:
    made = []
    def __init__(self):
        self.made.append(len(self.made))
class Named(typing.NamedTuple):
    level: int = {k}
table = {{"registered": Registered, "base": other}}
"""
#: Values that the module has by these names.
VALUES = {
    "by_decorator": "scaled({k})(other)",
    "without_wraps": "bare({{'k': {k}}})(other)",
    "by_class": "Decorator(other)",
    "in_a_chain": "scaled(2)(functools.lru_cache(base))",
    "of_a_library": "contextlib.contextmanager(base)",
    "by_type": "functools.singledispatch(base)",
    "is_counted": "counted(base)",
    "in_a_dict": "{{'base': base}}",
    "in_a_list": "[(base,)]",
    "in_a_set": "{{other, base}}",
    "deep": "{{'a': {{'b': [base]}}}}",
    "in_a_proxy": "MappingProxyType({{'base': base}})",
    "in_an_array": "np.array([base, None])",
    "vectorized": "np.vectorize(base)",
    "masked": "np.ma.array([1, 2], mask=[{k} == 2, False])",
    "as_slice": "slice(0, {k})",
    "as_range": "range({k})",
    "as_partial": "functools.partial(base)",
    "as_argument": "functools.partial(map, base)",
    "as_default": "lambda x, function=base: function(x)",
    "instance": "Class()",
    "method": "Class().through",
    "with_a_property": "Property()",
    "objects": "[Property(), Property()]",
    "instances": "[Class()]",
    "named_tuple": "Named",
    "in_itself": "{{'base': base}}\nin_itself['self'] = [in_itself]",
}
MODULE += "".join(f"{name} = {value}\n" for name, value in VALUES.items())


@pytest.fixture
def module_of(tmp_path, monkeypatch):
    """Imports a module with this text, each time under the same name."""
    name = f"code_of_{tmp_path.name}"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def module_of(text):
        sys.modules.pop(name, None)
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield module_of
    sys.modules.pop(name, None)


@pytest.fixture
def load(module_of):
    """Imports the module, with another number in its functions."""
    return lambda k: module_of(MODULE.format(k=k))


@pytest.mark.parametrize("name", VALUES)
def test_other_code_is_seen_through_what_is_around_it(load, name):
    first = facts([(load(1), {name})])
    assert not list(differing(first, facts([(load(1), {name})])))
    assert list(differing(first, facts([(load(2), {name})])))


def test_another_function_of_a_known_name_is_seen(load):
    module = load(1)
    names = {"base", "other", "alias"}
    module.alias = module.base
    first = facts([(module, names)])
    module.alias = module.other
    assert f"{module.__name__}.alias" in differing(first, facts([(module, names)]))


def test_what_closures_keep_of_their_calls_is_no_other_code(load):
    module = load(1)
    for call in range(3):
        before = facts([(module, {"is_counted"})])
        module.is_counted(call)
        assert not list(differing(before, facts([(module, {"is_counted"})])))
        assert not list(differing(facts([(module, {"is_counted"})]), before))


def test_what_classes_in_tables_keep_is_no_other_code(load):
    module = load(1)
    before = facts([(module, {"table"})])
    module.Registered()
    assert not list(differing(before, facts([(module, {"table"})])))


def test_objects_in_tables_are_few_facts(load):
    module = load(1)
    module.objects += [module.Property() for _ in range(1000)]
    assert len(facts([(module, {"objects"})])) < 100


@pytest.mark.parametrize("code", ["getattr(m, 'base')", "vars(m)['base']", "m.in_a_dict['base']"])
def test_names_in_texts_count(load, code):
    def user(module):
        found = {"m": module}
        exec(f"def user(x):\n    return {code}(x)", found)
        return found["user"]

    assert described(user(load(1))) == described(user(load(1)))
    assert described(user(load(1))) != described(user(load(2)))


#: Functions of the same instructions.
SAME_INSTRUCTIONS = {
    "names of parameters": ("def value(a, b): return a - b", "def value(b, a): return b - a"),
    "a star": ("def value(*a): return len(a)", "def value(a): return len(a)"),
    "what is tried": (
        "def value(x):\n    try: x(1); x(2)\n    except KeyError: x(3)",
        "def value(x):\n    x(1)\n    try: x(2)\n    except KeyError: x(3)",
    ),
}


@pytest.mark.parametrize("codes", SAME_INSTRUCTIONS.values(), ids=SAME_INSTRUCTIONS)
def test_code_is_more_than_its_instructions(load, codes):
    module, instructions, known, texts = load(1), set(), [], set()
    for code in (*codes, codes[0]):
        exec(code, vars(module))
        instructions.add(module.value.__code__.co_code)
        known.append(facts([(module, {"value"})]))
        texts.add(described(module.value))
    assert len(instructions) == 1
    assert list(differing(*known[:2]))
    assert not list(differing(known[0], known[2]))
    assert len(texts) == 2


#: Of Python 3.13, the body of a class has the number of its first line in it.
CLASS_INSIDE = """
def value(frame):
    class Box:
        lines, y = %d, 3
        def method(self): self.a = self.b = self.c = 1
    return Box
"""


def test_lines_of_classes_in_functions_say_nothing(load):
    module, known, texts = load(1), [], []
    for n_lines, number in ((0, 3), (7, 3), (400, 3), (0, 4), (1, 4)):
        exec("\n" * n_lines + CLASS_INSIDE % number, vars(module))
        known.append(facts([(module, {"value"})]))
        texts.append(described(module.value))
    assert known[0] == known[1] == known[2] != known[3] == known[4]
    assert texts[0] == texts[1] == texts[2] != texts[3] == texts[4]


@pytest.mark.parametrize("value", [3, 3.5, "three", b"three"])
def test_what_numbers_and_texts_have_beside_is_seen(value):
    cls = type("Own", (type(value),), {})
    one, other = cls(value), cls(value)
    other.unit = "mm"
    assert described(one) == described(cls(value))
    assert described(one) != described(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("np.sum", "np.max"),
        ("np.add", "np.subtract"),
        ("np.add.reduce", "np.maximum.reduce"),
        ("functools.partial(np.add.reduce)", "functools.partial(np.maximum.reduce)"),
        ("[np.add.reduce]", "[np.maximum.reduce]"),
        ("','.join", "';'.join"),
        ("np.float32", "np.float64"),
        ("np.dtype('<i4')", "np.dtype('>i4')"),
        ("str.upper", "str.lower"),
        ("functools.partial(len)", "functools.partial(abs)"),
        ("[int]", "[float]"),
    ],
)
def test_another_function_or_dtype_of_a_library_is_seen(load, one, other):
    module, known, texts = load(1), [], set()
    for value in (one, other, one):
        exec(f"alias = {value}", vars(module))
        known.append(facts([(module, {"alias"})]))
        texts.add(described(module.alias))
    assert list(differing(*known[:2]))
    assert not list(differing(known[0], known[2]))
    assert len(texts) == 2


def test_what_partials_and_paths_of_ones_own_have_beside_is_seen():
    one, other = functools.partial(len), functools.partial(len)
    other.unit = "mm"
    assert described(one) == described(functools.partial(len)) != described(other)
    own = {"__fspath__": lambda self: "a"}
    paths = [type("Own", (), {**own, "to": to})() for to in (lambda self: 1, lambda self: 2)]
    assert len(set(map(described, paths))) == 2


def test_what_hides_its_function_is_refused():
    with pytest.raises(UnsupportedError, match=r"a ufunc of numpy\.frompyfunc"):
        described({"f": np.frompyfunc(lambda x: x + 1, 1, 1)})
    numba = pytest.importorskip("numba")
    parallel = numba.vectorize(["float64(float64)"], target="parallel")(lambda x: x + 1)
    with pytest.raises(UnsupportedError, match=r"the ufunc '<lambda>', which hides its function"):
        described({"f": parallel})
    assert described(np.add) == "ufunc numpy.add"


def test_what_numpy_vectorizes_is_the_same_after_a_call():
    def made(k, **options):
        return np.vectorize(lambda x: x * k, **options)

    called = made(2, otypes=[float])
    called(np.arange(3.0))
    assert described(called) == described(made(2, otypes=[float]))
    assert len({described(called), described(made(3, otypes=[float])), described(made(2))}) == 3


@pytest.mark.parametrize("above", ["", "# a line\n"])
@pytest.mark.parametrize("kind", ["int", "float"])
def test_where_classes_are_and_what_is_said_of_them_is_no_other_code(module_of, above, kind):
    source = """
import threading
{above}
lock = threading.Lock()
size: {kind} = 3
class Sized:
    size: {kind} = 3
    def of(self, x):
        return x * self.size
class Locked(Sized):
    size: {kind} = 3
    def of(self, x):
        with lock:
            return x
"""
    module = module_of(source.format(above="", kind="int"))
    text, found = described(module.Sized), facts_of(module.Sized)
    sent = pickle.dumps(Code(module.Locked))  # by its name, as locks cannot be sent
    other = module_of(source.format(above=above, kind=kind))
    assert described(other.Sized) == text
    assert not list(differing(facts_of(other.Sized), found))
    assert pickle.loads(sent) is other.Locked
